"""A worker: it trains the model on mini-batches of its chunks, pushes gradients, and pulls parameters."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.engines.trainer import models
from scheduling.engines.trainer.channel import Address, Channel, NotOneOfUs, call, reach
from scheduling.engines.trainer.data import Data
from scheduling.engines.trainer.framing import BadMessage, ConnectionLost, WireMessage
from scheduling.engines.trainer.models import Floats
from scheduling.engines.trainer.peers import PeerPlace
from scheduling.engines.trainer.server import DONE, LOST, REFUSED
from scheduling.engines.trainer.settings import TrainerSettings
from scheduling.engines.trainer.store import Ranges, as_ranges

LONGER = 6  # a worker waits this many times as long as the coordinator, which then says who is missing


@dataclass(frozen=True)
class WorkerPlan:
    """What a worker does from now on: which server has which ranges, and which chunks are ours, from which round on."""

    generation: int
    servers: Mapping[Address, Ranges]
    positions: Mapping[int, int]  # the next round of each chunk

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> WorkerPlan:
        """Read a plan from the coordinator's message."""
        servers = {(item["host"], item["port"]): as_ranges(item["ranges"]) for item in fields["servers"]}
        return cls(fields["generation"], servers, {int(chunk): int(at) for chunk, at in fields["positions"]})


@dataclass
class Unfinished:
    """A gradient that some servers applied before a suspension and others did not. `rest` is 0 where it was applied."""

    chunk: int
    round: int
    loss: float
    seconds: float
    rest: Floats


