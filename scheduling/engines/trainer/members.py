"""The processes that registered with the coordinator, and the parameter servers as one fleet."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduling.core.parameter_blocks import BlockPiece, assign, ranges, rebalance
from scheduling.engines.trainer.channel import Channel
from scheduling.engines.trainer.framing import ConnectionLost, WireMessage
from scheduling.engines.trainer.models import Floats
from scheduling.engines.trainer.store import Ranges

ORDER_SECONDS = 5.0  # a parameter server must answer an order within this time, or the job's patience if that is less


@dataclass(eq=False)
class TrainerMember:
    """A process of the job. A thread reads its connection: answers to orders go into `answers`, the rest becomes
    events."""

    role: str
    rank: int
    channel: Channel
    about: Mapping[str, Any]
    heard_at: float
    parked: bool = True
    answers: queue.SimpleQueue[WireMessage | None] = field(default_factory=queue.SimpleQueue)

    @property
    def name(self) -> str:
        """The member's name in events."""
        return f"{self.role} {self.rank}"


class ParameterServerLost(Exception):
    """Raised where a parameter server is gone or does not answer; its parameters are lost with it. The message is a
    sentence."""

    def __init__(self, rank: int, why: str) -> None:
        super().__init__(f"Parameter server {rank} is lost: {why}.")
        self.rank = rank


@dataclass(frozen=True)
class MoveTimes:
    """How many numbers a change of the parameter servers moved, and how long it took."""

    numbers: int
    assignment_ms: float
    migration_ms: float


class Fleet:
    """The parameter servers of a job, and which of them keeps which parameters."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.members: dict[int, TrainerMember] = {}
        self.pieces: tuple[BlockPiece, ...] = ()
        self.generation = 0
        self.order_seconds = ORDER_SECONDS

    def ranges(self, rank: int) -> Ranges:
        """Return the ranges of parameters that a server keeps."""
        return ranges(self.pieces, self.sizes, rank)

    def order(self, orders: Mapping[int, WireMessage]) -> dict[int, WireMessage]:
        """Send each server its order, wait for all answers and return them; raises `ParameterServerLost`."""
        for rank, message in orders.items():
            try:
                self.members[rank].channel.tell(message)
            except ConnectionLost as error:
                raise ParameterServerLost(rank, str(error)) from None
        deadline = time.monotonic() + self.order_seconds
        return {rank: self._answer(rank, deadline) for rank in orders}

    def _answer(self, rank: int, deadline: float) -> WireMessage:
        try:
            answer = self.members[rank].answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise ParameterServerLost(rank, "it does not answer") from None
        if answer is None:
            raise ParameterServerLost(rank, "its process is gone")
        return answer

    def order_all(self, kind: str, **fields: Any) -> dict[int, WireMessage]:
        """Send the same order to all servers, and return their answers."""
        return self.order({rank: WireMessage(kind, fields) for rank in self.members})

    def start(self, members: Mapping[int, TrainerMember], parameters: Floats, version: int) -> None:
        """Distribute the parameters over the servers for the first time."""
        self.members = dict(members)
        ranks = sorted(self.members)
        pieces = assign(self.sizes, len(ranks))
        self.pieces = tuple(BlockPiece(item.block, item.start, item.stop, ranks[item.server]) for item in pieces)
        orders = {}
        for rank in ranks:
            parts = [parameters[start:stop] for start, stop in self.ranges(rank)]
            values = np.concatenate([np.empty(0), *parts])
            orders[rank] = WireMessage("load", {"ranges": self.ranges(rank), "version": version}, (values,))
        self.order(orders)

    def choose_clock(self, steps_per_second: float) -> int | None:
        """Set a scaling clock and return it, or None where steps were faster than every clock.

        It is beyond every server's version counter by the steps that are made while messages travel. A server that has
        not reached the clock holds all workers there, so one acceptance is enough: no other server can pass a version
        whose parameters this one has not given out yet.
        """
        margin = 1
        for _ in range(5):
            begin = time.perf_counter()
            versions = [answer.fields["version"] for answer in self.order_all("status").values()]
            margin += math.ceil((time.perf_counter() - begin) * steps_per_second)
            clock = max(versions) + margin
            if any(answer.fields["accepted"] for answer in self.order_all("clock", at=clock).values()):
                return clock
            margin *= 2
        return None

    def settle(self, synchronous: bool) -> int:
        """Bring all servers to one version without a half-done step, and return it. No worker may be training."""
        versions = [answer.fields["version"] for answer in self.order_all("status").values()]
        if not synchronous:
            return max(versions)
        answers = self.order_all("settle", version=min(versions))
        for rank, answer in answers.items():
            if not answer.fields["settled"]:
                raise ParameterServerLost(rank, "its parameters are of another step")
        return min(versions)

    def change(self, joining: Mapping[int, TrainerMember], leaving: Collection[int], version: int) -> MoveTimes:
        """Move parameters so that leaving servers keep none and the others have equal shares (DL2's steps 2 and 3)."""
        begin = time.perf_counter()
        self.members |= joining
        old = {rank: self.ranges(rank) for rank in self.members}
        self.pieces = rebalance(self.pieces, set(self.members) - set(leaving))
        new = {rank: self.ranges(rank) for rank in self.members}
        assigned = time.perf_counter()
        empty = {rank: WireMessage("load", {"ranges": [], "version": version}, (np.empty(0),)) for rank in joining}
        self.order(empty)
        numbers = self._migrate(old, new)
        return MoveTimes(numbers, 1000 * (assigned - begin), 1000 * (time.perf_counter() - assigned))

    def _migrate(self, old: Mapping[int, Ranges], new: Mapping[int, Ranges]) -> int:
        orders, numbers = {}, 0
        for giver in old:
            moves = []
            for taker in new:
                parcel = common(old[giver], new[taker]) if giver != taker else ()
                if parcel:
                    about = self.members[taker].about
                    moves.append({"ranges": parcel, "host": about["host"], "port": about["port"]})
                    numbers += sum(stop - start for start, stop in parcel)
            if moves:
                orders[giver] = WireMessage("give", {"moves": moves})
        for rank, answer in self.order(orders).items():
            if answer.fields["failure"]:
                raise ParameterServerLost(rank, answer.fields["failure"])
        return numbers

    def fetch(self) -> Floats:
        """Return the parameters of the whole model."""
        parameters = np.full(sum(self.sizes), np.nan)
        for answer in self.order_all("fetch").values():
            at = 0
            for start, stop in answer.fields["ranges"]:
                parameters[start:stop] = answer.arrays[0][at : at + stop - start]
                at += stop - start
        return parameters

    def open(self) -> None:
        """Let workers continue, under a new generation."""
        self.generation += 1
        self.order_all("open", generation=self.generation)

    def described(self) -> list[dict[str, Any]]:
        """Return the servers' addresses and ranges as a worker's plan has them."""
        return [
            {"host": member.about["host"], "port": member.about["port"], "ranges": self.ranges(rank)}
            for rank, member in sorted(self.members.items())
        ]


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return the ranges that are in both."""
    overlaps = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((start, stop) for start, stop in overlaps if start < stop)
