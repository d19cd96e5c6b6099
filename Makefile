# The two commands: make demo, make test. What each needs is set up on first use, with pip, in .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
NEEDS := pyproject.toml constraints.txt
# what is installed: the package alone, or with the tools of development
BASE := .venv/.base
DEV := .venv/.dev

.PHONY: setup demo test lint check format fuzz bench clean

setup: $(BASE)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "manyheads needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@echo "setting up .venv: a minute or two the first time"
	$(PYTHON) -m venv .venv

$(BASE): $(NEEDS) | $(BIN)/python
	$(PIP) -e .
	touch $@

$(DEV): $(NEEDS) | $(BIN)/python
	$(PIP) -e ".[dev]"
	touch $@ $(BASE)

demo: $(BASE)
	$(BIN)/manyheads compare digits --partition dirichlet:1 --clients 15 --rounds 20 --seeds 3

test: $(DEV)
	$(BIN)/python -m pytest

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

SEED ?= 0
fuzz: $(DEV)
	$(BIN)/python -m fuzz --seed $(SEED) --out results/fuzz.json

bench: $(DEV)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/profiles.py
	$(BIN)/python benchmarks/population.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/tables.py

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache
