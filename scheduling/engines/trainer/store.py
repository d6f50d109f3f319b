"""What one parameter server keeps: its part of the parameters, their version, and gradients that wait for others.

The version counter is the number of updates. The *gate* is the scaling clock: from that version on nothing is given out
or taken in until `open` is called. Everything is checked under one lock. Arrays are replaced, never written to, so that
an array that was given out stays as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduling.engines.trainer.models import Floats
from scheduling.engines.trainer.settings import TrainerSettings

Ranges = tuple[tuple[int, int], ...]  # half-open ranges of the whole model's flat vector


class Store:
    """The parameters of the ranges that this server keeps, one after the other. It is shut until the first `open`."""

    def __init__(self, settings: TrainerSettings) -> None:
        self.settings = settings
        self.changed = threading.Condition()
        self.ranges: Ranges = ()
        self.values: Floats = np.empty(0)
        self.previous: Floats | None = None  # the values before the last update, so that it can be taken back
        self.version = 0
        self.generation = 0
        self.gate: int | None = 0
        self._forget_gradients()

    def _forget_gradients(self) -> None:
        self.waiting: dict[int, Floats] = {}
        self.total: Floats | None = None
        self.summed = 0  # the total has the gradients of chunks 0 .. summed - 1

    # Orders of the coordinator.

    def load(self, ranges: Ranges, values: Floats, version: int) -> None:
        """Keep these values of these ranges, at this version."""
        with self.changed:
            self.ranges, self.values, self.version, self.previous = ranges, values, version, None
            self._forget_gradients()

    def shut_at(self, clock: int) -> bool:
        """Suspend at that version. Return False, and do nothing, if it has been reached already."""
        with self.changed:
            if self.version >= clock:
                return False
            self.gate = clock
            self.changed.notify_all()
            return True

    def shut(self) -> int:
        """Suspend at once, and return the version."""
        with self.changed:
            self.gate = 0
            self.changed.notify_all()
            return self.version

    def settle(self, version: int) -> bool:
        """Go back to that version, without a half-done step. Return False if that cannot be done."""
        with self.changed:
            self._forget_gradients()
            if self.version == version + 1 and self.previous is not None:
                self.values, self.version, self.previous = self.previous, version, None
            return self.version == version

    def open(self, generation: int) -> None:
        """Continue, for workers that know this generation of the assignment."""
        with self.changed:
            self.gate, self.generation = None, generation

    def cut(self, ranges: Ranges) -> Floats:
        """Return the values of some ranges that it keeps."""
        with self.changed:
            return take(self.ranges, self.values, ranges)

    def drop(self, ranges: Ranges) -> None:
        """Keep everything but these ranges."""
        with self.changed:
            rest = subtract(self.ranges, ranges)
            self.values, self.ranges, self.previous = take(self.ranges, self.values, rest), rest, None

    def adopt(self, ranges: Ranges, values: Floats, version: int) -> None:
        """Take over ranges of another server."""
        with self.changed:
            self.ranges, self.values = merge((self.ranges, self.values), (ranges, values))
            self.version, self.previous = version, None

    # Requests of workers.

    def push(self, version: int, chunk: int, generation: int, gradient: Floats) -> bool:
        """Take a gradient. Return False if it was refused because of a suspension or an older generation. A late or
        second one is ignored."""
        with self.changed:
            if generation != self.generation or gradient.shape != self.values.shape:
                return False
            if not self.settings.synchronous:
                return self._apply_alone(gradient)
            if self.gate is not None and version >= self.gate:
                return False
            if version == self.version and self.summed <= chunk < self.settings.chunks:
                self.waiting.setdefault(chunk, gradient)
                self._sum_up()
            return True

    def _apply_alone(self, gradient: Floats) -> bool:
        if self.gate is not None and self.version >= self.gate:
            return False
        self._update(gradient)
        return True

    def _sum_up(self) -> None:
        """Add gradients in the order of chunks, in whichever order they come: so the sum has the same bits every
        time."""
        while self.summed in self.waiting:
            gradient = self.waiting.pop(self.summed)
            self.total = gradient if self.total is None else self.total + gradient
            self.summed += 1
        if self.summed == self.settings.chunks and self.total is not None:
            total = self.total
            self._forget_gradients()
            self._update(total / self.settings.chunks)

    def _update(self, gradient: Floats) -> None:
        self.previous, self.values = self.values, self.values - self.settings.learning_rate * gradient
        self.version += 1
        self.changed.notify_all()

    def pull(self, version: int, generation: int) -> Pulled:
        """Return the parameters at a version, once it is reached; in an asynchronous job, as they are. Return none if
        the server is suspended."""
        with self.changed:
            if not self.settings.synchronous:
                shut = self.gate is not None and self.version >= self.gate
                return Pulled(self.version, None if shut or generation != self.generation else self.values)
            while generation == self.generation and self.version < version and not self._is_shut_for(version):
                self.changed.wait()
            if generation != self.generation or self._is_shut_for(version) or self.version != version:
                return Pulled(self.version, None)
            return Pulled(self.version, self.values)

    def _is_shut_for(self, version: int) -> bool:
        return self.gate is not None and version >= self.gate


@dataclass(frozen=True)
class Pulled:
    """A version and its values, or None for the values where the server is suspended."""

    version: int
    values: Floats | None


def take(ranges: Ranges, values: Floats, wanted: Ranges) -> Floats:
    """Return the values of `wanted`, each of which is inside one of `ranges`."""
    parts, places, start = [], [], 0
    for first, last in ranges:
        places.append((first, last, start))
        start += last - first
    for first, last in wanted:
        begin, offset = next((begin, at) for begin, end, at in places if begin <= first and last <= end)
        parts.append(values[offset + first - begin : offset + last - begin])
    return np.concatenate([np.empty(0), *parts])


def subtract(ranges: Ranges, others: Ranges) -> Ranges:
    """Return what is left of ranges when `others`, each inside one of them, are taken out."""
    rest = []
    for first, last in ranges:
        for start, stop in sorted(pair for pair in others if first <= pair[0] and pair[1] <= last):
            rest.append((first, start))
            first = stop
        rest.append((first, last))
    return tuple((start, stop) for start, stop in rest if start < stop)


def merge(one: tuple[Ranges, Floats], other: tuple[Ranges, Floats]) -> tuple[Ranges, Floats]:
    """Return two sets of ranges as one, in order, with neighbours joined."""
    parts = []
    for ranges, values in (one, other):
        start = 0
        for first, last in ranges:
            parts.append((first, last, values[start : start + last - first]))
            start += last - first
    parts.sort(key=lambda part: part[0])
    union: list[tuple[int, int]] = []
    for first, last, _ in parts:
        first = union.pop()[0] if union and union[-1][1] == first else first
        union.append((first, last))
    return tuple(union), np.concatenate([np.empty(0), *(values for _, _, values in parts)])


def as_ranges(pairs: Iterable[Iterable[int]]) -> Ranges:
    """Read ranges from the pairs of a message."""
    return tuple((int(start), int(stop)) for start, stop in pairs)
