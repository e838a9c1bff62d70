# Everything a stranger needs is python3 (3.11 or newer) with venv, git and make.
.DEFAULT_GOAL := help
.PHONY: help install install-dev run test check bench format lock clean
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV ?= .venv
PY := $(VENV)/bin/python
HOST ?=
PORT ?=
# Arguments for pytest: make test T="tests/core -x"
T ?=
WORKERS ?= 2

# The stamps carry what they stand for, so an edited lock file or a moved checkout installs
# again and an old time stamp after a git checkout does not.
HERE := $(shell pwd | cksum | cut -d' ' -f1)
RUN_STAMP := $(VENV)/.run-$(shell cat requirements.lock | cksum | cut -d' ' -f1)-$(HERE)
DEV_STAMP := $(VENV)/.dev-$(shell cat requirements-dev.lock | cksum | cut -d' ' -f1)-$(HERE)
PIP := $(PY) -m pip --disable-pip-version-check --no-input -q install --require-hashes

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

install: $(RUN_STAMP) ## make .venv and install from the lock file

install-dev: $(DEV_STAMP) ## the same with what tests and checks need

run: $(RUN_STAMP) ## start the console: make run PORT=7870 HOST=127.0.0.1
	@exec env -u PYTHONDONTWRITEBYTECODE $(PY) -m protoagent serve $(if $(HOST),--host '$(HOST)') $(if $(PORT),--port '$(PORT)')

test: $(DEV_STAMP) ## the whole suite, on DATABASE_URL when that is set
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(T)

check: $(DEV_STAMP) ## lint, import contracts, types, Django's checks, templates
	$(PY) -m tests.check

bench: $(DEV_STAMP) ## the project's own benchmarks, as JSON lines
	@$(PY) -m tests.bench $(T)

format: $(DEV_STAMP) ## let ruff fix and format what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

lock: ## compile the lock files anew from pyproject.toml; needs uv
	uv pip compile pyproject.toml --extra redis --universal --python-version 3.11 --upgrade -q \
		--generate-hashes --no-emit-index-url --custom-compile-command 'make lock' -o requirements.lock
	uv pip compile pyproject.toml --extra redis --group dev -c requirements.lock --universal \
		--python-version 3.11 --upgrade -q --generate-hashes --no-emit-index-url \
		--custom-compile-command 'make lock' -o requirements-dev.lock

clean: ## remove .venv and every cache
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_STAMP):
	@sh scripts/venv.sh $(VENV)
	@echo "installing the libraries of the lock file into $(VENV) …"
	@$(PIP) -r requirements.lock
	@rm -f $(VENV)/.run-*
	@touch $@

$(DEV_STAMP):
	@sh scripts/venv.sh $(VENV)
	@echo "installing the libraries of the lock file, with those for tests, into $(VENV) …"
	@$(PIP) -r requirements-dev.lock
	@rm -f $(VENV)/.dev-* $(VENV)/.run-*
	@touch $@ $(RUN_STAMP)
