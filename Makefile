# Every target does its own set-up in .venv. `make` alone says what there is.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Tests wait, too: four at a time leave a seventh of two cores idle, six leave nothing.
JOBS   ?= $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -lt 6 ] && echo 6 || echo $$n)
QUICK  ?= tests/policy tests/layouts tests/meta tests/board tests/store
# What tests the store and all above it that decides, in its own process.
CORE   ?= tests/store tests/policy tests/layouts tests/conformance tests/locks tests/races tests/mailbox tests/workspace tests/activities tests/library tests/transfer tests/doctor
# A commit has one seed: the same parts of long sweeps, the same examples and the same order on every machine.
SEED   ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1))
RUNS   ?= 20
HOURS  ?= 1
COUNT  ?= 150
MODULES ?= src/taskpit/store src/taskpit/queue.py src/taskpit/policy.py src/taskpit/layouts

# Tests start thousands of commands: each would compile the whole program anew without its bytecode.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick test-races check check-style check-types read-tests test-moody test-matrix test-branches test-mutants format clean test-all test-agents outages faults simulate soak bench bench-postgres pictures docs records reference audit sbom build

help:  ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/installed  ## a snake pit and its crew at work, in a temporary folder: half a minute, no network, no model
	@$(BIN)/pit demo

test: $(VENV)/dev  ## everything a change must pass; its verdict does not depend on how fast anything runs
	@$(MAKE) --no-print-directory -j3 -Otarget check read-tests
	$(BIN)/pytest -n $(JOBS) --dist worksteal --costs --randomly-seed=$(SEED) --hypothesis-seed=$(SEED)

quick: $(VENV)/dev  ## while editing: values, layouts, records, rules of the source; 20 seconds (QUICK=tests/cli: those)
	$(BIN)/pytest -n $(JOBS) -q --durations=3 $(QUICK)

# A red one is a finding: it is never repeated until it is green.
test-races: $(VENV)/dev  ## kills, hammers, forks, outages, real pools under load: before every hand-in, and each night
	@echo "Tests of a mechanism that is to go; what is red here is only listed:"
	@$(BIN)/pytest -n $(JOBS) --dist worksteal -q -r fE -m mechanism || true
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m races

test-all: $(VENV)/dev  ## the same tests at full length: every state, every call, a thousand rounds (half an hour and more)
	@$(MAKE) --no-print-directory -j2 -Otarget check read-tests
	-@sh scripts/system-packages postgres foreign
	-@sh scripts/system-packages gh
	TASKPIT_LONG=1 TASKPIT_STATES=0 TASKPIT_LOCK_ROUNDS=1000 TASKPIT_FUZZ=10 TASKPIT_HOSTILE=10000 \
	  $(BIN)/pytest -n $(JOBS) --dist worksteal --timeout 3000 --costs -m "not mechanism"

test-agents: $(VENV)/dev  ## the presets with the real CLIs from npm and PyPI against a stand-in model, on loopback only
	@sh scripts/agent-clis .cache/agents
	-@sh scripts/system-packages sandbox
	TASKPIT_AGENTS=$(CURDIR)/.cache/agents/node_modules/.bin sh scripts/loopback-only \
	  $(BIN)/pytest tests/real_agents -n $(JOBS) --timeout 600 -p no:cacheprovider --basetemp $${XDG_CACHE_HOME:-$$HOME/.cache}/taskpit-agents

test-moody: $(VENV)/dev  ## what waits for something, RUNS times with other seeds beside 8 busy processes; kept in build/trials.md (TESTS=tests/worker: those)
	$(BIN)/python scripts/trials.py moody --runs $(RUNS) -- $(TESTS)

test-matrix: $(VENV)/dev  ## fresh clones: ordinary user, odd folders, other Pythons; each a part of the tests and what it could touch (ROWS="space user", TESTS=tests/cli; ROWS=full: eight whole runs)
	$(BIN)/python scripts/trials.py matrix --rows "$(ROWS)" -- $(TESTS)

test-branches: $(VENV)/dev  ## which branches of store, layouts, queue and policy no test takes (TESTS=tests/store: by those)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group coverage
	$(BIN)/pytest -n $(JOBS) -q --cov=taskpit --cov-branch --cov-report= $(TESTS)
	$(BIN)/coverage report --show-missing --skip-covered --include='*/store/*,*/layouts/*,*/queue.py,*/policy.py'

test-mutants: $(VENV)/dev  ## which of COUNT small changes to MODULES no test of TESTS notices
	$(BIN)/python scripts/mutants.py --count $(COUNT) $(MODULES) -- $(or $(TESTS),$(CORE))

