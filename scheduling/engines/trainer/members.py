"""Processes that registered with the coordinator, and the parameter servers as one."""

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

ORDER_SECONDS = 5.0  # within which a parameter server answers an order; less for an impatient job


@dataclass(eq=False)
class TrainerMember:
    """A process of the job. A thread reads its connection: answers to orders go here, the rest becomes events."""

    role: str
    rank: int
    channel: Channel
    about: Mapping[str, Any]
    heard_at: float
    parked: bool = True
    answers: queue.SimpleQueue[WireMessage | None] = field(default_factory=queue.SimpleQueue)

    @property
    def name(self) -> str:
        """As it is called in events."""
        return f"{self.role} {self.rank}"


class ParameterServerLost(Exception):
    """A parameter server is gone or does not answer, and its parameters with it. The message is a sentence."""

    def __init__(self, rank: int, why: str) -> None:
        super().__init__(f"Parameter server {rank} is lost: {why}.")
        self.rank = rank


@dataclass(frozen=True)
class MoveTimes:
    """What a change of the parameter servers took."""

    numbers: int
    assignment_ms: float
    migration_ms: float


class Fleet:
    """The parameter servers of a job and who of them keeps what."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.members: dict[int, TrainerMember] = {}
        self.pieces: tuple[BlockPiece, ...] = ()
        self.generation = 0
        self.order_seconds = ORDER_SECONDS

    def ranges(self, rank: int) -> Ranges:
        """What a server keeps."""
        return ranges(self.pieces, self.sizes, rank)

    def order(self, orders: Mapping[int, WireMessage]) -> dict[int, WireMessage]:
        """Tell each its own, then wait for all; raises `ServerLost`."""
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
        """The same order to everybody."""
        return self.order({rank: WireMessage(kind, fields) for rank in self.members})

    def start(self, members: Mapping[int, TrainerMember], parameters: Floats, version: int) -> None:
        """Deal the parameters out for the first time."""
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
        """Set a scaling clock: beyond every counter by what passes while messages travel. None: steps were faster.

        A server that has not reached the clock holds all workers there, so one acceptance is enough: no other server
        can pass a version for which this one still owes the parameters.
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
        """All servers at one version without half a step, once no worker is at work; that version."""
        versions = [answer.fields["version"] for answer in self.order_all("status").values()]
        if not synchronous:
            return max(versions)
        answers = self.order_all("settle", version=min(versions))
        for rank, answer in answers.items():
            if not answer.fields["settled"]:
                raise ParameterServerLost(rank, "its parameters are of another step")
        return min(versions)

    def change(self, joining: Mapping[int, TrainerMember], leaving: Collection[int], version: int) -> MoveTimes:
        """Move parameters so that those who leave keep nothing and the others are even (DL2's steps 2 and 3)."""
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
        """The whole model."""
        parameters = np.full(sum(self.sizes), np.nan)
        for answer in self.order_all("fetch").values():
            at = 0
            for start, stop in answer.fields["ranges"]:
                parameters[start:stop] = answer.arrays[0][at : at + stop - start]
                at += stop - start
        return parameters

    def open(self) -> None:
        """Let workers go on, under a new generation."""
        self.generation += 1
        self.order_all("open", generation=self.generation)

    def described(self) -> list[dict[str, Any]]:
        """Addresses and ranges, as workers are told."""
        return [
            {"host": member.about["host"], "port": member.about["port"], "ranges": self.ranges(rank)}
            for rank, member in sorted(self.members.items())
        ]


def common(one: Ranges, other: Ranges) -> Ranges:
    """What lies in both."""
    overlaps = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((start, stop) for start, stop in overlaps if start < stop)