class Worker:
    """The process of one worker."""

    def __init__(self, settings: TrainerSettings, place: PeerPlace, secret: bytes, extra_ms: float = 0.0) -> None:
        self.settings, self.place, self.secret, self.extra_ms = settings, place, secret, extra_ms
        self.model = models.make(settings)
        self.size = models.size(self.model)
        self.data = Data(settings)
        self.channels: dict[Address, Channel] = {}
        self.unfinished: Unfinished | None = None
        self.suspended_at: float | None = None
        self.pause: float | None = None  # seconds of the last suspension, until it is reported
        self.waited = 0.0  # seconds of the last exchange, with waiting for others
        self.told_at = time.perf_counter()

    def run(self, on_registered: Callable[[Channel], None]) -> int:
        """Run until the coordinator says stop or is gone, and return the exit code."""
        patience = LONGER * self.settings.patience_seconds
        with closing(
            reach(self.place.coordinator, self.secret, None, self.settings.gather_seconds)
        ) as self.coordinator:
            about = {"role": self.place.role, "rank": self.place.rank, "pid": os.getpid()}
            self.coordinator.tell(WireMessage("register", about))
            on_registered(self.coordinator)
            try:
                answer = self.coordinator.hear()
                while answer.kind == "train":
                    self.coordinator.connection.settimeout(patience)
                    lost = self._follow(WorkerPlan.read(answer.fields))
                    answer = self.coordinator.ask(WireMessage("park", {"lost": lost}))
            except (ConnectionLost, BadMessage):
                return LOST
            except MemoryError as error:
                sentence = f"Worker {self.place.rank} has not enough memory for a mini-batch or its data: {error}."
                with suppress(ConnectionLost):  # a coordinator that is gone needs no reason
                    self.coordinator.tell(WireMessage("unable", {"sentence": sentence}))
                return LOST
            if answer.kind == "refused":
                print(answer.fields["sentence"], file=sys.stderr)
                return REFUSED
            return DONE

    def _follow(self, plan: WorkerPlan) -> str:
        """Train until there is nothing more to do or the servers are suspended. Return why a server cannot be reached,
        or ""."""
        self.plan = plan
        self.data.keep_only(list(plan.positions))
        try:
            self._connect(list(plan.servers))
            (self._train_together if self.settings.synchronous else self._train_alone)(dict(plan.positions))
        except (ConnectionLost, BadMessage, NotOneOfUs) as error:
            self._connect([])
            return str(error)
        return ""

    def _connect(self, addresses: Sequence[Address]) -> None:
        for address in set(self.channels) - set(addresses):
            self.channels.pop(address).close()
        for address in addresses:
            if address not in self.channels:
                self.channels[address] = call(address, self.secret, LONGER * self.settings.patience_seconds)

    def _train_together(self, positions: dict[int, int]) -> None:
        """Train synchronously. A step is one mini-batch of each of our chunks; then the servers have the gradients of
        all workers, and we pull the parameters."""
        step = min(positions.values(), default=self.settings.rounds)
        parameters = self._pull(step) if step < self.settings.rounds else None
        while parameters is not None and step < self.settings.rounds:
            begin, losses = time.perf_counter(), []
            for chunk in positions:
                loss, gradient = self._minibatch(parameters, chunk, step)
                losses.append([chunk, step, loss])
                if len(losses) == len(positions):
                    # Report before the last gradient, so that the coordinator has all losses of a complete step.
                    self._report(losses, time.perf_counter() - begin)
                self._push(step, chunk, gradient)
            moment = time.perf_counter()
            parameters = self._pull(step + 1)
            self.waited = time.perf_counter() - moment
            step += 1

    def _train_alone(self, positions: dict[int, int]) -> None:
        """Train asynchronously. Each mini-batch is an update; the chunk with the fewest rounds done is next."""
        if not positions or not self._finish(positions):
            return
        parameters = self._pull(0)
        while parameters is not None:
            chunk = min(positions, key=lambda chunk: (positions[chunk], chunk))
            if positions[chunk] >= self.settings.rounds:
                return
            begin = time.perf_counter()
            loss, gradient = self._minibatch(parameters, chunk, positions[chunk])
            seconds = time.perf_counter() - begin
            self.unfinished = Unfinished(chunk, positions[chunk], loss, seconds, gradient)
            parameters = self._exchange(self.unfinished, positions)

    def _finish(self, positions: dict[int, int]) -> bool:
        """Push what a suspension left of a gradient. Return False if the servers are suspended again."""
        unfinished = self.unfinished
        if unfinished is None or positions.get(unfinished.chunk) != unfinished.round:
            self.unfinished = None  # another worker has the chunk now, and does this mini-batch again
            return True
        return self._exchange(unfinished, positions) is not None

    def _exchange(self, unfinished: Unfinished, positions: dict[int, int]) -> Floats | None:
        """Push and pull. The mini-batch counts as done when every server has applied its part."""
        begin = time.perf_counter()
        self._push(0, unfinished.chunk, unfinished.rest)
        parameters = self._pull(0)
        self.waited = time.perf_counter() - begin
        if not unfinished.rest.any():
            self.unfinished = None
            positions[unfinished.chunk] += 1
            self._report([[unfinished.chunk, unfinished.round, unfinished.loss]], unfinished.seconds)
        return parameters

    def _minibatch(self, parameters: Floats, chunk: int, round_: int) -> tuple[float, Floats]:
        begin = time.perf_counter()
        if begin - self.told_at > self.settings.patience_seconds / 4:
            self._tell(WireMessage("alive"))
        result = self.model.loss_and_gradient(parameters, *self.data.minibatch(chunk, round_))
        pause = (self.settings.minibatch_ms + self.extra_ms) / 1000 - (time.perf_counter() - begin)
        if pause > 0:
            time.sleep(pause)
        return result

    def _tell(self, message: WireMessage) -> None:
        self.told_at = time.perf_counter()
        self.coordinator.tell(message)

    def _report(self, losses: list[list[Any]], seconds: float) -> None:
        """Report losses, the seconds of computing a mini-batch and of the last exchange, and once the length of a
        pause."""
        fields: dict[str, Any] = {"losses": losses, "minibatch_seconds": seconds / len(losses)}
        fields |= {"exchange_seconds": self.waited, "pause": self.pause, "generation": self.plan.generation}
        self.pause = None
        self._tell(WireMessage("report", fields))

    def _push(self, version: int, chunk: int, gradient: Floats) -> None:
        about = {"version": version, "chunk": chunk, "generation": self.plan.generation}
        for address, ranges in self.plan.servers.items():
            part = np.concatenate([np.empty(0), *(gradient[start:stop] for start, stop in ranges)])
            self.channels[address].tell(WireMessage("push", about, (part,)))

    def _pull(self, version: int) -> Floats | None:
        """Pull the parameters at a version; None if a server is suspended. The part of an unfinished gradient that a
        server has applied is set to 0."""
        about = {"version": version, "generation": self.plan.generation}
        for address in self.plan.servers:
            self.channels[address].tell(WireMessage("pull", about))
        parameters, suspended = np.empty(self.size), False
        for address, ranges in self.plan.servers.items():
            answer = self.channels[address].hear()
            suspended = suspended or answer.fields["suspended"]
            if answer.fields["accepted"] and self.unfinished is not None:
                for start, stop in ranges:
                    self.unfinished.rest[start:stop] = 0.0
            if not answer.fields["suspended"]:
                _spread(answer.arrays[0], ranges, parameters)
        now = time.perf_counter()
        if suspended:
            self.suspended_at = now
        elif self.suspended_at is not None:
            self.pause, self.suspended_at = now - self.suspended_at, None
        return None if suspended else parameters


def _spread(values: Floats, ranges: Ranges, parameters: Floats) -> None:
    at = 0
    for start, stop in ranges:
        parameters[start:stop] = values[at : at + stop - start]
        at += stop - start
