# make demo   set everything up and run the demo: a real model, its cache, the dashboard at http://127.0.0.1:8501
# make observe ARGS='--vllm tcp://host:5557'   set up the page alone (no torch) and watch an engine that you have
# make test   set everything up and run every test; WORKERS=0 in one process, to debug
# make check  format, lint, types, import rules
# make kernels  compile every Triton kernel for GPUs that are not here, with two versions of Triton
#
# All of it lives in .venv; nothing is needed beforehand but Python 3.11+ and, for the browser tests, Chromium.

PYTHON ?= python3
ARGS ?=
# Processes that share the tests, for machines of two cores and more; 0: this one alone.
WORKERS ?= 2
VENV := .venv
# The oldest Triton that the kernels compile with, met on today's GPU machines: in a folder, beside the one of the tests.
OLDEST_TRITON := 3.6.0
OLDEST_TRITON_DIR := $(VENV)/triton-$(OLDEST_TRITON)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo observe test check kernels format clean

demo: $(VENV)/.demo-ready
	@$(BIN)/kvxray demo $(ARGS)

observe: $(VENV)/.page-ready
	@$(BIN)/kvxray observe $(ARGS)

# A file's tests stay together and in their order: they share what is dear, and some tell of those before them.
test: $(VENV)/.dev-ready
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

check: $(VENV)/.dev-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

kernels: $(VENV)/.dev-ready $(OLDEST_TRITON_DIR)/.ready
	$(BIN)/python -m benchmarks.compile_kernels $(ARGS)
	PYTHONPATH=$(OLDEST_TRITON_DIR) $(BIN)/python -m benchmarks.compile_kernels --triton $(OLDEST_TRITON) $(ARGS)

format: $(VENV)/.dev-ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "kvxray needs Python 3.11 or newer: run make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# pip's own output is kept quiet: a first set-up fetches a few hundred megabytes (torch is most of it).
$(VENV)/.page-ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up $(VENV) for the page: a minute or two."
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dashboard]'
	@touch $@

$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up $(VENV): the first time takes a few minutes."
	$(PIP) install --quiet --upgrade --constraint constraints.txt pip
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dashboard,engine]'
	@touch $@

$(VENV)/.dev-ready: $(VENV)/.demo-ready
	$(PIP) install --quiet --constraint constraints.txt --group dev
	@touch $@

# Whole or not at all: pip leaves half a package behind when it is interrupted.
$(OLDEST_TRITON_DIR)/.ready: | $(VENV)/bin/python
	rm -rf $(OLDEST_TRITON_DIR)
	$(PIP) install --quiet --no-deps --target $(OLDEST_TRITON_DIR) triton==$(OLDEST_TRITON)
	@touch $@
