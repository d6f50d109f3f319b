"""Collect what workers report while they train (losses, speeds, pauses), and derive the job's progress from it."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.engines.trainer.curve import Curve
from scheduling.engines.trainer.settings import TrainerSettings
from scheduling.engines.trainer.stragglers import Watch


@dataclass
class Scaling:
    """A change that was made. It waits until every worker that continued has reported how long it stood still."""

    facts: dict[str, Any]
    waiting: set[int]
    pauses: list[float] = field(default_factory=list)  # milliseconds

    def event(self) -> dict[str, Any]:
        """Return the facts, with the mean and the longest pause of a worker."""
        mean = sum(self.pauses) / len(self.pauses) if self.pauses else None
        return {**self.facts, "pause_ms": mean, "longest_pause_ms": max(self.pauses, default=None)}


@dataclass
class MeanSpeeds:
    """Sums of speeds since the last epoch's end, from which means are made."""

    began: float
    minibatches: int = 0
    reports: int = 0
    minibatch_seconds: float = 0.0
    exchange_seconds: float = 0.0

    def note(self, count: int, minibatch_seconds: float, exchange_seconds: float) -> None:
        """Add a report of `count` mini-batches."""
        self.minibatches += count
        self.reports += 1
        self.minibatch_seconds += minibatch_seconds
        self.exchange_seconds += exchange_seconds

    def updates_per_second(self, settings: TrainerSettings, now: float) -> float:
        """Return how fast the version counter grows."""
        updates = self.minibatches / settings.chunks if settings.synchronous else self.minibatches
        return updates / max(now - self.began, 1e-6)


class Reports:
    """Everything that is known from the reports of a job's workers."""

    def __init__(self, settings: TrainerSettings, curve: Curve) -> None:
        self.settings, self.curve = settings, curve
        self.watch = Watch()
        self.reported_stragglers: set[int] = set()
        self.scaling: Scaling | None = None
        self.speeds = MeanSpeeds(time.monotonic())
        self.last_speed: float | None = None
        self.diverged = False

    def begin(self) -> None:
        """Measure speeds from now on."""
        self.speeds = MeanSpeeds(time.monotonic())

    def note(self, rank: int, fields: Mapping[str, Any], generation: int) -> None:
        """Take in one report of a worker."""
        losses, seconds, exchange = fields["losses"], fields["minibatch_seconds"], fields["exchange_seconds"]
        for chunk, round_, loss in losses:
            if not math.isfinite(loss):
                self.diverged = True
                return
            self.curve.report(chunk, round_, loss)
        self.speeds.note(len(losses), seconds, exchange)
        self.watch = self.watch.after(rank, seconds if self.settings.synchronous else seconds + exchange)
        if self.scaling and fields["generation"] == generation and rank in self.scaling.waiting:
            self.scaling.waiting.discard(rank)
            if fields["pause"] is not None:
                self.scaling.pauses.append(1000 * fields["pause"])

    def new_straggler(self, rank: int) -> dict[str, Any] | None:
        """Return the facts about a worker if it counts as a straggler for the first time."""
        if not self.watch.slow[rank]:
            self.reported_stragglers.discard(rank)
        if not self.watch.is_straggler(rank) or rank in self.reported_stragglers:
            return None
        self.reported_stragglers.add(rank)
        return {"rank": rank, "seconds": self.watch.seconds[rank], "median_seconds": self.watch.median}

    def closed_epochs(self) -> list[dict[str, Any]]:
        """Close the epochs that are complete now, and return the facts about each."""
        closed = []
        while (loss := self.curve.close_epoch()) is not None:
            now, speeds = time.monotonic(), self.speeds
            self.last_speed = speeds.updates_per_second(self.settings, now)
            closed.append({
                "epoch": len(self.curve.epochs),
                "epochs": self.settings.epochs,
                "loss": loss,
                "seconds": now - speeds.began,
                "steps_per_second": self.last_speed,
                "minibatch_seconds": speeds.minibatch_seconds / max(1, speeds.reports),
                "exchange_seconds": speeds.exchange_seconds / max(1, speeds.reports),
            })  # fmt: skip
            self.speeds = MeanSpeeds(now)
        return closed

    def speed(self) -> float:
        """Return the updates a second: of the last epoch, or of this one if it is the first."""
        return self.last_speed or self.speeds.updates_per_second(self.settings, time.monotonic())

    def scaled(self) -> dict[str, Any] | None:
        """Return the facts about a change once all its pauses are known."""
        if self.scaling is None or self.scaling.waiting:
            return None
        facts, self.scaling = self.scaling.event(), None
        return facts

    def change_made(self, facts: dict[str, Any], going_on: Collection[int]) -> None:
        """Note a change, and wait for the pauses of the workers that continue."""
        self.scaling = Scaling(facts, set(going_on))

    def forget(self, rank: int) -> None:
        """Forget a worker that left."""
        self.watch = self.watch.without(rank)
        self.reported_stragglers.discard(rank)
        if self.scaling:
            self.scaling.waiting.discard(rank)
