"""What is looked at before a database is migrated."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from pytest_django.fixtures import Settings

from marketplace.checks import LAST_REMOVED, no_database_stopped_among_removed_steps, steps_beyond
from tests.database import as_superuser

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("app", "early"),
    [("scheduling", "0002_cluster_rules"), ("scheduling", "0057_read_while_others_work"), ("ledger", "0002_rules")],
)
def test_database_that_stopped_among_steps_that_are_gone_is_refused(app: str, early: str) -> None:
    with as_superuser():
        MigrationRecorder(connection).record_applied(app, early)
    with pytest.raises(SystemCheckError, match=f"not its step {LAST_REMOVED[app]}"):
        call_command("check", database=["default"])


@pytest.mark.parametrize("app", ["scheduling", "auth"])
def test_database_of_a_newer_version_is_refused_before_anything_is_migrated(app: str, settings: Settings) -> None:
    settings.DATABASE_OWNER = None  # the owner's own connection would not see what is not committed
    with as_superuser():
        MigrationRecorder(connection).record_applied(app, "9999_later")
    with pytest.raises(SystemCheckError, match=f"step {app} 9999_later"):
        call_command("check", database=["default"])
    with pytest.raises(CommandError, match="of a newer version"):
        call_command("migrate", verbosity=0)


def test_steps_of_early_versions_and_of_apps_that_are_gone_are_not_beyond() -> None:
    assert steps_beyond([("scheduling", "0058_learner"), ("an_app_that_is_gone", "9999_later")]) == []


def test_database_that_has_all_of_them_goes_on() -> None:
    with as_superuser():
        for step in (("scheduling", "0002_cluster_rules"), *LAST_REMOVED.items()):
            MigrationRecorder(connection).record_applied(*step)
    assert no_database_stopped_among_removed_steps(["default"]) == []


def test_new_database_goes_on() -> None:
    assert no_database_stopped_among_removed_steps(["default"]) == []
    assert no_database_stopped_among_removed_steps(None) == []
