# `make demo` and `make test` work on a fresh machine; everything else is for development.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test native lint nightly clean

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet '.[dev,metadata,digits]'
	touch $@

clean:
	rm -rf build dist out .venv

# In-place build of the native module for development, with the Python that runs `make`.
native:
	mkdir -p build
	cmake -S micro_ops -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=Release -DTFLM_TRAIN_PYTHON=ON \
	  -DPython_EXECUTABLE=$$($(PYTHON) -c 'import sys; print(sys.executable)') > build/dev.log 2>&1 || \
	  { mkdir -p build; cat build/dev.log; exit 1; }
	cmake --build build/dev
	cp build/dev/_native*.so tflm_train/
