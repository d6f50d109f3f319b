"""Decide what becomes of an address that takes what it is sent, or does not: the same for webhooks of tenants and for
chat addresses of persons."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from scheduling.webhooks.calls import PATIENCE_SECONDS

AT_ONCE = 8  # receivers called side by side
LEASE = timedelta(seconds=12 * PATIENCE_SECONDS)  # of a try whose end was not recorded
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(hours=2)
LONGEST_QUIET = timedelta(minutes=2)  # of an address, so that one bad delivery does not hold back the others
MOST_FAILURES = 15  # of one delivery: about a day
FAILING_TOO_LONG = timedelta(days=3)
STATE = ("failures", "failing_since", "quiet_until", "active", "switched_off_at")  # what these functions change


class Receiver(Protocol):
    active: bool
    failures: int  # since it last worked
    failing_since: datetime | None
    quiet_until: datetime | None  # it is not tried before
    switched_off_at: datetime | None


def backoff(failures: int, draw: float) -> timedelta:
    """Return the pause after `failures` failures in a row: twice as long each time, at most two hours. `draw` in [0, 1)
    takes up to half of it away, so that many receivers that failed together do not come back together."""
    longest = min(FIRST_PAUSE * 2 ** min(failures - 1, 20), LONGEST_PAUSE)
    return longest * (1.0 - 0.5 * draw)


def receiver_worked(row: Receiver) -> None:
    row.failures, row.failing_since, row.quiet_until = 0, None, None


def receiver_failed(row: Receiver, at: datetime, draw: float) -> bool:
    """Record a failure. Return whether the receiver was switched off just now, as it took nothing for too long."""
    row.failures += 1
    row.failing_since = row.failing_since or at
    row.quiet_until = at + min(backoff(row.failures, draw), LONGEST_QUIET)
    if not row.active or at - row.failing_since < FAILING_TOO_LONG:
        return False
    row.active, row.switched_off_at = False, at
    return True


def receiver_on(row: Receiver) -> None:
    """Switch the receiver on, as if it had never failed."""
    row.active, row.switched_off_at, row.failing_since, row.failures, row.quiet_until = True, None, None, 0, None
