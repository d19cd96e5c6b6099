# The two commands: make demo, make test. Everything they need is set up on first use, with pip, in .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo test check format fuzz bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "manyheads needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@echo "setting up .venv: a minute or two the first time"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: setup
	$(BIN)/manyheads compare digits --partition dirichlet:1 --clients 15 --rounds 20 --seeds 3

test: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

SEED ?= 0
fuzz: setup
	$(BIN)/python -m fuzz --seed $(SEED) --out results/fuzz.json

bench: setup
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/profiles.py
	$(BIN)/python benchmarks/population.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/tables.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
