"""Which workers are too slow (Optimus, section 5.2).

What is compared is the time for one mini-batch: in a synchronous job from having the parameters to the gradient being
on its way, since the steps themselves take equally long for everybody; in an asynchronous one the whole cycle, so that
twice the median time is half the median speed.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class StragglerRule:
    """A worker is a straggler when it is `factor` times slower than the median, so many reports in a row."""

    factor: float = 2.0
    reports: int = 3
    least_seconds: float = 0.02  # a smaller difference is the machine's noise and costs nobody anything


def is_slow(rank: int, seconds: Mapping[int, float], rule: StragglerRule) -> bool:
    """Whether this report of a worker counts against it; `seconds` holds everybody's last report.

    The median is the lower one: of two workers it is the faster, who would otherwise never be twice as fast as both.
    """
    median = statistics.median_low(seconds.values())
    return seconds[rank] > max(rule.factor * median, median + rule.least_seconds)


@dataclass(frozen=True)
class Watch:
    """Everybody's last report, and how many in a row were slow."""

    rule: StragglerRule = StragglerRule()
    seconds: Mapping[int, float] = field(default_factory=dict)
    slow: Mapping[int, int] = field(default_factory=dict)

    def after(self, rank: int, seconds: float) -> Watch:
        """The watch after one more report."""
        times = {**self.seconds, rank: seconds}
        count = self.slow.get(rank, 0) + 1 if is_slow(rank, times, self.rule) else 0
        return Watch(self.rule, times, {**self.slow, rank: count})

    def without(self, rank: int) -> Watch:
        """The watch after a worker left."""
        return Watch(self.rule, _less(self.seconds, rank), _less(self.slow, rank))

    def is_straggler(self, rank: int) -> bool:
        """Whether it was slow often enough."""
        return self.slow.get(rank, 0) >= self.rule.reports

    @property
    def median(self) -> float:
        """Seconds of a mini-batch, lower median."""
        return statistics.median_low(self.seconds.values())


def _less(values: Mapping[int, Number], rank: int) -> dict[int, Number]:
    return {key: value for key, value in values.items() if key != rank}
