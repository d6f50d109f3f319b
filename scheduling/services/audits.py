"""What auditors ask to have worked out: a charge, an interval or everything verified, a period as a signed bundle.

A request is a row; a task takes the oldest one that waits, one at a time, so that the market always has a process
left. What a process that ended has left behind is done again. Progress stands in the cache, for it may be lost.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO, Any

from django.core.cache import cache
from django.db import transaction

from scheduling.models import AuditKind, AuditPart, AuditRun, AuditState, Interval, Pool, TrainingJob
from scheduling.services.audit_verdicts import Verdict, verified
from scheduling.services.bundle import bundle_write
from scheduling.services.moments import AUDIT_LOCK, alone
from tenants.access import Access, Refused
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.services.members import NOT_ALLOWED

MOST_WAITING = 5  # of one person
LONGEST = timedelta(days=93)
MOST_BYTES = 256 << 20
PART_BYTES = 1 << 20
KEPT = timedelta(days=7)
UNKNOWN_JOB = Refused("unknown_job", "There is no such job.")
UNKNOWN_INTERVAL = Refused("unknown_interval", "There is no such interval.")
NO_PERIOD = Refused("invalid_period", "The period ends before it begins.")
TOO_LONG = Refused("invalid_period", f"A bundle is of at most {LONGEST.days} days. For more there is a command.")
AGAIN = "again"  # in the result of a request that was left behind once
TWICE = Refused("failed", "It broke off twice: it took too long, or too much memory. Use the command.")
TOO_MANY = Refused("audits_waiting", f"{MOST_WAITING} requests of yours are not done yet. Wait for one of them.")

Clock = Callable[[], datetime]


class TooLarge(Exception):
    """The bundle outgrew what is kept."""


@dataclass(frozen=True)
class Progress:
    done: int
    total: int  # 0: not known beforehand
    unit: str

    @property
    def percent(self) -> float:
        return 100.0 * self.done / self.total if self.total else 0.0


def verify_start(*, kind: str, pool: Pool | None, number: int | None, by: Access, at: datetime) -> AuditRun | Refused:
    """Ask for a charge (`number` of the job), an interval (of the pool), or everything (of the pool, or of all)."""
    if kind == AuditKind.CHARGE:
        with scope_disabled("an auditor looks at everybody's jobs"):
            job = TrainingJob.objects.filter(pk=number).first()
        if job is None:
            return UNKNOWN_JOB
        pool = job.pool
    elif kind == AuditKind.INTERVAL and not _is_there(pool, number):
        return UNKNOWN_INTERVAL
    return _start(AuditRun(kind=kind, pool=pool, number=number), by, at)


def bundle_start(*, pool: Pool, start: datetime, end: datetime, by: Access, at: datetime) -> AuditRun | Refused:
    """Ask for the signed bundle of [start, end)."""
    if end <= start:
        return NO_PERIOD
    if end - start > LONGEST:
        return TOO_LONG
    return _start(AuditRun(kind=AuditKind.BUNDLE, pool=pool, period_start=start, period_end=end), by, at)


def _is_there(pool: Pool | None, number: int | None) -> bool:
    return number is not None and Interval.objects.filter(pool=pool, number=number).exists()


def _start(run: AuditRun, by: Access, at: datetime) -> AuditRun | Refused:
    if not by.allows(Permission.FAIRNESS_VIEW):
        return NOT_ALLOWED
    waiting = AuditRun.objects.filter(asked_by=by.user, state__in=[AuditState.QUEUED, AuditState.RUNNING])
    if waiting.count() >= MOST_WAITING:
        return TOO_MANY
    run.asked_at, run.asked_by = at, by.user
    run.save(force_insert=True)
    return run


def audits_next(*, clock: Clock, seed: bytes) -> int:
    """Do what waits, oldest first; the number of requests done. None where another process is at it."""
    with alone(AUDIT_LOCK) as ours:
        if not ours:
            return 0
        _left_behind(clock())
        AuditPart.objects.filter(run__ended_at__lt=clock() - KEPT).delete()
        done = 0
        while run := AuditRun.objects.select_related("pool").filter(state=AuditState.QUEUED).order_by("pk").first():
            _do(run, clock, seed)
            done += 1
        return done


def audit_progress(run: AuditRun) -> Progress | None:
    """None: not begun, or nothing is known."""
    found = cache.get(_key(run.pk)) if run.state == AuditState.RUNNING else None
    return Progress(*found) if found else None


def bundle_bytes(run: AuditRun) -> Iterator[bytes]:
    """The file, piece by piece."""
    for place in range(AuditPart.objects.filter(run=run).count()):
        yield bytes(AuditPart.objects.get(run=run, place=place).content)


def _left_behind(at: datetime) -> None:
    """Whoever has the lock is alone: what still runs was left by a process that ended. It is done once more."""
    for run in AuditRun.objects.filter(state=AuditState.RUNNING):
        if run.result.get(AGAIN):
            _end(run, TWICE, at)
        else:
            run.state, run.result = AuditState.QUEUED, {AGAIN: True}
            run.save(update_fields=["state", "result"])


def _do(run: AuditRun, clock: Clock, seed: bytes) -> None:
    run.state, run.began_at = AuditState.RUNNING, clock()
    run.save(update_fields=["state", "began_at"])
    try:
        found = _bundle(run, seed) if run.kind == AuditKind.BUNDLE else verified(run, _teller(run.pk))
    except TooLarge:
        size = f"{MOST_BYTES >> 20} MiB"
        found = Refused("too_large", f"The bundle is larger than {size}. Ask for fewer days, or use the command.")
    except Exception as error:  # whatever breaks, the request ends and says so, and the next one is served
        found = Refused("failed", f"It broke off: {type(error).__name__}: {error}.")
    _end(run, found, clock())


def _end(run: AuditRun, found: Verdict | Refused, at: datetime) -> None:
    failed = isinstance(found, Refused)
    run.state = AuditState.FAILED if failed else AuditState.DONE
    run.sentence, run.ended_at = found.sentence, at
    run.result = {}
    if isinstance(found, Verdict):
        run.is_clean, run.result = found.is_clean, dict(found.result)
    run.save()
    cache.delete(_key(run.pk))


def _bundle(run: AuditRun, seed: bytes) -> Verdict | Refused:
    assert run.pool and run.period_start and run.period_end  # noqa: S101, PT018  as every bundle's row has it
    with tempfile.TemporaryFile() as file:
        counted: Any = _Counted(file, _teller(run.pk))
        found = bundle_write(pool=run.pool, start=run.period_start, end=run.period_end, seed=seed, file=counted)
        if isinstance(found, Refused):
            return found
        run.size = file.tell()
        file.seek(0)
        _keep(run, file)
    words = f"{found.intervals} intervals, {found.awards} awards and {found.transactions} transactions, signed."
    return Verdict(None, words, {"public_key": found.public_key})


@transaction.atomic
def _keep(run: AuditRun, file: IO[bytes]) -> None:
    AuditPart.objects.filter(run=run).delete()
    for place, content in enumerate(iter(lambda: file.read(PART_BYTES), b"")):
        AuditPart.objects.create(run=run, place=place, content=content)


class _Counted:
    """A file that says how much was written, and is never longer than what is kept."""

    def __init__(self, file: IO[bytes], tell: Callable[[int, int, str], None]) -> None:
        self._file, self._tell_progress = file, tell

    def write(self, content: bytes) -> int:
        if self._file.tell() + len(content) > MOST_BYTES:
            raise TooLarge
        written = self._file.write(content)
        self._tell_progress(self._file.tell() >> 10, 0, "KiB")
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _teller(run_id: int) -> Callable[[int, int, str], None]:
    def tell(done: int, total: int, unit: str) -> None:
        cache.set(_key(run_id), (done, total, unit), timeout=3_600)

    return tell


def _key(run_id: int) -> str:
    return f"audit-progress:{run_id}"
