# Everything a developer types. Set-up is kept in stamp files: it runs when a file it was made from changed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# The environment's own Python, once there is one. Another version by PYTHON=python3.x makes the environment anew.
PYTHON ?= $(or $(wildcard $(BIN)/python),python3)
# Python compiles what is used when it is used: doing it for all at once takes as long as the download. It has to keep
# that, also where containers tell it not to: every command and every process of the tests would compile it again.
unexport PYTHONDONTWRITEBYTECODE
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet $(ARGS) --generate-hashes --allow-unsafe \
	--strip-extras --no-emit-index-url --no-emit-find-links
EXTRAS = --extra models --extra parquet
TESTS ?= tests
CORES := $(shell nproc 2>/dev/null || echo 2)
# Each worker imports and collects all tests by itself. One more than there are cores: some tests wait at any time; and
# three more of those with servers, which wait most of their time.
test: JOBS ?= $(shell echo $$(( $(CORES) + 1 )))
test-all: JOBS ?= $(shell echo $$(( $(CORES) + 4 )))
bench-insight: JOBS ?= 1
PYTEST = $(BIN)/pytest --dist loadgroup --no-loadscope-reorder --durations 15 --durations-min 1
MINUTES ?= 10
SEEDS ?= 6
FIRST ?= 2000

.PHONY: help setup up servers test test-all soak bench bench-insight check format proto lock dist clean FORCE

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(VENV)/.python: FORCE
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Dutycycle needs Python 3.11 or newer; name one with PYTHON=python3.x")'
	@version() { "$$1" -c 'import sys; print(sys.implementation.cache_tag)' 2>/dev/null || true; }; \
	if [ "$$(version $(PYTHON))" != "$$(version $(BIN)/python)" ]; then $(PYTHON) -m venv --clear $(VENV); fi; \
	[ -e $@ ] || touch $@

$(VENV)/.dependencies: requirements.lock requirements-build.lock $(VENV)/.python
	$(INSTALL) --require-hashes --requirement requirements.lock --requirement requirements-build.lock
	@touch $@

# Built without isolation: setuptools is in a lock, so nothing unpinned is fetched.
$(VENV)/.installed: $(VENV)/.dependencies pyproject.toml
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# What checks and tests it, beside what runs.
$(VENV)/.ready: requirements-dev.lock $(VENV)/.installed
	$(INSTALL) --require-hashes --requirement requirements-dev.lock
	$(BIN)/python -m streams.compile
	@touch $@

setup: $(VENV)/.ready ## make .venv from requirements.lock and requirements-dev.lock

up: $(VENV)/.installed ## watch this machine live; options by ARGS="--duration 20s"
	@$(BIN)/dutycycle up $(ARGS)

servers: $(VENV)/.ready ## fetch and build the test servers (Go: a quarter of an hour, once), and say which are missing
	@$(BIN)/python -m tests.support.servers.prepare

test: $(VENV)/.ready ## the tests that start no server and no other program; a part by TESTS=tests/sinks, more by ARGS="-k name"
	$(PYTEST) -n $(JOBS) -m quick --hypothesis-profile quick $(TESTS) $(ARGS)

# In CI no server may be missing; elsewhere the tests begin at once and leave out what is not there. They mostly wait.
test-all: $(VENV)/.ready $(if $(filter true,$(CI)),servers) ## all tests, with real servers; what is missing here is left out, and named
	$(PYTEST) -n $(JOBS) $(TESTS) $(ARGS)

soak: $(VENV)/.ready ## what takes minutes: tests marked soak, fresh seeds of the simulation, fresh examples; MINUTES=10
	SIMULATION_MINUTES=$(MINUTES) $(BIN)/pytest -n 0 -m soak $(TESTS) $(ARGS)
	$(PYTEST) -n logical -m hypothesis --hypothesis-profile fresh $(TESTS) $(ARGS)

bench: $(VENV)/.ready ## the goals of speed, beside the peers, into docs/performance.md (half an hour); less by ARGS=--quick
	$(BIN)/python -m bench.speed $(ARGS)

bench-insight: $(VENV)/.ready ## what insight is worth beside its peers; SEEDS=6 FIRST=2000; or on logs of real machines: REAL=FOLDER JOBS=2, changed ones: CHANGED=1
	$(BIN)/python -m bench.bench_insight $(if $(REAL),--real $(REAL) --jobs $(JOBS) $(if $(CHANGED),--changed),--seeds $(SEEDS) --first $(FIRST))

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

# Of what runs, what builds the wheel, what runs on a node, what runs with every extra, and what checks and tests it:
# at the same versions.
lock: $(VENV)/.ready ## bring the requirements*.lock up to pyproject.toml; all anew by ARGS=--upgrade
	$(COMPILE) --output-file requirements.lock pyproject.toml
	$(COMPILE) --only-build-deps --all-build-deps --output-file requirements-build.lock pyproject.toml
	$(COMPILE) --output-file requirements-collector.lock requirements-collector.in
	$(COMPILE) $(EXTRAS) --constraint requirements.lock --output-file requirements-all.lock pyproject.toml
	$(COMPILE) $(EXTRAS) --extra bench --extra dev --all-build-deps --constraint requirements-all.lock --constraint requirements-build.lock --output-file requirements-dev.lock pyproject.toml

dist: $(VENV)/.ready ## wheel, sdist and bill of materials into dist/, each tried where nothing else is installed
	.ci/dist

clean: ## remove .venv and every cache of this clone
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
