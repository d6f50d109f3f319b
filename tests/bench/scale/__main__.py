"""`python -m tests.bench.scale ROW SIZE` measures one row at one size, with servers as durable as in production."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import django

from marketplace.embedded import Servers, State, announce


def main(row: str, size: str) -> None:
    with tempfile.TemporaryDirectory(prefix="bourse-scale-", dir="/var/tmp") as folder:
        state = State(Path(folder))
        for name in ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL"):
            os.environ.pop(name, None)
        announce(state)
        os.environ |= {"DJANGO_SETTINGS_MODULE": "marketplace.settings", "DEBUG": "true", "LOG_LEVEL": "WARNING"}
        os.environ |= {"SECRET_KEY": secrets.token_urlsafe(50), "BOURSE_VAR": str(state.folder / "var")}
        django.setup()
        from django.conf import settings
        from django.core.management import call_command

        from tests.bench.scale.memory import peak_forget, peak_mib

        settings.DEBUG = False  # with it on, Django keeps every query in memory
        module = import_module(f"tests.bench.scale.{row}")
        with Servers(state):
            call_command("migrate", verbosity=0)
            peak_forget()
            for figure in module.measure(int(size)):
                detail = {"size": int(size), "peak_mib": peak_mib(), **figure["detail"]}
                print(json.dumps({**figure, "detail": detail}), flush=True)
                peak_forget()


if __name__ == "__main__":
    main(*sys.argv[1:])
