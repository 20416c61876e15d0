# Everything a developer types. Set-up is kept in stamp files: it runs when a file it was made from changed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests
JOBS ?= 3
MINUTES ?= 10
SEEDS ?= 6
FIRST ?= 2000

.PHONY: help setup up servers test soak bench-insight check format proto lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(VENV)/.dependencies: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Dutycycle needs Python 3.11 or newer; name one with PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@touch $@

# Built without isolation: setuptools is in the lock, so nothing unpinned is fetched.
$(VENV)/.ready: $(VENV)/.dependencies pyproject.toml
	$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(VENV)/.ready ## make .venv from requirements.lock

up: $(VENV)/.ready ## watch this machine live; options by ARGS="--duration 20s"
	@$(BIN)/dutycycle up $(ARGS)

servers: $(VENV)/.ready ## fetch what the test servers need, and say which are missing
	@$(BIN)/python -m tests.support.servers.prepare

test: servers ## run the tests; a part by TESTS=tests/contract, more by ARGS="-k name"
	$(BIN)/pytest -n $(JOBS) --maxschedchunk 1 $(TESTS) $(ARGS)

soak: servers ## what takes minutes: tests marked soak, and fresh seeds of the simulation; MINUTES=10
	SIMULATION_MINUTES=$(MINUTES) $(BIN)/pytest -n 0 -m soak $(TESTS) $(ARGS)

bench-insight: $(VENV)/.ready ## what insight is worth beside its peers: tables and pictures; SEEDS=6 FIRST=2000
	$(BIN)/python -m bench.bench_insight --seeds $(SEEDS) --first $(FIRST)

check: $(VENV)/.ready ## ruff, mypy --strict and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready ## let ruff format and mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(VENV)/.ready ## write the Python of the kubelet's interface from its .proto
	$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. collectors/attribution/kubelet/api.proto

lock: $(VENV)/.ready ## bring requirements.lock up to pyproject.toml; all anew by ARGS=--upgrade
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet $(ARGS) --generate-hashes --all-extras \
		--allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links \
		--output-file requirements.lock pyproject.toml

clean: ## remove .venv and every cache of this clone
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
