"""Make rounds of calls to the outside: collect, then try and try again until nothing is due or the time is over.

One process at a time makes rounds of a kind, so that slow receivers never take more than one worker from the market; it
calls several receivers side by side. Threads only make calls; the caller's thread stores what came of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Protocol

from scheduling.common import alone
from scheduling.webhooks import chats, deliveries
from scheduling.webhooks.calls import CallOutcome, call
from scheduling.webhooks.receivers import AT_ONCE

ROUND = timedelta(seconds=20)
LOCK, CHATS_LOCK = 0x626F757273650001, 0x626F757273650007  # of the database: "bourse", 1 and 7


class Post(Protocol):
    """What is sent, whatever it is about."""

    @property
    def url(self) -> str: ...

    @property
    def headers(self) -> dict[str, str]: ...

    @property
    def body(self) -> bytes: ...


Caller = Callable[[Any], CallOutcome]


@dataclass(frozen=True)
class LetterDesk:
    """The kind of letters that a round sends. `lock` is the database's lock. `collect` records what is new, `begin` a
    try for each of some receivers that are due, and `end` what came of one; it returns False where a receiver's row is
    locked, which is no reason to wait."""

    lock: int
    collect: Callable[[datetime], object]
    begin: Callable[[datetime], Sequence[Any]]
    end: Callable[[Any, CallOutcome, datetime, float], bool]


WEBHOOKS = LetterDesk(
    lock=LOCK,
    collect=lambda at: deliveries.deliveries_collect(at=at),
    begin=lambda at: deliveries.tries_begin(at=at),
    end=lambda letter, outcome, at, draw: deliveries.try_end(letter=letter, outcome=outcome, at=at, draw=draw),
)
CHATS = LetterDesk(
    lock=CHATS_LOCK,
    collect=lambda at: None,  # notices are due as they are made
    begin=lambda at: chats.chats_begin(at=at),
    end=lambda letter, outcome, at, draw: chats.chat_end(letter=letter, outcome=outcome, at=at, draw=draw),
)


def _post(letter: Post) -> CallOutcome:
    return call(letter.url, headers=letter.headers, body=letter.body)


def deliveries_round(*, clock: Callable[[], datetime], draw: Callable[[], float], post: Caller = _post) -> int:
    """Send events to webhooks, and return how many tries were made. `clock` and `draw` are called at each step."""
    return _round(WEBHOOKS, clock, draw, post)


def chats_round(*, clock: Callable[[], datetime], draw: Callable[[], float], post: Caller = _post) -> int:
    """Send notices to chat tools, and return how many tries were made."""
    return _round(CHATS, clock, draw, post)


def _round(desk: LetterDesk, clock: Callable[[], datetime], draw: Callable[[], float], post: Caller) -> int:
    """Make a round, and return how many tries were made: 0 where another process makes one.

    What came of a letter to a locked receiver is recorded after the next letters, or as the round ends. Where it is
    locked even then, the letter is sent again when the receiver's lease is over, as after a crash."""
    with alone(desk.lock) as ours:
        if not ours:
            return 0
        ends, tried, unrecorded = clock() + ROUND, 0, list[tuple[Any, CallOutcome]]()
        desk.collect(clock())
        with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="letters") as threads:
            while clock() < ends and (letters := desk.begin(clock())):
                outcomes = chain(unrecorded, zip(letters, threads.map(post, letters), strict=True))
                unrecorded = [each for each in outcomes if not desk.end(*each, clock(), draw())]
                tried += len(letters)
        for each in unrecorded:
            desk.end(*each, clock(), draw())
        return tried
