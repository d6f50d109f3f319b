"""What is looked at before a database is migrated."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from marketplace.checks import REMOVED_STEPS, no_database_stopped_among_removed_steps
from tests.database import as_superuser

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("app", REMOVED_STEPS)
def test_database_that_stopped_among_steps_that_are_gone_is_refused(app: str) -> None:
    early, last = REMOVED_STEPS[app]
    with as_superuser():
        MigrationRecorder(connection).record_applied(app, early)
    with pytest.raises(SystemCheckError, match=f"not its step {last}"):
        call_command("check", database=["default"])


def test_database_that_has_all_of_them_goes_on() -> None:
    with as_superuser():
        for app, steps in REMOVED_STEPS.items():
            for step in steps:
                MigrationRecorder(connection).record_applied(app, step)
    assert no_database_stopped_among_removed_steps(["default"]) == []


def test_new_database_goes_on() -> None:
    assert no_database_stopped_among_removed_steps(["default"]) == []
    assert no_database_stopped_among_removed_steps(None) == []
