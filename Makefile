# `make demo` and `make test` work on a fresh machine; everything else is for development.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(CURDIR)/$(VENV)/bin
JOBS   ?= 2

export TF_CPP_MIN_LOG_LEVEL = 3

.PHONY: tflm-test firmware firmware-tools firmware-bench firmware-test demo test lint unit wheel-test nightly native cpp-test format clean

SOURCES := pyproject.toml $(shell find tflm_train converters micro_ops \
  -name '*.py' -o -name '*.cc' -o -name '*.h' -o -name CMakeLists.txt)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The wheel of this tree in a venv of its own, as a user would install it.
$(BIN)/.installed: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) '.[digits]'
	touch $@

# The same with what the tests and the linters need.
$(BIN)/.installed-dev: $(BIN)/.installed
	$(PIP_INSTALL) '.[dev]'
	touch $@

# Convert, evaluate on rotated digits, fine-tune with each method, evaluate again, plot: under out/.
demo: $(BIN)/.installed
	$(BIN)/python examples/demo.py --output out/demo

test: lint unit

lint: $(BIN)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'micro_ops/**.h' 'micro_ops/**.cc')

# From a folder outside the tree, so that the installed wheel is what is tested.
unit: $(BIN)/.installed-dev
	mkdir -p out && cd out && $(BIN)/python -m pytest -q -n $(JOBS) --rootdir .. -c ../pyproject.toml ../tests -m 'not nightly'

nightly: $(BIN)/.installed-dev
	mkdir -p out && cd out && $(BIN)/python -m pytest -q -n $(JOBS) --rootdir .. -c ../pyproject.toml ../tests

format: $(BIN)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files 'micro_ops/**.h' 'micro_ops/**.cc')

# Firmware for the emulated boards: infer, train_priot and train_zo images under out/firmware.
firmware: $(BIN)/.installed
	mkdir -p out/firmware
	$(BIN)/tflm-train convert examples/models/tiny_cnn_s2.h5 --method priot --calibration digits \
	  --input-scale 0.00390625 --output out/firmware/tiny_cnn_s2.tflite
	cd out && $(BIN)/python -m tflm_train._firmware.images \
	  ../examples/models/mnist_cnn_int8.tflite firmware/tiny_cnn_s2.tflite --output firmware

# Cross compiler, QEMU and rp2040js: from the distribution as root, else what is there is used and
# the tests skip with the reason. Nothing is written into this folder.
firmware-tools: $(BIN)/.installed
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  command -v arm-none-eabi-g++ >/dev/null || packages="gcc-arm-none-eabi libstdc++-arm-none-eabi-dev"; \
	  command -v qemu-system-arm >/dev/null || packages="$$packages qemu-system-arm"; \
	  command -v npm >/dev/null || packages="$$packages nodejs npm"; \
	  if [ -n "$$packages" ]; then \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	      apt-get install -qq -y --no-install-recommends $$packages; } || \
	      echo "not installed: $$packages; what needs them is skipped"; \
	  fi; \
	fi
	@mkdir -p out
	@command -v npm >/dev/null && cd out && $(BIN)/python -m tflm_train._firmware.images --tools || true

# Cycles and instructions of a step under emulation, in a minute or two; the whole table of
# docs/firmware.md: `.venv/bin/python -m benchmarks firmware`.
firmware-bench: firmware-tools
	$(BIN)/python -m benchmarks firmware --steps 5 --nets tiny_cnn_s2 --json out/firmware_bench.json

firmware-test: firmware-tools $(BIN)/.installed-dev
	mkdir -p out && cd out && $(BIN)/python -m pytest -q -rs --rootdir .. -c ../pyproject.toml \
	  ../tests/firmware -m 'not nightly'

# Operators and trainers for TFLM on a stand-in, and inside a real TFLM when TFLM_ROOT (its sources),
# TFLM_LIB and TFLM_INCLUDES are given: docs/tflm.md, Tests.
export TFLM_ROOT TFLM_LIB TFLM_INCLUDES
tflm-test: firmware-tools $(BIN)/.installed-dev
	mkdir -p out && cd out && $(BIN)/python -m pytest -q -rs --rootdir .. -c ../pyproject.toml ../tests/tflm

clean:
	rm -rf build dist out .venv

# In-place build of the native module for development, with the Python that runs `make`.
native:
	mkdir -p build
	cmake -S micro_ops -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=Release -DTFLM_TRAIN_PYTHON=ON \
	  -DPython_EXECUTABLE=$$($(PYTHON) -c 'import sys; print(sys.executable)') > build/dev.log 2>&1 || \
	  { cat build/dev.log; exit 1; }
	cmake --build build/dev
	# A new file, not new bytes in the old one: running processes keep what they have mapped.
	install -m 755 build/dev/_native*.so tflm_train/

# Kernels and engine under AddressSanitizer and UndefinedBehaviorSanitizer, without Python.
cpp-test:
	mkdir -p build
	cmake -S micro_ops -B build/asan -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTFLM_TRAIN_PYTHON=OFF \
	  -DTFLM_TRAIN_HOST=ON -DTFLM_TRAIN_TESTS=ON -DTFLM_TRAIN_SANITIZE=ON > build/asan.log 2>&1 || \
	  { cat build/asan.log; exit 1; }
	cmake --build build/asan
	ctest --test-dir build/asan --output-on-failure
