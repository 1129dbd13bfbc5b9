# `make run` starts everything with a simulated gateway; `make test` proves the promise. Both build .venv first.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?= python3
RUN_ARGS ?=
TEST_ARGS ?=
BENCH_ARGS ?=
CHAOS_ARGS ?=
ZAPLAKE_KILLS ?= 200
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help run test lint bench chaos lock clean

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(VENV)/.ready: requirements.lock pyproject.toml Makefile
	@bash bin/make-venv "$(VENV)" "$(PYTHON)"
	@touch $@

run: $(VENV)/.ready ## Start everything on this machine, with a simulated gateway that sends events
	$(VENV)/bin/zaplake up --demo $(RUN_ARGS)

test: $(VENV)/.ready ## Run the tests (PostgreSQL comes from a Python package unless DATABASE_URL is set)
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not chaos" $(TEST_ARGS)

lint: $(VENV)/.ready ## Check style, types and who may import whom
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

bench: $(VENV)/.ready ## Print ours, the reference and the ratio of every figure
	$(PY) -m bench $(BENCH_ARGS)

chaos: $(VENV)/.ready ## Every disaster many times, a table at the end (under 15 minutes; docs/chaos.md)
	ZAPLAKE_KILLS=$(ZAPLAKE_KILLS) $(PY) -m pytest -m chaos -v -n 2 --maxschedchunk 1 -p no:cacheprovider \
	  --timeout 600 --session-timeout 900 $(CHAOS_ARGS)

lock: $(VENV)/.ready ## Pin every dependency with its hashes (needs uv)
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-header --quiet --output-file requirements.lock

clean: ## Remove what make built (never the data)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
