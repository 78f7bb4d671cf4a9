# Two commands are enough on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A process for each core; one that has no tests left takes over some of another's.
PYTEST := $(BIN)/pytest --numprocesses logical --dist worksteal

.PHONY: demo test test-slow check bench format clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[dev,notebooks]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/acl-py demo

test: $(VENV)/ready
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/ready
	$(PYTEST) -m slow

check: $(VENV)/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest --quiet tests/test_layering.py

bench: $(VENV)/ready
	$(BIN)/python -m tests.bench

format: $(VENV)/ready
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
