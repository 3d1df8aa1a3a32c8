# Every target sets up what it needs: Python 3.11 or newer, make and a package registry suffice.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The first interpreter that really runs: a name on PATH may be a shim for a version that is absent.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$python; break; fi; done)

# Hundreds of processes import the same modules, so these are compiled once, whatever is usual here.
unexport PYTHONDONTWRITEBYTECODE

# Most tests wait more than they compute: a few processes, each with a Postgres of its own, do not
# get in each other's way.
SIDE_BY_SIDE := -n 4 --dist loadfile

DEBIAN_PG_BIN := /usr/lib/postgresql/15/bin
# What depends on the server most: SQL and its plans. With ALL=1 also what uses that SQL.
# What the marks any_server and any_pooler leave out is explained in pyproject.toml.
SERVER_TESTS = $(wildcard tests/db tests/migrations tests/plans tests/rls $(if $(ALL),tests/worker tests/insights tests/doctor))
DEBIAN_PGBOUNCER := /usr/sbin/pgbouncer
DEBIAN_CHROMIUM := /usr/bin/chromium
DEBIAN_TESSERACT := /usr/bin/tesseract
DEBIAN_SPIN := /usr/bin/spin
DEBIAN_GCC := /usr/bin/gcc
# Who pools connections is noticed by workers. With ALL=1 also the SQL, a call at a time.
PGBOUNCER_TESTS = tests/pgbouncer tests/worker $(if $(ALL),tests/db)
TYPING_TESTS = $(wildcard tests/typing)
# django.tasks came with Django 6.0, which wants a newer Python than Penstock does.
DJANGO_VENV := .venv-django
# All but what runs in CocoIndex's own environment.
KNOWLEDGE_BENCH = $(filter-out %/cocoindex_runner.py,$(wildcard benchmarks/knowledge/*.py))
DJANGO_STAMP := $(DJANGO_VENV)/.installed
# Django's own tests of django.tasks come with its source alone.
DJANGO_TESTS := $(DJANGO_VENV)/django-tests/tasks

.PHONY: help demo demo-jobs install install-debian install-django test test-embedded test-debian test-pgbouncer test-django test-chaos test-stopped check bench bench-fair bench-knowledge bench-listeners bench-knowledge-search bench-peers bench-report schema clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

demo: $(STAMP) ## Take this project's own documents in, watch it, and ask them questions
	@scripts/demo $(BIN)/penstock

demo-jobs: $(STAMP) ## Run jobs of every kind, kill a worker, and watch that nothing is lost
	$(BIN)/penstock demo

# Each target below sets up what it needs. With -j, this does it for all of them side by side.
install: $(STAMP) install-debian install-django ## Set up what the other targets need

install-debian:
	@scripts/install-debian postgresql-15 $(DEBIAN_PG_BIN)/initdb || true
	@scripts/install-debian pgbouncer $(DEBIAN_PGBOUNCER) || true
	@scripts/install-debian chromium $(DEBIAN_CHROMIUM) || true
	@scripts/install-debian tesseract-ocr $(DEBIAN_TESSERACT) || true
	@scripts/install-debian spin $(DEBIAN_SPIN) || true
	@scripts/install-debian gcc $(DEBIAN_GCC) || true

install-django:
	@python=$$(scripts/find-python 3 12) || exit 0; \
	$(MAKE) --no-print-directory $(DJANGO_STAMP) PYTHON="$$python" \
	&& { $(MAKE) --no-print-directory $(DJANGO_TESTS) PYTHON="$$python" \
	|| echo "LEFT OUT: Django's own tests of django.tasks (see the reason above)."; }

test: test-embedded test-debian test-pgbouncer test-django ## Run all tests on Postgres 18, some also elsewhere: see the next lines

test-embedded: $(STAMP) ## Run all tests on the embedded Postgres 18
	@scripts/install-debian chromium $(DEBIAN_CHROMIUM) \
	|| echo "LEFT OUT: the tests in a browser (see the reason above)."
	@scripts/install-debian tesseract-ocr $(DEBIAN_TESSERACT) \
	|| echo "LEFT OUT: the tests of OCR (see the reason above)."
	@{ scripts/install-debian spin $(DEBIAN_SPIN) && scripts/install-debian gcc $(DEBIAN_GCC); } \
	|| echo "LEFT OUT: the search of the model (see the reason above)."
	$(BIN)/pytest $(SIDE_BY_SIDE)

test-debian: $(STAMP) ## Run the tests of the SQL on Debian's PostgreSQL 15, where it can be had; ALL=1: more
ifeq ($(SERVER_TESTS),)
	@echo "There are no tests of the queue yet, so the run on PostgreSQL 15 is left out."
else
	@if scripts/install-debian postgresql-15 $(DEBIAN_PG_BIN)/initdb; \
	then PENSTOCK_TEST_PG_BIN=$(DEBIAN_PG_BIN) $(BIN)/pytest $(SIDE_BY_SIDE) $(if $(ALL),,-m "not any_server") $(SERVER_TESTS); \
	else echo "LEFT OUT: the run on Debian's PostgreSQL 15 (see the reason above)."; fi
endif

test-pgbouncer: $(STAMP) ## Run the tests of workers behind PgBouncer in transaction mode, where it can be had; ALL=1: more
	@if scripts/install-debian pgbouncer $(DEBIAN_PGBOUNCER); \
	then PENSTOCK_TEST_PGBOUNCER=$(DEBIAN_PGBOUNCER) $(BIN)/pytest $(SIDE_BY_SIDE) $(if $(ALL),,-m "not any_pooler") $(PGBOUNCER_TESTS); \
	else echo "LEFT OUT: the run behind PgBouncer (see the reason above)."; fi

test-django: ## Run Django's tests with its newest version, where there is a Python 3.12 for it
	@if scripts/find-python 3 12 >/dev/null; \
	then $(MAKE) --no-print-directory install-django \
		&& $(DJANGO_VENV)/bin/pytest $(SIDE_BY_SIDE) tests/django; \
	else echo "LEFT OUT: the run with django.tasks (see the reason above)."; fi

test-chaos: $(STAMP) ## Run the long form of the fault tests, the plays and the loads
	PENSTOCK_LONG=1 $(BIN)/pytest --timeout=3600 tests/chaos tests/db tests/bench

# TESTS names some tests, all of them take long like this. SEED repeats the choices of an earlier run.
test-stopped: $(STAMP) ## Stop the tests' processes at random, to find flaky tests: TESTS=tests/worker SEED=7
	$(BIN)/python scripts/stop_randomly.py $(if $(SEED),--seed $(SEED)) $(BIN)/pytest -n 2 --dist loadfile --timeout=300 $(TESTS)

check: check-types check-tests check-style check-api check-layers ## Lint, check format, types and layers

.PHONY: check-style check-types check-tests check-api check-layers
check-style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-types: $(STAMP)
	$(BIN)/mypy src scripts/stop_randomly.py tests/conftest.py tests/fixtures benchmarks/compare.py benchmarks/before_after benchmarks/fairness benchmarks/http benchmarks/knowledge_search benchmarks/listeners benchmarks/micro_batching benchmarks/page $(KNOWLEDGE_BENCH) $(TYPING_TESTS)

# What is compiled here need not be by each of the processes that run the tests.
check-tests: $(STAMP)
	@$(BIN)/pytest --collect-only -qq >$(VENV)/collected || { cat $(VENV)/collected; exit 1; }

check-api: $(STAMP)
ifneq ($(TYPING_TESTS),)
	$(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python
endif

check-layers: $(STAMP)
	$(BIN)/lint-imports

bench: $(STAMP) ## Measure throughput and latency on this machine
	$(BIN)/penstock bench

# With all of them the page is written anew; with some, only the table is shown.
bench-peers: $(STAMP) ## Compare with other queues, or some: make bench-peers PEERS="awa oban"
	$(BIN)/python -m benchmarks.compare $(or $(PEERS),--json benchmarks/results/peers.json)
	$(if $(PEERS),,$(BIN)/python -m benchmarks.page)

# The last commit before lanes and limits, or another: make bench-fair BEFORE=…
BEFORE ?= 4af14b3
bench-fair: $(STAMP) ## Measure fair queues, limits and what they cost plain jobs
	$(BIN)/penstock bench --tenants 10000 --json > benchmarks/results/fair.json
	-$(BIN)/python -m benchmarks.before_after --before $(BEFORE) --scenes plain --json benchmarks/results/before-after.json
	$(BIN)/python -m benchmarks.fairness --json benchmarks/results/fairness.json
	$(BIN)/python -m benchmarks.micro_batching --json benchmarks/results/micro-batching.json
	$(BIN)/penstock bench --isolated --json > benchmarks/results/isolated.json
	$(BIN)/python -m benchmarks.page

bench-knowledge: $(STAMP) ## Measure how fast documents come in, beside CocoIndex where it installs
	$(BIN)/python -m benchmarks.knowledge --json benchmarks/results/knowledge.json
	$(BIN)/python -m benchmarks.page

bench-listeners: $(STAMP) ## Measure what 1,000 who listen to one server cost
	$(BIN)/python -m benchmarks.listeners --json benchmarks/results/listeners.json

bench-knowledge-search: $(STAMP) ## Measure hits, recall and speed of search on Debian's manuals
	$(BIN)/python -m benchmarks.knowledge_search --json benchmarks/results/knowledge-search.json

bench-report: $(STAMP) ## Fill the benchmarks page from the stored results
	$(BIN)/python -m benchmarks.page

schema: $(STAMP) ## Write schema.sql anew from the migrations
	$(BIN)/python -m penstock.migrate.schema

clean: ## Remove everything that can be made again
	rm -rf $(VENV) $(DJANGO_VENV) .bench build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# hatchling comes first, pinned, so that the build needs no environment of its own.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv and ensurepip was found; name one with make PYTHON=…" >&2; exit 1; }
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt hatchling editables
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev,bench]'
	@touch $@

$(DJANGO_STAMP): pyproject.toml constraints.txt
	@$(DJANGO_VENV)/bin/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(DJANGO_VENV)
	$(DJANGO_VENV)/bin/pip install --quiet --constraint constraints.txt hatchling editables
	$(DJANGO_VENV)/bin/pip install --quiet --constraint constraints.txt --no-build-isolation --editable . \
		'django>=6.0' 'psycopg[binary]' pytest pytest-asyncio pytest-timeout pytest-xdist
	@touch $@

$(DJANGO_TESTS): $(DJANGO_STAMP)
	@scripts/fetch-django-tests $(DJANGO_VENV)
	@touch $@
