"""`manage.py engine`: runs what is awarded, until it is stopped. There is one of each name; a second one waits.

Restarting it leaves gangs alone: they go on by their plans, and the next engine finds them. Gangs whose engine does not
come back in time save and end by themselves.
"""

from __future__ import annotations

import csv
import logging
import signal
import threading
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import psycopg
from django.core.management.base import CommandError
from django.db import DatabaseError, close_old_connections, connection, connections
from django.utils import timezone

from scheduling.engines.base import Engine, WrongEngine
from scheduling.models import Pool
from scheduling.operator.cluster_import import cluster_changes, cluster_import, cluster_of, owners_read
from scheduling.operator.engine_servers import servers_follow
from scheduling.runs.engines import LOCAL, accounted_of, engine_lock, engine_named, units_sold
from scheduling.runs.figures import EngineFigures
from scheduling.runs.pulse import engine_pulse
from scheduling.runs.read_ran import HEADS, charged_against_ran
from scheduling.runs.runs import next_start, runs_reconcile, runs_tick
from tenants.access import Refused, access_of_system
from tenants.common.csv_files import csv_pieces
from tenants.common.failures import unavailable_of
from tenants.common.patience import process_is
from tenants.ledger.management.base import DatabaseCommand
from tenants.scoping import scope_disabled

CHANNEL = "scheduling_awards"  # the database sends a notification on this channel when an award changes
LOOK_SECONDS, PULSE_SECONDS = 1.0, 5.0
log = logging.getLogger(__name__)


class Command(DatabaseCommand):
    help = "Runs the programs of awarded jobs, from their slot to its end, until it is stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", nargs="?", choices=["run", "import", "ran"], default="run")
        parser.add_argument("--name", default=LOCAL, help="of the engine; `local` is this machine")
        parser.add_argument("--check", action="store_true", help="say what breaks our promises, and end")
        parser.add_argument("--pool", help="import, ran: the pool, by its slug")
        parser.add_argument("--owner", default="", help="import: whose new servers are, by slug")
        owners = "import: a CSV file of servers, partition:NAME or account:NAME, and tenants"
        parser.add_argument("--owners", type=Path, help=owners)
        parser.add_argument("--confirm", action="store_true", help="import: make what was shown")
        parser.add_argument("--from-slot", type=int, help="ran: the first slot; the last 100 where none is named")

    def handle(self, *args: Any, what: str, name: str, check: bool, **options: Any) -> None:
        try:
            if what == "import":
                return self._import(name, options)
            if what == "ran":
                return self._ran(options)
            engine = engine_named(name)
        except WrongEngine as error:
            raise CommandError(str(error)) from None
        if check:
            return self._check(engine)
        process_is("engine")
        self.has_signal = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        try:
            self._run(engine)
        except WrongEngine as error:  # its settings are others by now
            raise CommandError(str(error)) from None

    def _check(self, engine: Engine) -> None:
        findings = engine.check(units_sold(engine.name))
        for finding in findings:
            self.stdout.write(f"{'Breaks a promise' if finding.breaks else 'Warning'}: {finding.sentence}")
        if any(finding.breaks for finding in findings):
            raise CommandError(f"The engine {engine.name} cannot keep what the market promises.")
        self.stdout.write(f"The engine {engine.name} can keep what the market promises.")

    def _import(self, name: str, options: dict[str, Any]) -> None:
        """Show what the cluster's servers would be in the pool; with --confirm, make them."""
        pool = _pool(options["pool"])
        table = _owners(options["owners"]) if options["owners"] else {}
        cluster = cluster_of(name, pool=pool)
        if isinstance(cluster, Refused):
            raise CommandError(cluster.sentence)
        changes = cluster_changes(pool=pool, cluster=cluster, owners=owners_read(table, options["owner"]))
        if isinstance(changes, Refused):
            raise CommandError(changes.sentence)
        for change in changes:
            self.stdout.write(change.sentence)
        if not changes:
            self.stdout.write("The pool has what the cluster has.")
        elif not options["confirm"]:
            self.stdout.write("Nothing was made. Say --confirm to make it so.")
        else:
            by, reason = access_of_system("engine import"), f"as the cluster of the engine {name} is"
            if refusal := cluster_import(pool=pool, changes=changes, by=by, reason=reason, at=timezone.now()):
                raise CommandError(refusal.sentence)
            count = sum(change.cluster is not None for change in changes)
            self.stdout.write(f"{count} servers are as the cluster says.")

    def _ran(self, options: dict[str, Any]) -> None:
        """Write as CSV what was charged against what ran, for each job, slot and server."""
        pool = _pool(options["pool"])
        last = pool.slot_at(timezone.now()) - 1
        first = max(0, last - 99) if options["from_slot"] is None else options["from_slot"]
        parts = accounted_of(pool, first, last)
        if isinstance(parts, str):
            self.stderr.write(parts)
        with scope_disabled("an operator compares what was charged of all tenants"):
            rows = [astuple(row) for row in charged_against_ran(pool, first, last, parts)]
        for piece in csv_pieces(HEADS, rows):
            self.stdout.write(piece, ending="")

    def _run(self, engine: Engine) -> None:
        self.figures, self.told_at = EngineFigures(engine.name), -PULSE_SECONDS
        reconciled = False  # True once this process has held the engine's lock
        lease = Lease(engine)
        self.hindrance = Hindrance("the engine cannot work; what runs goes on", "the engine works again")
        while not self.has_signal:
            try:
                with _listener() as listener:
                    while not self.has_signal and not _mine(listener, engine.name):
                        if reconciled:  # another one is at work: what we remember of gangs is out of date when it ends
                            engine = lease.engine = engine_named(engine.name)
                            reconciled = False
                        time.sleep(0.2)
                    if not reconciled and not self.has_signal:
                        lease.start()  # first, as what follows may take long
                        if engine.name == LOCAL and not self.hindrance.lasts:
                            for finding in engine.check({}):
                                log.warning(finding.sentence)
                        runs_reconcile(engine=engine, at=timezone.now())
                        reconciled = True
                    self._work(engine, lease, listener)
            except (DatabaseError, psycopg.Error, OSError) as error:
                self.hindrance.log(error)
                lease.keep()
                connections.close_all()
                time.sleep(LOOK_SECONDS)
        lease.end()

    def _ask(self, number: int, frame: object) -> None:
        self.has_signal = True

    def _work(self, engine: Engine, lease: Lease, listener: psycopg.Connection[Any]) -> None:
        while not self.has_signal:
            close_old_connections()
            lease.keep()
            ticked = runs_tick(engine=engine, at=timezone.now())
            servers_follow(engine=engine, at=timezone.now())
            report = engine.report()
            self.figures.count(ticked, report)
            if time.monotonic() - self.told_at > PULSE_SECONDS:
                self.told_at = time.monotonic()
                engine_pulse(engine=engine, alerts=report.alerts, figures=self.figures.text(), at=timezone.now())
            self.hindrance.log_end()
            starts = next_start(at=timezone.now())
            seconds = LOOK_SECONDS if starts is None else (starts - timezone.now()).total_seconds()
            for _ in listener.notifies(timeout=min(LOOK_SECONDS, max(0.05, seconds)), stop_after=1):
                pass


