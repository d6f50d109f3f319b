"""Rounds of letters to the outside: collect, then try and try again until nothing is due or the time is over.

One process at a time makes rounds of a kind, so that slow receivers never take more than one worker from the market; it
asks several receivers side by side. Threads only talk to the outside; what is stored the caller's thread stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
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
    """Whose letters a round sends. `lock`: of the database; `collect` writes down what is new, `begin` a try for each
    of some receivers that are due, `end` what came of one."""

    lock: int
    collect: Callable[[datetime], object]
    begin: Callable[[datetime], Sequence[Any]]
    end: Callable[[Any, CallOutcome, datetime, float], None]


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
    """Events to webhooks. The number of tries. `clock` and `draw` are asked at each step."""
    return _round(WEBHOOKS, clock, draw, post)


def chats_round(*, clock: Callable[[], datetime], draw: Callable[[], float], post: Caller = _post) -> int:
    """Notices to chat tools. The number of tries."""
    return _round(CHATS, clock, draw, post)


def _round(desk: LetterDesk, clock: Callable[[], datetime], draw: Callable[[], float], post: Caller) -> int:
    """None where another process is at it."""
    with alone(desk.lock) as ours:
        if not ours:
            return 0
        ends, tried = clock() + ROUND, 0
        desk.collect(clock())
        with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="letters") as threads:
            while clock() < ends and (letters := desk.begin(clock())):
                for letter, outcome in zip(letters, threads.map(post, letters), strict=True):
                    desk.end(letter, outcome, clock(), draw())
                tried += len(letters)
        return tried
