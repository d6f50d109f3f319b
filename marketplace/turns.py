"""Who works next in a web process: callers take turns, tenant by tenant.

Python computes one thread at a time. Were every request begun at once, a tenant that sends a hundred would have a
hundred threads beside one of somebody else's, and that one would be a hundred times as slow. So each tenant (or
whoever is no tenant's) has a few threads at most, and what else it sends waits, in its order, without a thread, a
connection or any work. Where all threads are taken, the tenants that wait come in turn. And whoever is not alone has
one thread: a second would halve what is left for the others, and gain nothing where two compute.

A party of which many requests wait gains nothing by haste: its last one is late anyhow. While others are present it
gives way: it rests after each of its pieces, twice as long as that piece took, begins nothing beside somebody else's,
and stops in the middle of a piece while somebody else is at work (`Piece.give_way`). After six times as long it goes on
in any case, so a busy day slows it down and never stops it.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Set
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, TypeVar

from tenants.patience import giving_way

Result = TypeVar("Result")
Headers = Iterable[tuple[bytes, bytes]]
Later = Callable[[float, Callable[[], object]], object]
MOST_KNOWN = 10_000
ALONE_SECONDS = 1.0  # without a request of anybody else
MANY_WAITING = 8  # pieces of one party: from here on it gives way
LEAST_REST, MOST_REST = 2.0, 6.0  # times what its last piece took
LEAST_PAUSE, MOST_PAUSE = 0.2, 20.0  # seconds, and times what it has worked, for which a piece stops in all ...
LONGEST_PAUSE = 10.0  # ... but for so many seconds at most: it has a deadline


class Turns:
    """`at_once`: pieces of work at the same time; `of_one`: of one party that is alone. Any thread may ask.
    `later(seconds, call)` calls after so many seconds, from any thread."""

    def __init__(self, at_once: int, of_one: int, later: Later, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once, self._of_one, self._later, self._clock = at_once, of_one, later, clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._at_work: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[Callable[[], object]]] = OrderedDict()  # whose turn is next stands first
        self._times: OrderedDict[str, float] = OrderedDict()  # when who came last; whoever came first stands first
        self._last: dict[str, tuple[float, float]] = {}  # began, less its pauses, and ended: its last piece
        self._alarm = math.inf  # when the next call that was asked for comes

    def waiting(self, party: str) -> int:
        with self._lock:
            return len(self._waiting.get(party, ()))

    def begin(self, party: str, start: Callable[[], object]) -> None:
        """Calls `start` now, or when the party's turn comes. Whoever was started says by `end` that it is done."""
        with self._lock:
            self._waiting.setdefault(party, deque()).append(start)
            self._times[party] = self._clock()
            self._times.move_to_end(party)
        self._start()

    def end(self, party: str) -> None:
        with self._lock:
            self._changed.notify_all()
            self._at_work[party] -= 1
            if not self._at_work[party]:
                del self._at_work[party]
            if party in self._waiting:
                began, _ = self._last[party]
                self._last[party] = (began, self._clock())
            elif party not in self._at_work:
                del self._last[party]
        self._start()

    def forget(self, party: str, start: Callable[[], object]) -> None:
        """It need not begin any more; if it has, nothing changes."""
        with self._lock:
            queue = self._waiting.get(party, deque())
            if start in queue:
                queue.remove(start)
            if not queue:
                self._waiting.pop(party, None)
                if party not in self._at_work:
                    self._last.pop(party, None)

    def pause(self, piece: Piece) -> None:
        """Whoever is in the middle of this piece waits here while it is the others' turn."""
        with self._lock:
            piece.of_many = piece.of_many or self._floods(piece.party)
            while (seconds := self._left_to_pause(piece)) > 0:
                stopped = self._clock()
                self._changed.wait(seconds)
                pause = self._clock() - stopped
                piece.paused += pause
                began, ended = self._last[piece.party]
                self._last[piece.party] = (began + pause, ended)

    def _left_to_pause(self, piece: Piece) -> float:
        others = any(not self._floods(party) for party in self._at_work.keys() - {piece.party})
        if not others or not piece.of_many:
            return 0.0
        worked = self._clock() - self._last[piece.party][0]
        return min(LEAST_PAUSE + MOST_PAUSE * worked, LONGEST_PAUSE) - piece.paused

    def _floods(self, party: str) -> bool:
        return len(self._waiting.get(party, ())) >= MANY_WAITING

    def _start(self) -> None:
        while (start := self._next()) is not None:
            start()

    def _next(self) -> Callable[[], object] | None:
        with self._lock:
            if self._at_work.total() >= self._at_once:
                return None
            now = self._clock()
            while self._times and next(iter(self._times.values())) < now - ALONE_SECONDS:
                self._times.popitem(last=False)
            present = self._times.keys() | self._at_work.keys()
            soonest = math.inf
            for party, queue in self._waiting.items():
                if self._at_work[party] >= (self._of_one if present <= {party} else 1):
                    continue
                if (rest := self._rest(party, present, now)) > 0:
                    soonest = min(soonest, now + rest)
                    continue
                start = queue.popleft()
                self._waiting.move_to_end(party)
                if not queue:
                    del self._waiting[party]
                self._at_work[party] += 1
                self._last[party] = (now, now)
                return start
            if soonest < self._alarm:
                self._alarm = soonest
                self._later(soonest - now, self._ring)
            return None

    def _rest(self, party: str, present: Set[str], now: float) -> float:
        """Seconds for which it still gives way, if nobody else ends meanwhile."""
        if not self._floods(party) or present <= {party}:
            return 0.0
        began, ended = self._last.get(party, (now, now))
        beside_others = self._at_work.total() > self._at_work[party]
        return (ended - began) * (MOST_REST if beside_others else LEAST_REST) - (now - ended)

    def _ring(self) -> None:
        with self._lock:
            self._alarm = math.inf
        self._start()


