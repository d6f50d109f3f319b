"""`python -m tests.bench.pages FOLDER [SERVERS WAITING JOBS DAYS]` is started by `bench_pages` and by a row of the
scale bench, with servers of its own in that folder."""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

import django

from marketplace.embedded import Servers, State, announce
from marketplace.embedded.state import DATABASE, ROLE

# Pages only read: what a crash would lose here is made anew in a minute.
SETTINGS = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_wal_size=4GB",
    "shared_buffers=512MB",
    "random_page_cost=1.1",
)


def main(folder: str, *size: str) -> None:
    state = State(Path(folder).absolute())
    for name in ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL"):
        os.environ.pop(name, None)  # of whoever started this: these servers are others
    announce(state)
    os.environ |= {"DJANGO_SETTINGS_MODULE": "marketplace.settings", "DEBUG": "true", "LOG_LEVEL": "WARNING"}
    os.environ |= {"SECRET_KEY": secrets.token_urlsafe(50), "BOURSE_VAR": str(state.folder / "var")}
    serving = os.environ["DATABASE_URL"]
    # Whoever makes the market logs in as the superuser and works as the role that serves, as the tests do.
    os.environ["DATABASE_URL"] = f"{state.superuser_url.replace('/postgres?', f'/{DATABASE}?')}&assume_role={ROLE}"
    os.environ["DATABASE_OWNER_URL"] = state.owner_url
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from tests.bench.pages import asking, build

    settings.DEBUG = False
    with Servers(state, settings=SETTINGS):
        call_command("migrate", verbosity=0)
        market = build.market_in(state, build.Size(*map(int, size)))
        os.environ["DATABASE_URL"] = serving  # of the web processes
        for figure in asking.measure(market, state.data):
            print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
