"""`manage.py engine`: runs what is awarded, until it is stopped. One of them at a time; a second one waits its turn."""

from __future__ import annotations

import logging
import signal
import time
from typing import Any

import psycopg
from django.core.management.base import BaseCommand
from django.db import DatabaseError, close_old_connections, connection, connections
from django.utils import timezone

from scheduling.engines.base import Engine
from scheduling.services.engines import local_engine
from scheduling.services.runs import next_start, runs_pause, runs_reconcile, runs_tick

LOCK = 0x656E67696E65  # of the one engine at work
CHANNEL = "scheduling_awards"  # the database tells on it that an award moved
LOOK_SECONDS, STOP_SECONDS = 1.0, 5.0
log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Runs the programs of awarded jobs on this machine, from their slot to its end, until it is stopped."

    def handle(self, *args: Any, **options: Any) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        engine = local_engine()
        reconciled = False  # once it was our turn
        while not self.asked:
            try:
                with _listener() as listener:
                    while not self.asked and not _mine(listener):
                        time.sleep(0.2)
                    if not reconciled and not self.asked:
                        runs_reconcile(engine=engine, at=timezone.now())
                        reconciled = True
                    self._work(engine, listener)
            except (DatabaseError, psycopg.Error):
                log.warning("the engine cannot reach the database; what runs goes on", exc_info=True)
                engine.touch()
                connections.close_all()
                time.sleep(LOOK_SECONDS)
        if reconciled:  # else the gangs are another engine's
            self._stop(engine)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True

    def _work(self, engine: Engine, listener: psycopg.Connection[Any]) -> None:
        while not self.asked:
            close_old_connections()
            runs_tick(engine=engine, at=timezone.now())
            starts = next_start(at=timezone.now())
            left = LOOK_SECONDS if starts is None else (starts - timezone.now()).total_seconds()
            for _ in listener.notifies(timeout=min(LOOK_SECONDS, max(0.05, left)), stop_after=1):
                pass

    def _stop(self, engine: Engine) -> None:
        """Everybody saves and ends; whoever does not is killed by its supervisor.

        The database may have been stopped with us: the next engine then writes down how they ended.
        """
        deadline, left = time.monotonic() + STOP_SECONDS, 1
        while left and time.monotonic() < deadline:
            left = engine.pause_all()
            try:
                left += runs_pause(engine=engine, at=timezone.now())
            except DatabaseError:
                connections.close_all()
            if left:
                time.sleep(0.1)


def _listener() -> psycopg.Connection[Any]:
    """A connection of its own: it waits while the others work."""
    parameters = connection.get_connection_params()
    wanted = {name: parameters[name] for name in ("host", "port", "user", "password", "dbname") if name in parameters}
    listener = psycopg.connect(**wanted, autocommit=True)
    listener.execute(f"LISTEN {CHANNEL}")
    return listener


def _mine(listener: psycopg.Connection[Any]) -> bool:
    row = listener.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
    return bool(row and row[0])
