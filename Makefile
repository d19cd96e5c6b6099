# The two commands: make demo, make test. What each needs is set up on first use, with pip, in .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
NEEDS := pyproject.toml constraints.txt
# what is installed: the package alone, with the tools of development, with those of the documentation
BASE := .venv/.base
DEV := .venv/.dev
DOCS := .venv/.docs

.PHONY: setup demo test test-federation test-cluster lint check docs format fuzz bench clean

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

$(DOCS): $(NEEDS) | $(BIN)/python
	$(PIP) -e ".[docs]"
	touch $@ $(BASE)

demo: $(BASE)
	$(BIN)/manyheads compare heart --methods fedavg,fedavg+ft,fedprox,fedper,fedrep,ditto --rates 0.01,0.03,0.1 --batch 32 --seeds 2

# two processes of tests: many of them start processes of their own
test: $(DEV)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Flower's processes at length: methods, a comparison, kills, refusals; about twenty minutes
test-federation: $(DEV)
	MANYHEADS_FEDERATION=1 $(BIN)/python -m pytest tests/federate/test_flower_full.py -v

# Ray's processes at length: two nodes, kills, refusals; about ten minutes
test-cluster: $(DEV)
	MANYHEADS_CLUSTER=1 $(BIN)/python -m pytest tests/engines/test_ray_full.py -v

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint docs test

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

SEED ?= 0
fuzz: $(DEV)
	$(BIN)/python -m fuzz --seed $(SEED) --out results/fuzz.json

bench: $(DEV)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/defaults.py
	$(BIN)/python benchmarks/profiles.py
	$(BIN)/python benchmarks/population.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/forms.py
	$(BIN)/python benchmarks/costs.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/racing.py
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/tables.py

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache
