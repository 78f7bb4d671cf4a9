# Two commands are enough on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A process for each core, so NumPy needs no threads; one that has no tests left takes over some of another's.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses logical --dist worksteal

.PHONY: demo test test-slow test-cuda test-onnx test-fast-core test-release test-all test-lowest check docs docs-quick browser mutants bench format clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[dev,notebooks]' $(PIP_OPTIONS)
	touch $@

demo: $(VENV)/ready
	$(BIN)/acl-py demo --report demo.html

test: $(VENV)/ready
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/ready
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile many

.venv-cuda/ready: pyproject.toml tests/cuda/constraints.txt
	$(PYTHON) -m venv .venv-cuda
	.venv-cuda/bin/pip install --quiet --editable '.[dev,notebooks,cuda]' numba-cuda --constraint tests/cuda/constraints.txt
	touch $@

# The tests that need packages for CUDA, which are skipped elsewhere. No GPU is needed.
test-cuda: .venv-cuda/ready
	.venv-cuda/bin/pytest --quiet --numprocesses logical -m "not slow" tests/cuda tests/card tests/samples/test_cuda_samples.py
	.venv-cuda/bin/pytest --quiet -k "11_cuda or README" tests/samples/test_notebooks.py tests/test_code_blocks.py

.venv-onnx/ready: pyproject.toml
	$(PYTHON) -m venv .venv-onnx
	.venv-onnx/bin/pip install --quiet --editable '.[dev,onnx]'
	touch $@

# The tests that need onnx and onnxruntime, which are skipped elsewhere.
test-onnx: .venv-onnx/ready
	.venv-onnx/bin/pytest --quiet --numprocesses logical tests/compat/test_onnx.py tests/compat/test_atc.py \
	    tests/compat/test_onnx_programs.py
	.venv-onnx/bin/pytest --quiet -k onnx_model tests/test_howto.py

FAST := .venv-fast
.PHONY: $(FAST)/core

$(FAST)/ready: pyproject.toml fast/pyproject.toml
	$(PYTHON) -m venv $(FAST)
	$(FAST)/bin/pip install --quiet --upgrade pip 'setuptools>=77' 'cython>=3.1'
	$(FAST)/bin/pip install --quiet --editable '.[dev,notebooks]'
	touch $@

# Compiles what has changed. The folder beside the environment's packages takes the place of an installation.
$(FAST)/core: $(FAST)/ready
	$(FAST)/bin/python fast/setup.py --quiet build --build-lib $(abspath $(FAST))/core

# The fast tests on the compiled core (fast/); needs a C compiler.
test-fast-core:
	@if command -v $${CC:-cc} > /dev/null; then \
	    $(MAKE) $(FAST)/core && \
	    PYTHONPATH=$(abspath $(FAST))/core OPENBLAS_NUM_THREADS=1 $(FAST)/bin/pytest --numprocesses logical --dist worksteal -m "not slow"; \
	else \
	    echo "The compiled core is not tested: there is no C compiler."; \
	fi

# What would be published, also where that takes minutes of downloads.
test-release: $(VENV)/ready
	$(BIN)/pip install --quiet --editable '.[release]'
	RELEASE=1 $(BIN)/pytest tests/test_package.py

# The fast tests on every Python of 3.11 to 3.14 that is found, or on those in PYTHONS=; each has a .venv of its own.
test-all:
	@failed=; for python in $(or $(PYTHONS),$(shell tests/pythons.sh)); do \
	    $(MAKE) test PYTHON=$$python VENV=.venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])') \
	        || failed="$$failed $$python"; \
	done; \
	if [ -n "$$failed" ]; then echo "make test fails on$$failed"; exit 1; fi

# The fast tests with the lowest version of each dependency that pyproject.toml allows.
test-lowest: PYTHON = $(firstword $(shell tests/pythons.sh))
test-lowest:
	$(PYTHON) tests/lowest.py > .constraints-lowest.txt
	$(MAKE) test PYTHON=$(PYTHON) VENV=.venv-lowest PIP_OPTIONS="--constraint .constraints-lowest.txt"

check: $(VENV)/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.14
	$(BIN)/pytest --quiet tests/test_layering.py
	$(BIN)/python -m tests.bench count

docs: $(VENV)/ready
	$(BIN)/pip install --quiet --editable '.[docs]'
	$(BIN)/python -m tests.samples.notebooks
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto -c docs . build/site
	@echo "open build/site/docs/index.html"

# The site without notebooks and new pictures, to look at while writing.
docs-quick: $(VENV)/ready
	$(BIN)/pip install --quiet --editable '.[docs]'
	$(BIN)/sphinx-build --quiet --jobs auto --tag quick -c docs . build/site-quick
	@echo "open build/site-quick/docs/index.html"

# The page that runs notebooks in a browser. The first time pip fetches Pyodide, 77 MB.
browser: $(VENV)/ready
	$(BIN)/python docs/make/browser/build.py
	@echo "python3 -m http.server --bind 127.0.0.1 --directory build/browser, then open http://localhost:8000"

mutants: $(VENV)/ready
	$(BIN)/pip install --quiet --editable '.[mutants]'
	nice $(BIN)/python -m tests.mutants

bench: $(VENV)/ready
	$(BIN)/python -m tests.bench

format: $(VENV)/ready
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:
	rm -rf .venv .venv-* .constraints-lowest.txt build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
