"""`python -m tests.bench [part of a file name]` prints one JSON line for each figure of every `bench_*.py`.

Such a file has `measure()`, which yields dictionaries with name, value, unit, target and detail. With
`NEEDS_DATABASE = True` it runs against a fresh, migrated database that is as durable as in production.
"""

import contextlib
import importlib
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import django

from marketplace.embedded import Servers, State, announce
from tests.bench import machine

HERE = Path(__file__).parent
KEYS = {"name", "value", "unit", "target", "detail"}


def main(only: str = "") -> None:
    names = sorted(file.stem for file in HERE.glob("bench_*.py") if only in file.stem)
    if not names:
        sys.exit(f"No benchmark's file name contains {only!r}.")
    # Not the temporary folder: where that is memory, making data durable would cost nothing and prove nothing.
    folder = tempfile.TemporaryDirectory(prefix="bourse-bench-", dir="/var/tmp")
    with folder, _servers_when_needed(names, State(Path(folder.name))) as modules:
        _measure(modules)


def _measure(modules: list[ModuleType]) -> None:
    where = machine.description()
    for module in modules:
        for figure in module.measure():
            assert set(figure) == KEYS, f"{module.__name__}: expected the keys {KEYS}, found {set(figure)}"
            print(json.dumps({**figure, "bench": module.__name__.rpartition(".")[2], "machine": where}), flush=True)


@contextlib.contextmanager
def _servers_when_needed(names: list[str], state: State) -> Iterator[list[ModuleType]]:
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    announce(state)
    os.environ |= {"DJANGO_SETTINGS_MODULE": "marketplace.settings", "DEBUG": "true"}
    os.environ |= {"SECRET_KEY": secrets.token_urlsafe(50), "BOURSE_VAR": str(state.folder / "var")}
    os.environ.setdefault("LOG_LEVEL", "WARNING")  # else every step of every slot stands between the figures
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    settings.DEBUG = False  # with it on, Django keeps every query in memory
    surroundings = dict(os.environ)
    modules = [importlib.import_module(f"tests.bench.{name}") for name in names]
    os.environ |= surroundings  # what a bench shares with tests may have announced the database of those
    with contextlib.ExitStack() as stack:
        if any(getattr(module, "NEEDS_DATABASE", False) for module in modules):
            stack.enter_context(Servers(state))
            call_command("migrate", verbosity=0)
        yield modules


if __name__ == "__main__":
    main(*sys.argv[1:])
