# The sources of tflm-train for a make build with TFLM.
#
#   include path/to/tflm-train/micro_ops/tflm/tflm_train.mk
#   SRCS     += $(TFLM_TRAIN_SRCS)
#   CXXFLAGS += $(TFLM_TRAIN_CXXFLAGS)
#
# Inside TFLM's own Makefile an application's Makefile.inc includes it and passes the sources on:
#   $(eval $(call microlite_test,my_app,$(MY_SRCS) $(TFLM_TRAIN_SRCS),$(TFLM_TRAIN_HDRS)))
# called with EXTERNAL_DIR=path/to/tflm-train/ so that "micro_ops/..." is found.
#
# TFLM_TRAIN_KERNELS: portable (default), armv6m (Cortex-M0+) or helium (Cortex-M55).

TFLM_TRAIN_ROOT := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))/../..)
TFLM_TRAIN_KERNELS ?= portable

TFLM_TRAIN_SRCS := $(wildcard $(TFLM_TRAIN_ROOT)/micro_ops/core/*.cc \
  $(TFLM_TRAIN_ROOT)/micro_ops/trainer/*.cc $(TFLM_TRAIN_ROOT)/micro_ops/tflm/*.cc)
TFLM_TRAIN_HDRS := $(wildcard $(TFLM_TRAIN_ROOT)/micro_ops/core/*.h \
  $(TFLM_TRAIN_ROOT)/micro_ops/trainer/*.h $(TFLM_TRAIN_ROOT)/micro_ops/tflm/*.h)
TFLM_TRAIN_CXXFLAGS := -I$(TFLM_TRAIN_ROOT)

ifeq ($(TFLM_TRAIN_KERNELS),portable)
else ifneq ($(filter $(TFLM_TRAIN_KERNELS),armv6m helium),)
  TFLM_TRAIN_SRCS := $(filter-out %/train_kernels.cc,$(TFLM_TRAIN_SRCS)) \
    $(wildcard $(TFLM_TRAIN_ROOT)/micro_ops/$(TFLM_TRAIN_KERNELS)/*.cc)
  TFLM_TRAIN_HDRS += $(wildcard $(TFLM_TRAIN_ROOT)/micro_ops/$(TFLM_TRAIN_KERNELS)/*.h)
  TFLM_TRAIN_CXXFLAGS += -DTFLM_TRAIN_$(if $(filter armv6m,$(TFLM_TRAIN_KERNELS)),ARMV6M,HELIUM)
else
  $(error Expected TFLM_TRAIN_KERNELS portable, armv6m or helium, got $(TFLM_TRAIN_KERNELS))
endif
