"""Servers of a test's own whose database has all tables already, for tests that are not about the first start."""

from __future__ import annotations

import subprocess

from marketplace.embedded import FORGETFUL, Servers, State
from marketplace.embedded.programs import installed_for, server_account
from marketplace.embedded.state import DATABASE


def tables_filled_in(state: State) -> None:
    """Make the database in this folder, with the tables that `migrate` has made once for all tests (the fixture
    `migrated`)."""
    from tests.conftest import MIGRATED, STATE

    programs = installed_for(server_account()).postgres_folder
    ours = STATE.superuser_url.replace("/postgres?", f"/{MIGRATED}?")
    theirs = state.superuser_url.replace("/postgres?", f"/{DATABASE}?")
    dumped = subprocess.run([programs / "pg_dump", "--format=custom", ours], capture_output=True, check=True)
    with Servers(state, settings=FORGETFUL, with_redis=False):
        restore = [programs / "pg_restore", "--exit-on-error", "--single-transaction", "--dbname", theirs]
        subprocess.run(restore, input=dumped.stdout, check=True)