outages: $(VENV)/dev  ## two gateways killed at once 20 times, a database killed, away for ten leases, dumped and restored, a synchronous standby that takes over: five minutes
	-@sh scripts/system-packages postgres
	TASKPIT_LONG=1 $(BIN)/pytest -v --timeout 900 tests/serve/test_faults.py tests/postgres/test_served.py tests/postgres/test_outages.py \
	  -k "killed or standby or many_leases or dumped"

faults: $(VENV)/dev  ## models, hammers, real power loss, two network clients, clocks, other programs: half an hour
	-@sh scripts/system-packages vm foreign
	$(BIN)/python scripts/faults.py

simulate: $(VENV)/dev  ## histories of the folder store on a simulated disk: SEED=7 (LAYOUT=pit COUNT=100; SHRINK=1)
	$(BIN)/python tests/simulator/simulate.py $(or $(SEED),1) --count $(if $(filter command,$(origin COUNT)),$(COUNT),1) --layout "$(LAYOUT)" $(if $(SHRINK),--shrink) $(if $(KEEP),--keep)

soak: $(VENV)/dev  ## the same for HOURS hours, with other seeds each time
	-@sh scripts/system-packages vm foreign
	$(BIN)/python scripts/faults.py --hours $(HOURS)

bench: bench/.venv/ready  ## ours beside peers and the bare system calls, with plots: twenty minutes (BENCH=--quick: two minutes)
	@bench/.venv/bin/python bench/run.py $(BENCH)

bench-postgres: bench/.venv/ready  ## the queue on PostgreSQL beside procrastinate: ten minutes (BENCH=--quick: two)
	@bench/.venv/bin/python bench/postgres.py $(BENCH)

pictures: $(VENV)/dev  ## make the pictures of the README and the docs anew, from the real program
	$(BIN)/python scripts/pictures.py

docs: $(VENV)/docs  ## the documentation as a site, in site/
	$(BIN)/zensical build --clean --strict

records: $(VENV)/dev  ## write tests/recorded again: what users and programs notice, for a reviewer to read
	TASKPIT_RENEW=1 $(BIN)/pytest -q tests/meta/test_recorded.py

reference: $(VENV)/dev  ## write docs/reference/ anew, from the program
	PYTHONPATH=scripts $(BIN)/python -m reference

audit: $(VENV)/supply  ## known holes in what the extras and the tests bring (asks a database on the network)
	@$(VENV)/supply/bin/pip-audit --requirement supply.txt --require-hashes --disable-pip --strict \
	  && $(VENV)/supply/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict \
	  || { echo "The audit is not green. It asks the package index for known holes; \"could not be audited\" or a connection error"; \
	       echo "means that it does not answer here, and nothing was looked at: run it where it does."; exit 1; }

sbom: $(VENV)/supply $(VENV)/dev  ## what the extras bring, as a CycloneDX list in build/sbom.json
	@mkdir -p build
	$(VENV)/supply/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json $(BIN)/python

build: $(VENV)/supply  ## the wheel and the sdist of a release, in dist/
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(VENV)/supply/bin/python -m build --no-isolation

check: check-style check-types  ## style, types, import layers and spelling

check-style: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/words.py
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md RELEASING.md docs examples src scripts

check-types: $(VENV)/dev
	$(BIN)/mypy

# pytest rewrites the assertions of every test module and keeps the result: once here, instead of once in each of its processes.
read-tests: $(VENV)/dev
	@$(BIN)/pytest --collect-only -q > /dev/null || true

format: $(VENV)/dev  ## put the code into its form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## forget what was set up (your queues are not touched)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Where this Python has a pip of today, it brings the one of the environment: an old one is not set up first, to be replaced.
$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "taskpit needs Python 3.11 or newer; name one with make PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check -c constraints.txt pip 2>/dev/null \
	  || { $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pip; }
	@touch $@

$(VENV)/installed: $(VENV)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable .
	@touch $@

# What builds this program comes along, and what is fetched for the tests and what the system has do not wait for each other.
# Most of it is never imported: Python compiles what is when it first is.
$(VENV)/dev: $(VENV)/python pyproject.toml constraints.txt
	@{ sh scripts/system-packages git strace tmux browser; sh scripts/axe $(VENV); } & \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt --group dev --group postgres \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .; \
	  code=$$?; wait; exit $$code
	@touch $(VENV)/installed $@

$(VENV)/supply: $(VENV)/python supply.txt
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement supply.txt
	@touch $@

$(VENV)/docs: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group docs
	@touch $@

bench/.venv/ready: bench/requirements.txt
	$(PYTHON) -m venv bench/.venv
	bench/.venv/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	-@sh bench/system-packages
	@touch $@
