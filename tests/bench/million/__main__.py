"""`python -m tests.bench.million FOLDER` is started by `bench_api`, with the addresses of this folder's servers."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import django

from marketplace.embedded import Servers, announce, state_for

# As an installation of this size is set; and as durable as in production.
SETTINGS = ("shared_buffers=2GB", "effective_cache_size=6GB", "random_page_cost=1.1")


def main(folder: str) -> None:
    state = state_for(Path(folder).absolute())
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    state.folder.parent.mkdir(parents=True, exist_ok=True)
    announce(state)
    os.environ |= {"DJANGO_SETTINGS_MODULE": "marketplace.settings", "DEBUG": "true", "LOG_LEVEL": "WARNING"}
    os.environ |= {"SECRET_KEY": secrets.token_urlsafe(50), "BOURSE_VAR": str(state.folder / "var")}
    os.environ |= {"API_CALLS_PER_MINUTE": "10000000"}
    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections
    from django.utils import timezone

    from tests.bench.million import build

    settings.DEBUG = False
    jobs = int(os.environ.get("BENCH_JOBS", build.JOBS))
    if os.environ.get("CLEAN") == "1" or not build.note(state).exists():
        build.build(state, jobs=jobs, at=timezone.now())
    from tests.bench.million import asking

    connections.close_all()  # those to the server that built it
    with Servers(state, settings=SETTINGS):
        call_command("migrate", verbosity=0)  # what the product has learnt since it was built
        asking.main(state)


if __name__ == "__main__":
    main(*sys.argv[1:])
