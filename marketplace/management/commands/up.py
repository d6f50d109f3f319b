"""`manage.py up`: the whole product until Ctrl-C."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.db import connections

from marketplace import env, product
from marketplace.children import ChildFailed
from marketplace.embedded import AlreadyRunning, CannotStart, state_for
from scheduling.management.commands.demo import log_ins
from scheduling.services.demo import database_is_empty, demo_is_loaded
from scheduling.services.engines import local_engine

SWEEP_SECONDS = 6.0  # for gangs to save, where the engine did not see to it


class Command(BaseCommand):
    help = "Starts PostgreSQL, Valkey, the web server, the worker and beat; loads the demo into an empty database."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=env.integer("PORT", 8000, least=1, most=65535))

    def handle(self, *args: Any, port: int, **options: Any) -> None:
        product.stop_on_signals()
        try:
            self._run(port)
        except KeyboardInterrupt:
            self.stdout.write("Stopped.")
        except (AlreadyRunning, CannotStart, ChildFailed, product.PortTaken) as problem:
            raise CommandError(str(problem)) from None

    def _run(self, port: int) -> None:
        places = product.Places(settings.BASE_DIR, settings.VAR_DIR / "log", state_for(Path(settings.VAR_DIR)))
        product.require_free(port)
        with product.running(places, port=port, prepare=self._prepare, sweep=_sweep) as started:
            self.stdout.write(self.style.SUCCESS(f"\nBourse: http://{product.HOST}:{port}/"))
            self.stdout.write(f"Logs: {places.logs}   Data: {places.state.folder}   Ctrl-C stops everything.")
            product.wait_for_an_end(started)

    def _prepare(self) -> None:
        call_command("migrate", verbosity=0)
        if demo_is_loaded() and not settings.DEBUG:
            raise CommandError("This database holds the demonstration, whose password everybody knows: use another.")
        if settings.DEBUG and database_is_empty():
            call_command("demo")
        elif demo_is_loaded():
            self.stdout.write(log_ins())
        connections.close_all()  # nothing more to ask, for as long as the product runs


def _sweep() -> None:
    """No gang outlives the product; those that the engine has stopped are gone already."""
    local_engine().end_all(SWEEP_SECONDS)
