"""What commands say where the database does not answer or is not set up: one sentence, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from marketplace.embedded.state import ROLE
from marketplace.upkeep.doctor import NO_TABLES
from tests.database import overrule, serving_addresses
from tests.marketplace.test_backup import another_database, installation, manage
from tests.patience import PATIENCE


@pytest.mark.one_case
@pytest.mark.parametrize(
    "command", [["verify_ledger"], ["migrate"], ["staff_grant", "olga@lab.example", "operator", "--reason", "first"]]
)
def test_a_command_says_that_the_database_does_not_answer(command: list[str], tmp_path: Path) -> None:
    environment = {
        "DEBUG": "true",
        "SECRET_KEY": "k" * 60,
        "BOURSE_VAR": str(tmp_path),
        "DATABASE_URL": f"postgresql://bourse:opensesame@localhost/bourse?host={tmp_path}",  # no server listens there
        "REDIS_URL": f"unix://{tmp_path}/valkey?db=0",
    }
    run = subprocess.run(
        [sys.executable, "manage.py", *command],
        env=environment,
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("The database does not answer: ")
    assert run.stderr.endswith(" Look at PostgreSQL and DATABASE_URL.\n")
    assert "Traceback" not in run.stderr
    assert "opensesame" not in run.stderr


def test_a_python_without_the_packages_is_told_which_one_to_type() -> None:
    words = [sys.executable, "-S", "manage.py", "engine", "--check"]  # -S: nothing of the virtual environment
    run = subprocess.run(words, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 1
    assert run.stderr.startswith("This Python has no module ")
    assert ": type .venv/bin/python manage.py," in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.django_db(transaction=True)
def test_a_command_before_migrate_says_what_comes_first(tmp_path: Path) -> None:
    with another_database() as empty:
        both = installation(tmp_path, empty, "k" * 60)
        for address in ("", both["DATABASE_OWNER_URL"]):
            run = manage(both | {"DATABASE_OWNER_URL": address}, "verify_ledger")
            assert (run.returncode, run.stderr) == (
                1,
                'The database lacks steps of this version: relation "ledger_transaction" does not exist. Run `manage.py'
                " migrate` with DATABASE_OWNER_URL, then this again.\n",
            )
        run = manage(both | {"DATABASE_OWNER_URL": ""}, "migrate")
        assert (run.returncode, "Traceback" in run.stderr) == (1, False)
        assert "The role of DATABASE_URL may not migrate: " in run.stderr
        assert "Set DATABASE_OWNER_URL to the address with the role that owns the tables" in run.stderr
        run = manage(both | {"DATABASE_OWNER_URL": both["DATABASE_URL"]}, "migrate")
        assert (run.returncode, "Traceback" in run.stderr) == (1, False)
        assert "The role of DATABASE_OWNER_URL may not migrate: " in run.stderr
        run = manage(both | {"DATABASE_OWNER_URL": ""}, "doctor", "--json")
        not_made = [one["name"] for one in json.loads(run.stdout) if one["sentence"] == NO_TABLES[1]]
        assert not_made == ["roles", "operators", "market", "servers", "engine", "secrets", "backup"]


@pytest.mark.django_db(transaction=True)
def test_a_command_whose_role_lacks_a_right_says_how_it_gets_it(tmp_path: Path) -> None:
    serving = serving_addresses() | {"SECRET_KEY": "k" * 60, "BOURSE_VAR": str(tmp_path)}
    overrule(f"REVOKE SELECT ON tenants_user FROM {ROLE}")  # noqa: S608  our own name
    try:
        run = manage({**os.environ, **serving}, "staff_grant", "olga@lab.example", "operator", "--reason", "first")
    finally:
        overrule(f"GRANT SELECT ON tenants_user TO {ROLE}")
    assert run.returncode == 1
    assert run.stderr.startswith("A role of the database lacks a right: permission denied for table tenants_user. ")
    assert "manage.py database_roles --apply" in run.stderr
