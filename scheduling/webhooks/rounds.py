"""The round of deliveries: collect, then try and try again until nothing is due or the time is over.

One process at a time makes rounds, so that slow receivers never take more than one worker from the market; it asks
several receivers side by side. Threads only talk to the outside; everything stored is stored by the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection

from scheduling.webhooks.calls import Outcome, call
from scheduling.webhooks.deliveries import AT_ONCE, Letter, deliveries_collect, tries_begin, try_end

ROUND = timedelta(seconds=20)
LOCK = 0x626F757273650001  # of the database: "bourse", 1

Caller = Callable[[Letter], Outcome]


def _post(letter: Letter) -> Outcome:
    return call(letter.url, headers=letter.headers, body=letter.body)


def deliveries_round(*, clock: Callable[[], datetime], draw: Callable[[], float], post: Caller = _post) -> int:
    """The number of tries. None where another process is at it. `clock` and `draw` are asked at each step."""
    with _alone() as ours:
        return _round(clock, draw, post) if ours else 0


def _round(clock: Callable[[], datetime], draw: Callable[[], float], post: Caller) -> int:
    ends, tried = clock() + ROUND, 0
    deliveries_collect(at=clock())
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="webhooks") as threads:
        while clock() < ends and (letters := tries_begin(at=clock())):
            for letter, outcome in zip(letters, threads.map(post, letters), strict=True):
                try_end(letter=letter, outcome=outcome, at=clock(), draw=draw())
            tried += len(letters)
    return tried


@contextmanager
def _alone() -> Iterator[bool]:
    """A lock of the session: it ends with the process, however that ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        (ours,) = cursor.fetchone()
    try:
        yield bool(ours)
    finally:
        if ours:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
