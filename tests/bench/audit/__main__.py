"""`python -m tests.bench.audit FOLDER INTERVALS` is started by `bench_audit`, with servers of its own in that folder.

It builds what the folder lacks, from where the last build ended, and then measures everything in it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path

import django

from marketplace.embedded import FORGETFUL, Servers, announce, state_for


def main(folder: str, intervals: str) -> None:
    state = state_for(Path(folder).absolute())
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    state.folder.mkdir(parents=True, exist_ok=True)
    announce(state)
    os.environ |= {"DJANGO_SETTINGS_MODULE": "marketplace.settings", "DEBUG": "true", "LOG_LEVEL": "WARNING"}
    os.environ |= {"SECRET_KEY": secrets.token_urlsafe(50), "BOURSE_VAR": str(state.folder / "var")}
    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections

    from tests.bench.audit import build

    settings.DEBUG = False  # with it on, Django keeps every query in memory
    if os.environ.get("CLEAN") == "1":
        shutil.rmtree(state.data, ignore_errors=True)
        (state.folder / "took.json").unlink(missing_ok=True)
    with Servers(state, settings=(*FORGETFUL, "shared_buffers=1GB", "max_wal_size=4GB")):
        call_command("migrate", verbosity=0)
        took = build.Took(state.folder / "took.json")
        build.build(int(intervals), took)
        connections.close_all()
    from tests.bench.audit import asking

    with Servers(state):  # as durable as in production
        asking.main(took)


if __name__ == "__main__":
    main(*sys.argv[1:])
