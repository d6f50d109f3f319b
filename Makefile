# Every command of daily work. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help install run test test-wide fuzz soak soak-machine soak-cluster soak-kills check bench schema screenshots lock clean

PYTHON ?= python3
PORT ?= 8000
# One more than two cores: tests wait for browsers and servers now and then.
WORKERS ?= 3
CASES ?= 40
SEED ?= 1
MINUTES ?= 60
SLOTS ?= 10000
ROUNDS ?= 100
PAUSE ?= 4
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore
# Dozens of processes start in the tests, five in the product: each would compile the whole of it anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo "  Settings: PORT=8000 (run), ARGS='tests/core -k calendar' (test), PART=2/4 (test-wide), ONLY=ledger (bench), PYTHON=python3 (install)"

install: .venv/everything ## create .venv and install all requirements (quick when nothing changed)

run: .venv/runtime ## run the whole product until Ctrl-C (PORT=8000)
	@PORT=$(PORT) $(BIN)/python manage.py up

test: .venv/everything ## run the tests (ARGS=... for a part of them, WIDE=2/4 with a part of the wide ones)
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal $(if $(WIDE),--wide=$(WIDE),-m "not wide") $(ARGS)

test-wide: .venv/everything ## and those that repeat them in width or take long (PART=2/4 for a part of them)
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -m wide $(if $(PART),--part=$(PART)) $(ARGS)

fuzz: .venv/everything ## 20,000 calls and more made up from the schema, by every role (SEED=1 CASES=40)
	@BOURSE_FUZZ_CASES=$(CASES) BOURSE_FUZZ_SEED=$(SEED) BOURSE_FUZZ_ONLY="$(ONLY)" $(BIN)/pytest -n $(WORKERS) -rP tests/api/test_fuzz.py

check: .venv/everything ## style, templates, types, import contracts, migrations, settings for production
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/djlint --check --quiet templates
	$(BIN)/djlint --lint templates
	$(PRODUCTION_LIKE) $(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PRODUCTION_LIKE) $(BIN)/python manage.py makemigrations --check --dry-run
	$(PRODUCTION_LIKE) $(BIN)/python manage.py check --deploy --fail-level WARNING

soak: .venv/everything ## markets by chance, for hours: nothing may be lost or paid twice (SEED=1 MINUTES=60)
	@$(BIN)/python -m tests.soak $(SEED) $(MINUTES) $(WORKERS)

soak-machine: .venv/everything ## the same markets as a state machine, which shortens what it finds (SEED=1 MINUTES=60)
	@$(BIN)/python -m tests.soak $(SEED) $(MINUTES) $(WORKERS) machine

soak-cluster: .venv/everything ## markets on a simulated cluster that loses messages, servers and its own state (SLOTS=10000 SEED=1)
	@$(BIN)/python -m tests.soak.cluster $(SLOTS) $(SEED) $(WORKERS)

soak-kills: .venv/everything ## processes of a running demonstration killed at random, and what is left (ROUNDS=100 SEED=1)
	@$(BIN)/python -m tests.soak.kills $(ROUNDS) $(SEED) --pause $(PAUSE) --only $(ONLY)

bench: .venv/everything ## measure (ONLY=ledger for one file); one JSON line per figure
	@$(BIN)/python -m tests.bench $(ONLY)

schema: .venv/runtime ## write docs/openapi.yaml and docs/guide/reasons.md anew, after a change of the interface or of codes
	$(PRODUCTION_LIKE) $(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml
	$(PRODUCTION_LIKE) $(BIN)/python manage.py reasons --file docs/guide/reasons.md

screenshots: .venv/everything ## the pictures of the guide anew, from a running demonstration (ONLY="market job" for some)
	@DJANGO_SETTINGS_MODULE=marketplace.settings DEBUG=true $(BIN)/python -m tests.browser.screenshots $(ONLY)

lock: .venv/everything ## pin requirements anew with the digest of each file, from pyproject.toml and requirements-dev.in
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile $(LOCK) --extra embedded --extra plots --output-file requirements.txt pyproject.toml
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile $(LOCK) --allow-unsafe --output-file requirements-dev.txt requirements-dev.in
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile $(LOCK) --no-annotate --constraint requirements.txt --output-file deploy/container/requirements.txt pyproject.toml

clean: ## remove .venv and every cache; the data in var/ stays
	rm -rf .venv .*_cache .hypothesis staticfiles
	find . -name __pycache__ -type d -not -path './var/*' -prune -exec rm -rf {} +

LOCK := --quiet --upgrade --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
# What a real installation sets, with a database that no check needs to reach.
PRODUCTION_LIKE = DEBUG=false SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(50))') \
	DATABASE_URL=none:// REDIS_URL=redis://127.0.0.1:1/0 ALLOWED_HOSTS=bourse.example

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "Bourse needs Python 3.11 or newer as '$(PYTHON)'. Name another one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "'$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@rm -rf .venv
	@echo "Making a virtual environment in .venv ..."
	@$(PYTHON) -m venv .venv

.venv/runtime: requirements.txt | .venv/bin/python
	@echo "Installing what the product needs into .venv ..."
	@$(BIN)/python -m pip install --progress-bar off --requirement requirements.txt
	@touch $@

.venv/everything: requirements-dev.txt .venv/runtime
	@echo "Installing what tests and checks need into .venv ..."
	@$(BIN)/python -m pip install --progress-bar off --requirement requirements-dev.txt
	@touch $@
