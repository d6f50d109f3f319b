"""`manage.py up`: the whole product until Ctrl-C."""

import contextlib
import io
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.db import DatabaseError, connections
from django.http.request import validate_host
from django.utils import timezone

from marketplace import env
from marketplace.embedded import AlreadyRunning, CannotStart, state_for
from marketplace.processes import product
from marketplace.processes.children import ChildFailed
from marketplace.upkeep.rights import rights_compare, serving_role
from scheduling.demo.demo import database_is_empty, demo_is_loaded
from scheduling.engines.base import WrongEngine
from scheduling.runs.engines import local_engine, local_gpus
from scheduling.runs.runs import runs_note_ends

SWEEP_SECONDS = 6.0  # time for gangs to save


class Command(BaseCommand):
    help = "Starts PostgreSQL, Valkey, the web server, the worker and beat; loads the demo into an empty database."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=env.integer("PORT", 8000, least=1, most=65535))

    def handle(self, *args: Any, port: int, **options: Any) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # also into a file or a pipe: its reader may be waiting
        product.stop_on_signals()
        try:
            self._run(port)
        except KeyboardInterrupt:
            self._tell("Stopped.")
        except (AlreadyRunning, CannotStart, ChildFailed, product.PortTaken, WrongEngine) as problem:
            raise CommandError(str(problem)) from None

    def _run(self, port: int) -> None:
        places = product.ProductPlaces(settings.BASE_DIR, settings.VAR_DIR / "log", state_for(Path(settings.VAR_DIR)))
        product.require_free(port)
        local_gpus()  # before anything is made
        if lacking := _lacking():
            raise CommandError(f"{lacking} `manage.py doctor` says what else is missing, once this runs.")
        address = f"http://{product.HOST}:{port}/"
        self._tell(f"Bourse is starting; its address will be {address}")
        with product.running(places, port=port, prepare=self._prepare, sweep=_sweep, tell=self._tell) as keeper:
            self._tell(f"Logs: {places.logs}   Data: {places.state.folder}   Ctrl-C stops everything.")
            self._tell(self.style.SUCCESS(f"Bourse is ready: {address}"))
            if not settings.DEVELOPMENT:
                self._tell("Before others come in: `manage.py doctor`, with these settings, says what is missing.")
            keeper.keep()

    def _prepare(self) -> None:
        self._tell("Bringing the tables of the database up to date ...")
        call_command("migrate", verbosity=0)
        for sentence in rights_compare(serving_role()).sentences:
            self.stdout.write(self.style.WARNING(sentence))
        if demo_is_loaded() and not settings.DEVELOPMENT:
            raise CommandError("This database holds the demonstration, whose password everybody knows: use another.")
        if settings.DEVELOPMENT and database_is_empty():
            self._tell("Loading the demonstration ...")
        if settings.DEVELOPMENT and (database_is_empty() or demo_is_loaded()):
            call_command("demo", past=settings.DEMO_DAYS)
        for finding in local_engine().check({}):
            self._tell(finding.sentence)
        connections.close_all()  # this process reads nothing more while the product runs

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the reader has left, or has no room for it: the product continues
            self.stdout.write(line)


def _lacking() -> str:
    """Return what the settings lack without which no page could be shown here, and what to do; empty if nothing."""
    if not validate_host(product.HOST, settings.ALLOWED_HOSTS):
        return f"ALLOWED_HOSTS lacks {product.HOST}, at which the web processes are asked: add it."
    if not settings.DEVELOPMENT and not (settings.STATIC_ROOT / "staticfiles.json").is_file():
        return f"{settings.STATIC_ROOT} has no collected files: run `manage.py collectstatic --noinput`."
    return ""


def _sweep() -> None:
    """Stop all gangs with the market: they save and end, and continue at the next start; none outlives the product."""
    engine = local_engine()
    engine.end_all(SWEEP_SECONDS)
    with contextlib.suppress(DatabaseError):  # the database may have died first; then the next engine records the ends
        runs_note_ends(engine=engine, at=timezone.now())
    connections.close_all()
