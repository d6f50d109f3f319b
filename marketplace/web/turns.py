"""Which request works next in a web process: callers take turns, tenant by tenant.

Python computes one thread at a time. If every request began at once, a tenant that sends a hundred would have a hundred
threads beside one of another tenant, and that one would be a hundred times as slow. So each tenant (or other party) has
a few threads at most, and its further requests wait, in order, without a thread, a connection or any work. When all
threads are taken, the waiting tenants come in turn. And a party that is not alone has one thread: a second one would
halve what is left for the others, and gain nothing where two compute.

A party with many waiting requests gains nothing by haste: its last one is late anyhow. While others are present it
gives way: it rests after each of its pieces, twice as long as that piece took, begins nothing beside another party's
piece, and stops in the middle of a piece while another party is at work (`Piece.give_way`). After a rest of six times
as long it continues in any case, so a busy day slows it down and never stops it.
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

from tenants.common.patience import giving_way

Result = TypeVar("Result")
Headers = Iterable[tuple[bytes, bytes]]
Later = Callable[[float, Callable[[], object]], object]
MOST_KNOWN = 10_000
ALONE_SECONDS = 1.0  # a party is alone if nobody else has sent a request for this long
MANY_WAITING = 8  # waiting pieces of one party, from which on it gives way
LEAST_REST, MOST_REST = 2.0, 6.0  # times the duration of its last piece
# All pauses in a piece take at most these seconds, plus this many times what it has worked ...
LEAST_PAUSE, MOST_PAUSE = 0.2, 20.0
LONGEST_PAUSE = 10.0  # ... but at most this many seconds, since it has a deadline


class Turns:
    """Lets pieces of work begin in turn. `at_once` is how many run at the same time, and `of_one` how many of a party
    that is alone. Any thread may call. `later(seconds, call)` makes a call after some seconds, from any thread."""

    def __init__(self, at_once: int, of_one: int, later: Later, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once, self._of_one, self._later, self._clock = at_once, of_one, later, clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._at_work: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[Callable[[], object]]] = OrderedDict()  # in the order of turns
        self._times: OrderedDict[str, float] = OrderedDict()  # when each last sent a request, the oldest first
        self._last: dict[str, tuple[float, float]] = {}  # when its last piece began (plus its pauses) and ended
        self._alarm = math.inf  # when the next planned call of `_ring` comes

    def waiting(self, party: str) -> int:
        with self._lock:
            return len(self._waiting.get(party, ()))

    def begin(self, party: str, start: Callable[[], object]) -> None:
        """Call `start` now, or when the party's turn comes. What it starts must call `end` when it is done."""
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
        """Remove a waiting `start`, which is no longer needed; if it has begun, nothing changes."""
        with self._lock:
            queue = self._waiting.get(party, deque())
            if start in queue:
                queue.remove(start)
            if not queue:
                self._waiting.pop(party, None)
                if party not in self._at_work:
                    self._last.pop(party, None)

    def pause(self, piece: Piece) -> None:
        """Wait in the middle of this piece while it is the others' turn."""
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
        """Return how many seconds the party still gives way, if nothing else ends meanwhile."""
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
    """One piece of a party's work, for its thread. `of_many` is whether many of its party waited while it was at work.
    `paused` is how many seconds it has stopped in the middle."""

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
                if future.set_running_or_notify_cancel():  # the caller has not left meanwhile
                    with giving_way(Piece(self._turns, self._party).give_way):
                        future.set_result(work(*args, **options))
            except BaseException as error:
                future.set_exception(error)
            finally:
                self._turns.end(self._party)

        def start() -> None:
            try:
                self._thread.submit(run)
            except RuntimeError:  # it was shut down because the caller has left
                self._turns.end(self._party)

        future.add_done_callback(lambda _: self._turns.forget(self._party, start) if future.cancelled() else None)
        self._turns.begin(self._party, start)
        return future


class Parties:
    """To which party a credential belongs, as found when it was first seen, in a short piece of work of its own. It
    only decides which turns are used."""

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
    """What a caller sends to identify itself: the text of a token, or the key of a session."""

    token: str = ""
    session: str = ""

    @property
    def digest(self) -> bytes:
        """Return a digest, to recognise the credential without keeping it."""
        return hashlib.blake2b(f"{self.token} {self.session}".encode(), digest_size=16).digest()


def credential_in(headers: Headers, cookie: bytes) -> Credential | None:
    session = b""
    for name, value in headers:
        if name == b"authorization":
            return Credential(token=value.decode("latin-1"))
        if name == b"cookie":
            session = next((part for part in value.split(b"; ") if part.startswith(cookie + b"=")), session)
    return Credential(session=session[len(cookie) + 1 :].decode("latin-1")) if session else None
