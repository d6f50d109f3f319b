# Every command of daily work. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help install run test fuzz check bench schema screenshots lock clean

PYTHON ?= python3
PORT ?= 8000
WORKERS ?= 2
CASES ?= 40
SEED ?= 1
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore
# Dozens of processes start in the tests, five in the product: each would compile the whole of it anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the commands
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'
	@echo "  Settings: PORT=8000 (run), ARGS='tests/core -k calendar' (test), ONLY=ledger (bench), PYTHON=python3 (install)"

install: .venv/everything ## create .venv and install all requirements (quick when nothing changed)

run: .venv/runtime ## run the whole product until Ctrl-C (PORT=8000)
	@PORT=$(PORT) $(BIN)/python manage.py up

test: .venv/everything ## run the whole test suite (ARGS=... for a part of it)
	@$(BIN)/pytest -n $(WORKERS) $(ARGS)

fuzz: .venv/everything ## 20,000 calls and more made up from the schema, by every role (SEED=1 CASES=40)
	@BOURSE_FUZZ_CASES=$(CASES) BOURSE_FUZZ_SEED=$(SEED) BOURSE_FUZZ_ONLY="$(ONLY)" $(BIN)/pytest -n $(WORKERS) -rP tests/api/test_fuzz.py

check: .venv/everything ## style, types, import contracts, migrations, settings for production
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PRODUCTION_LIKE) $(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PRODUCTION_LIKE) $(BIN)/python manage.py makemigrations --check --dry-run
	$(PRODUCTION_LIKE) $(BIN)/python manage.py check --deploy --fail-level WARNING

bench: .venv/everything ## measure (ONLY=ledger for one file); one JSON line per figure
	@$(BIN)/python -m tests.bench $(ONLY)

schema: .venv/runtime ## write docs/openapi.yaml anew, after a change of the interface for programs
	$(PRODUCTION_LIKE) $(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

screenshots: .venv/everything ## the pictures of the guide anew, from a running demonstration (ONLY="market job" for some)
	@DJANGO_SETTINGS_MODULE=marketplace.settings DEBUG=true $(BIN)/python -m tests.browser.screenshots $(ONLY)

lock: .venv/everything ## pin requirements*.txt anew from the *.in lists
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile $(LOCK) --output-file requirements.txt requirements.in
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile $(LOCK) --output-file requirements-dev.txt requirements-dev.in

clean: ## remove .venv and every cache; the data in var/ stays
	rm -rf .venv .*_cache .hypothesis staticfiles
	find . -name __pycache__ -type d -not -path './var/*' -prune -exec rm -rf {} +

LOCK := --quiet --upgrade --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
# What a real installation sets, with a database that no check needs to reach.
PRODUCTION_LIKE = DEBUG=false SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(50))') \
	DATABASE_URL=none:// REDIS_URL=redis://127.0.0.1:1/0 ALLOWED_HOSTS=bourse.example

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "Bourse needs Python 3.11 or newer as '$(PYTHON)'. Name another one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "'$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@rm -rf .venv
	@$(PYTHON) -m venv .venv

.venv/runtime: requirements.txt | .venv/bin/python
	@echo "Installing what the product needs into .venv ..."
	@$(BIN)/python -m pip install --quiet --requirement requirements.txt
	@touch $@

.venv/everything: requirements-dev.txt .venv/runtime
	@echo "Installing what tests and checks need into .venv ..."
	@$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	@touch $@
