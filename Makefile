# Every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help run up test check bench records mutants faults test-apt format seed-scenario

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): setup.cfg pyproject.toml constraints.txt
	@for tool in git ssh; do command -v $$tool >/dev/null || { echo "make: $$tool is missing: install it (Debian: apt install $$tool)" >&2; exit 2; }; done
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing: install Python 3.11 to 3.13, or name it: make PYTHON=…" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { echo "make: $(PYTHON) is not Python 3.11 to 3.13; name another: make PYTHON=…" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: the venv module of $(PYTHON) is missing (Debian: apt install python3-venv)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,test]'
	touch $@

run: $(STAMP) ## install on seven SSH hosts at once, live, on the embedded stack
	$(BIN)/python examples/host_install/run.py

up: $(STAMP) ## start the embedded stack in the foreground
	$(BIN)/dispatcher up

test: $(STAMP) ## the whole test suite on its own embedded servers
	$(BIN)/python -m pytest -m 'not apt' -n 2 --dist loadfile --no-loadscope-reorder

test-apt: $(STAMP) ## tests against RabbitMQ, pgbouncer, nginx and sudo from apt
	@for tool in rabbitmq-server pgbouncer nginx sudo; do PATH=$$PATH:/usr/sbin command -v $$tool >/dev/null || { echo "make: $$tool is missing (Debian: apt install rabbitmq-server pgbouncer nginx sudo)" >&2; exit 2; }; done
	$(BIN)/python -m pytest -m apt

check: $(STAMP) ## formatting, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

mutants: $(STAMP) ## break rules and fences one by one; a survivor fails
	$(BIN)/python -m tests.mutants

faults: $(STAMP) ## break a cluster at random for SECONDS (600) from SEED, then audit every job
	$(BIN)/python -m tests.faults --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

bench: $(STAMP) ## measure, print a table, write build/bench.json
	$(BIN)/python -m benchmarks

seed-scenario: $(STAMP) ## 7, 50 and 500 real plays at once through REST v1, of whose processes one is killed
	$(BIN)/python -m benchmarks.seed_scenario

records: $(STAMP) ## play the examples of docs/scheduling.md and docs/api_v1.md and write what happened there
	$(BIN)/python -m benchmarks.record
	$(BIN)/python -m benchmarks.seed_scenario --record
