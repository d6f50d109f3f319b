"""Working through the requests of auditors, oldest first. Only one process does it at a time, so that another one is
always free for the market.

A short request is done at one go; one that a process left behind when it ended is done again. A verification of
everything is done in pieces of about a second, and each piece is kept: between two of them everything else that waits
has its turn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import IO, Any

from django.core.cache import cache
from django.db import transaction

from scheduling.audit.bundle import OPEN, bundle_write, signing_seed
from scheduling.audit.requests import RETENTION, progress_key
from scheduling.audit.verdicts import StoredVerdict, everything, verified
from scheduling.audit.verification import book_run, pool_run, verification_piece
from scheduling.common import AUDIT_LOCK, alone
from scheduling.models import OPEN_WORK, AuditKind, AuditPart, AuditRun, AuditState, Pool, VerificationRun, WhatIf
from tenants.access import Refused
from tenants.scoping import scope_disabled

ROUND = timedelta(seconds=8)  # how long one call works at pieces: its process also moves the market
MOST_BYTES = 256 << 20
PART_BYTES = 1 << 20
AGAIN = "again"  # a key in the result of a request that was left behind once
TWICE = Refused("failed", "It broke off twice: it took too long, or too much memory. Use the command.")

Clock = Callable[[], datetime]


class TooLarge(Exception):
    """The bundle is larger than what may be kept."""


def audits_next(*, clock: Clock) -> int:
    """Do the requests that wait, oldest first, and return how many were done or begun: none where another process is at
    it."""
    with alone(AUDIT_LOCK) as ours:
        if not ours:
            return 0
        _left_behind(clock())
        _everything_end(clock())
        AuditPart.objects.filter(run__ended_at__lt=clock() - RETENTION).delete()
        done = 0
        while run := _next():
            if run.kind == AuditKind.EVERYTHING:
                _everything_begin(run, clock())
            else:
                _do(run, clock)
            done += 1
        return done


def verification_round(*, clock: Clock) -> int:
    """Work at pieces of what is being verified, until the time is over or other work waits; return how many were
    done."""
    ends, pieces = clock() + ROUND, 0
    while clock() < ends and not _others_wait():
        with alone(AUDIT_LOCK) as ours:
            walk = VerificationRun.objects.filter(state__in=OPEN_WORK).order_by("pk").first() if ours else None
            if walk is None:
                break
            verification_piece(walk, clock=clock)
        pieces += 1
    if pieces:
        _everything_end(clock())
    return pieces


def _next() -> AuditRun | None:
    """Return the oldest request that waits. Only one verification of everything runs at a time: a second one would only
    take turns with it."""
    waiting = AuditRun.objects.select_related("pool").filter(state=AuditState.QUEUED).order_by("pk")
    if AuditRun.objects.filter(kind=AuditKind.EVERYTHING, state=AuditState.RUNNING).exists():
        waiting = waiting.exclude(kind=AuditKind.EVERYTHING)
    return waiting.first()


def _others_wait() -> bool:
    with scope_disabled("whatever is asked about the past takes turns"):
        return WhatIf.objects.filter(state__in=OPEN_WORK).exists() or _next() is not None


def _left_behind(at: datetime) -> None:
    """Queue once more the requests that a process left behind when it ended. Whoever has the lock is alone, so a
    request that still runs was left behind. Walks need no new start: they are kept as far as they came."""
    for run in AuditRun.objects.filter(state=AuditState.RUNNING, verifications=None):
        if run.result.get(AGAIN):
            _end(run, TWICE, at)
        else:
            run.state, run.result = AuditState.QUEUED, {AGAIN: True}
            run.save(update_fields=["state", "result"])


@transaction.atomic
def _everything_begin(run: AuditRun, at: datetime) -> None:
    """Save a walk over each pool, then one over the book."""
    if not _claim(run, at):
        return
    pools = [run.pool_id] if run.pool_id else Pool.objects.order_by("pk").values_list("pk", flat=True)
    with scope_disabled("a verification looks at everybody's awards and payments"):
        for walk in [*(pool_run(pool_id) for pool_id in pools), book_run()]:
            walk.audit = run
            walk.save(force_insert=True)


def _everything_end(at: datetime) -> None:
    """End the verifications of everything whose walks are all over."""
    over = AuditRun.objects.filter(kind=AuditKind.EVERYTHING, state=AuditState.RUNNING)
    for run in over.exclude(verifications=None).exclude(verifications__state__in=OPEN_WORK):
        _end(run, everything(run), at)


def _claim(run: AuditRun, at: datetime) -> bool:
    """Mark a request as running. Return False where it was called off meanwhile."""
    run.state, run.began_at = AuditState.RUNNING, at
    waiting = AuditRun.objects.filter(pk=run.pk, state=AuditState.QUEUED)
    return waiting.update(state=run.state, began_at=at) == 1


def _do(run: AuditRun, clock: Clock) -> None:
    if not _claim(run, clock()):
        return
    try:
        outcome = _bundle(run, clock()) if run.kind == AuditKind.BUNDLE else verified(run)
    except TooLarge:
        size = f"{MOST_BYTES >> 20} MiB"
        outcome = Refused("too_large", f"The bundle is larger than {size}. Ask for fewer days, or use the command.")
    except Exception as error:  # whatever breaks, the request ends and says so, and the next one is served
        outcome = Refused("failed", f"It broke off: {type(error).__name__}: {error}.")
    _end(run, outcome, clock())


def _end(run: AuditRun, outcome: StoredVerdict | Refused, at: datetime) -> None:
    """Store the outcome of a request, unless somebody has called it off meanwhile."""
    columns: dict[str, Any] = {"sentence": outcome.sentence, "ended_at": at, "result": {}, "size": run.size}
    columns["state"] = AuditState.FAILED if isinstance(outcome, Refused) else AuditState.DONE
    if isinstance(outcome, StoredVerdict):
        columns |= {"is_clean": outcome.is_clean, "result": dict(outcome.result)}
    AuditRun.objects.filter(pk=run.pk, state=AuditState.RUNNING).update(**columns)
    cache.delete(progress_key(run.pk))


def _bundle(run: AuditRun, at: datetime) -> StoredVerdict | Refused:
    assert run.pool and run.period_start and run.period_end  # noqa: S101, PT018  as every bundle's row has it
    seed = signing_seed(at=at)
    with tempfile.TemporaryFile() as file:

        def tell(done: int, total: int, unit: str) -> None:
            cache.set(progress_key(run.pk), (done, total, unit), timeout=3_600)

        counted: Any = _CountedFile(file, tell)
        contents = bundle_write(pool=run.pool, start=run.period_start, end=run.period_end, seed=seed, file=counted)
        if isinstance(contents, Refused):
            return contents
        run.size = file.tell()
        file.seek(0)
        _keep(run, file)
    words = (
        f"{contents.intervals} intervals, {contents.awards} awards and {contents.transactions} transactions, signed."
    )
    if contents.is_open:
        words += f" {OPEN}"
    return StoredVerdict(None, words, {"public_key": contents.public_key})


@transaction.atomic
def _keep(run: AuditRun, file: IO[bytes]) -> None:
    AuditPart.objects.filter(run=run).delete()
    for place, content in enumerate(iter(lambda: file.read(PART_BYTES), b"")):
        AuditPart.objects.create(run=run, place=place, content=content)


class _CountedFile:
    """A file that reports how much was written, and refuses to become longer than what may be kept."""

    def __init__(self, file: IO[bytes], tell: Callable[[int, int, str], None]) -> None:
        self._file, self._tell_progress = file, tell

    def write(self, content: bytes) -> int:
        if self._file.tell() + len(content) > MOST_BYTES:
            raise TooLarge
        count = self._file.write(content)
        self._tell_progress(self._file.tell() >> 10, 0, "KiB")
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
