# make demo: set everything up and show marq live.   make test: set everything up and run all checks.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check
PACKAGES := $(VENV)/.packages
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo docs test jars test-parts test-e2e test-tracked lint bench lock clean check soak cluster

help:
	@echo "make demo   set up and show marq live (in memory, then a real Kafka broker)"
	@echo "make test   set up, lint and run every test"
	@echo "make bench  print the benchmark's table"
	@echo "make soak   a hostile producer (HOSTILE=25 times the sample), outages, and workers killed"
	@echo "            at random for MINUTES=5 (SEED=…): no message may be lost"
	@echo "make cluster  the tracker on a Spark cluster with three brokers, its executors killed KILLS=3 times"
	@echo "make docs   build the documentation with the API's reference as a site in build/site"
	@echo "make lint   ruff, mypy --strict and the import layers"
	@echo "make lock   resolve the lock files again"
	@echo "make clean  remove what make made"

check:
	@command -v $(PYTHON) >/dev/null || { echo "marq needs Python 3.11 or newer: install it (Debian: apt-get install python3 python3-venv)." >&2; exit 1; }
	@$(PYTHON) tools/check.py

# Each stamp is written last: an install that broke off starts again.
$(PACKAGES): locks/build.txt locks/dev.txt | check
	@echo "setting up $(VENV) (a minute or two the first time)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r locks/build.txt
	@$(PIP) --require-hashes --no-build-isolation -r locks/dev.txt
	@touch $@

$(READY): $(PACKAGES) pyproject.toml
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)
	@$(BIN)/marq demo

lint: $(READY)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# Three runs side by side, for most tests mostly wait: with a tracker, end to end without, the rest.
# Two of them are told at their ends: nobody could read three at once.
TOLD = told=$$(mktemp); $(BIN)/pytest $(1) > $$told 2>&1; code=$$?; cat $$told; rm $$told; exit $$code

test: lint jars
	@$(MAKE) --no-print-directory --jobs 3 test-parts test-e2e test-tracked

# Before the tests, which have a time limit each; a no-op once they are there.
jars: $(READY)
	@$(BIN)/python -c 'from marq.embedded.jvm import jars; [jars.resolve(name) for name in ("kafka", "spark")]'

test-parts: $(READY)
	@$(BIN)/pytest -m "not tracked" --ignore tests/e2e

test-e2e: $(READY)
	@$(call TOLD,-m "not tracked" tests/e2e)

test-tracked: $(READY)
	@$(call TOLD,-m tracked)

bench: $(READY)
	@$(BIN)/python -m bench

soak: $(READY)
	@HOSTILE=$(or $(HOSTILE),25) $(BIN)/pytest tests/hostile tests/properties/test_hostile_laws.py
	@TRIMMING_SEEDS=1-20 $(BIN)/pytest tests/kafka/test_trimming_laws.py
	@CYCLES=200 $(BIN)/pytest tests/kafka/test_leaks.py
	@OUTAGES=1 $(BIN)/pytest tests/e2e/test_kafka_outages.py tests/e2e/test_groups_soak.py tests/e2e/test_halves.py tests/e2e/test_tracker*.py
	@$(BIN)/python -m tests.e2e.kafka_soak --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))

cluster: $(READY)
	@CLUSTER=1 $(BIN)/pytest -s tests/e2e/test_cluster.py

# Beside what `make test` needs, in the same place: a site of its own that nothing else waits for.
DOCS := $(VENV)/.docs
$(DOCS): locks/docs.txt $(PACKAGES)
	@$(PIP) --require-hashes -r locks/docs.txt
	@touch $@

docs: $(READY) $(DOCS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

# uv only resolves; pip installs. The files hold names, versions and hashes, no registry.
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade
lock: $(READY)
	@$(BIN)/pip install --quiet uv
	@$(BIN)/$(LOCK) --group pyproject.toml:build -o locks/build.txt
	@$(BIN)/$(LOCK) pyproject.toml --all-extras --group dev -c locks/build.txt -o locks/dev.txt
	@$(BIN)/$(LOCK) --group pyproject.toml:docs -c locks/build.txt -c locks/dev.txt -o locks/docs.txt

clean:
	@rm -rf $(VENV) build dist bench/out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
