# make demo   set everything up and run the demo: a real model, its cache, the dashboard at http://127.0.0.1:8501
# make test   set everything up and run every test
# make check  format, lint, types, import rules
#
# All of it lives in .venv; nothing is needed beforehand but Python 3.11+ and, for the browser tests, Chromium.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test check format clean

demo: $(VENV)/.demo-ready
	@$(BIN)/kvxray demo $(ARGS)

test: $(VENV)/.dev-ready
	$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.dev-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

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
$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up $(VENV): the first time takes a few minutes."
	$(PIP) install --quiet --upgrade --constraint constraints.txt pip
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dashboard,engine]'
	@touch $@

$(VENV)/.dev-ready: $(VENV)/.demo-ready
	$(PIP) install --quiet --constraint constraints.txt --group dev
	@touch $@
