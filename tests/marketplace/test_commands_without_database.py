"""What commands say where the database does not answer: one sentence, and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

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
