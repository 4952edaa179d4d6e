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
