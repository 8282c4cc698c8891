# Two commands on a fresh machine do all set-up: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without it every process compiles all it imports again, and tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint docs notebooks benchmark release-check clean

.venv/.demo: pyproject.toml constraints.txt src/bestarm/__init__.py
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[cli,plots]'
	touch $@

.venv/.installed: .venv/.demo
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/.demo
	$(BIN)/bestarm demo --out demo

# Each of the many processes that tests start would fight the others for the cores with threads of
# its own. A third worker has the cores while others wait for what they started.
test: export OPENBLAS_NUM_THREADS := 1
test: .venv/.installed
	$(BIN)/python -m pytest -n 3 --dist worksteal

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.installed
	$(BIN)/sphinx-build -W -q docs docs/_build

# Runs the cells of every notebook of the documentation anew, each in its own process.
notebooks: .venv/.installed
	for notebook in docs/notebooks/*.ipynb; do $(BIN)/python docs/generators/notebooks.py $$notebook || exit; done

benchmark: .venv/.installed
	$(BIN)/python -m benchmarks.designs
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.rule steps

release-check: .venv/.installed
	.ci/release

clean:
	rm -rf .venv demo docs/_build docs/reference
