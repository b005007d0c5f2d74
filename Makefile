# Two commands for users: `make demo`, `make test`. Everything sets itself up in .venv from pinned versions.
PYTHON ?= python3
BIN := .venv/bin
ifneq ($(wildcard ../shared/data),)
export HEDGEROW_DATA ?= $(abspath ../shared/data)
endif

unexport PYTHONDONTWRITEBYTECODE  # tests and commands start processes, which would compile everything again

.PHONY: setup demo test test-full check bench bench-quick documents docs wheel clean

setup: .venv/.sums

.venv/.sums: .venv/.ready setup.py src/hedgerow/core/_sums.c  # optional: without a compiler numpy does its work
	$(BIN)/python -W ignore setup.py --quiet build_ext --inplace
	@touch $@

.venv/.ready: requirements.txt pyproject.toml papers/pyproject.toml benchmarks/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Expected Python >= 3.11, got $$($(PYTHON) --version). Set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e papers -e benchmarks
	@touch $@

demo: setup
	$(BIN)/hedgerow demo

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

test-full: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m ""

check: setup
	$(BIN)/ruff check src papers benchmarks tests tools
	$(BIN)/ruff format --check src papers benchmarks tests tools
	$(BIN)/basedpyright --warnings
	$(BIN)/lint-imports

documents: setup
	$(BIN)/python tools/documents.py

docs: setup
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel: setup
	rm -rf build dist papers/build benchmarks/build
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist . ./papers ./benchmarks
	$(BIN)/python tools/try_wheel.py dist/*.whl

bench: setup
	$(BIN)/hedgerow bench

bench-quick: setup
	$(BIN)/hedgerow bench --quick

clean:
	rm -rf .venv .import_linter_cache build dist src/*.egg-info papers/*.egg-info benchmarks/*.egg-info src/hedgerow/core/*.so .pytest_cache .ruff_cache .hypothesis docs/_build docs/proofs docs/api docs/made docs/algorithms