class Hindrance:
    """What keeps the engine from one of its works, try after try. The log has it once as it begins, and once as it
    ends: an outage would fill it otherwise."""

    def __init__(self, sentence: str, end: str) -> None:
        self._sentence, self._end = sentence, end
        self._kind: type[Exception] | None = None  # of the last try's error, if it had one

    @property
    def lasts(self) -> bool:
        return self._kind is not None

    def log(self, error: Exception) -> None:
        """Log the error, unless the try before had one of its kind. A traceback is there for faults of our own."""
        if type(error) is not self._kind:
            is_ours = not isinstance(error, OSError) and unavailable_of(error) is None
            reason = str(error).partition("\n")[0]
            log.warning("%s: %s", self._sentence, reason, exc_info=error if is_ours else None)
        self._kind = type(error)

    def log_end(self) -> None:
        """Log that a try had no error, if the one before had."""
        if self._kind is not None:
            log.warning(self._end)
        self._kind = None


class Lease:
    """A thread that renews the engine's lease, also while commands block or the database is slow. It stops renewing
    when the engine's loop has not come round for as long as `timings.spare`, because nobody may run unpaid."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._kept_at = time.monotonic()
        self._hindrance = Hindrance("the lease could not be renewed", "the lease is renewed again")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Take the gangs over, and begin to renew their lease. A second call does no more than `keep`."""
        self.keep()
        if not self._thread.is_alive():
            self._thread.start()

    def keep(self) -> None:
        """Note that the engine's loop has come round."""
        self._kept_at = time.monotonic()

    def end(self) -> None:
        """Stop renewing. The gangs have the rest of the lease until another engine takes them over."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def renew(self, now: float) -> None:
        """Renew the lease if the loop came round lately. `now` is a time of the monotonic clock."""
        if now - self._kept_at < self.engine.timings.spare:
            try:
                self.engine.touch()
            except OSError as error:
                self._hindrance.log(error)
            else:
                self._hindrance.log_end()

    def _run(self) -> None:
        while not self._ended.wait(1.0):
            self.renew(time.monotonic())


def _pool(slug: str | None) -> Pool:
    pool = Pool.objects.filter(slug=slug or "").first()
    if pool is None:
        raise CommandError(f"There is no pool {slug!r}. Name one with --pool.")
    return pool


def _owners(path: Path) -> dict[str, str]:
    """Read the table of servers and tenants. A line that cannot be read is refused, as its servers would go to another
    owner."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # spreadsheets put a mark before UTF-8
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is no text in UTF-8.") from None
    table: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in next(csv.reader([line]), [])]
        if not any(cells):
            continue
        if len(cells) != 2 or not all(cells) or cells[0] in table:
            raise CommandError(
                f"{path}, line {number}: “{line.strip()}” is not a server, a comma and a tenant, each once."
            )
        table[cells[0]] = cells[1]
    return table


def _listener() -> psycopg.Connection[Any]:
    """Return a connection of its own for notifications and the engine's lock: it waits while the others work."""
    listener = psycopg.connect(**connection_words(connection.get_connection_params()), autocommit=True)
    listener.execute(f"LISTEN {CHANNEL}")
    return listener


def connection_words(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of Django's connection parameters that the database's own library knows. Among them is how the
    server proves its identity (`sslmode=verify-full`); without that, the password could be sent to anybody."""
    words = {word.keyword.decode() for word in psycopg.pq.Conninfo.get_defaults()}
    return {name: value for name, value in parameters.items() if name in words}


def _mine(listener: psycopg.Connection[Any], name: str) -> bool:
    row = listener.execute("SELECT pg_try_advisory_lock(%s, %s)", engine_lock(name)).fetchone()
    return bool(row and row[0])