@dataclass
class Piece:
    """Of a party's work, as its thread has it. `of_many`: while it was at work, many of its party waited. `paused`: for
    how many seconds it has stopped in its middle."""

    turns: Turns
    party: str
    of_many: bool = False
    paused: float = 0.0

    def give_way(self) -> None:
        self.turns.pause(self)


class InTurn(Executor):
    """A thread as its party may use it: each piece of work waits for a turn."""

    def __init__(self, turns: Turns, party: str, thread: Executor) -> None:
        self._turns, self._party, self._thread = turns, party, thread

    def submit(self, work: Callable[..., Result], /, *args: Any, **options: Any) -> Future[Result]:
        future: Future[Result] = Future()

        def run() -> None:
            try:
                if future.set_running_or_notify_cancel():  # nobody has left meanwhile
                    with giving_way(Piece(self._turns, self._party).give_way):
                        future.set_result(work(*args, **options))
            except BaseException as error:
                future.set_exception(error)
            finally:
                self._turns.end(self._party)

        def start() -> None:
            try:
                self._thread.submit(run)
            except RuntimeError:  # it was shut down for somebody who has left
                self._turns.end(self._party)

        future.add_done_callback(lambda _: self._turns.forget(self._party, start) if future.cancelled() else None)
        self._turns.begin(self._party, start)
        return future


class Parties:
    """Whose a request is: by what its credential was when it was first looked at, in a short piece of work of its own.
    It decides whose turn is used, and nothing else."""

    def __init__(self) -> None:
        self._parties: OrderedDict[bytes, str] = OrderedDict()

    def of(self, digest: bytes | None, address: str) -> str:
        party = self._parties.get(digest) if digest else None
        return party or f"address {address}"

    def knows(self, digest: bytes) -> bool:
        return digest in self._parties

    def learn(self, digest: bytes, party: str) -> None:
        self._parties[digest] = party
        if len(self._parties) > MOST_KNOWN:
            self._parties.popitem(last=False)


@dataclass(frozen=True)
class Credential:
    """What a caller shows of itself: the words of a token, or the key of a session."""

    token: str = ""
    session: str = ""

    @property
    def digest(self) -> bytes:
        """To know it again without keeping it."""
        return hashlib.blake2b(f"{self.token} {self.session}".encode(), digest_size=16).digest()


def credential_in(headers: Headers, cookie: bytes) -> Credential | None:
    session = b""
    for name, value in headers:
        if name == b"authorization":
            return Credential(token=value.decode("latin-1"))
        if name == b"cookie":
            session = next((part for part in value.split(b"; ") if part.startswith(cookie + b"=")), session)
    return Credential(session=session[len(cookie) + 1 :].decode("latin-1")) if session else None
