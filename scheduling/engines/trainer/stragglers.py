"""Find workers that are too slow (Optimus, section 5.2).

Workers are compared by the time for one mini-batch. In a synchronous job it runs from having the parameters to sending
the gradient, since the steps themselves take equally long for all. In an asynchronous job it is the whole cycle, so
that twice the median time is half the median speed.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class StragglerRule:
    """The rule: a worker is a straggler if it is `factor` times slower than the median in `reports` reports in a
    row."""

    factor: float = 2.0
    reports: int = 3
    least_seconds: float = 0.02  # a smaller difference is the machine's noise, and does not matter


def is_slow(rank: int, seconds: Mapping[int, float], rule: StragglerRule) -> bool:
    """Return whether a worker's last report counts against it. `seconds` has the last report of every worker.

    The median is the lower one. Of two workers it is the faster one's time; with their mean as the median, the slower
    one could never take more than twice as long.
    """
    median = statistics.median_low(seconds.values())
    return seconds[rank] > max(rule.factor * median, median + rule.least_seconds)


@dataclass(frozen=True)
class Watch:
    """The last report of each worker, and how many of its reports in a row were slow."""

    rule: StragglerRule = StragglerRule()
    seconds: Mapping[int, float] = field(default_factory=dict)
    slow: Mapping[int, int] = field(default_factory=dict)

    def after(self, rank: int, seconds: float) -> Watch:
        """Return the watch after one more report."""
        times = {**self.seconds, rank: seconds}
        count = self.slow.get(rank, 0) + 1 if is_slow(rank, times, self.rule) else 0
        return Watch(self.rule, times, {**self.slow, rank: count})

    def without(self, rank: int) -> Watch:
        """Return the watch after a worker left."""
        return Watch(self.rule, _less(self.seconds, rank), _less(self.slow, rank))

    def is_straggler(self, rank: int) -> bool:
        """Return whether a worker was slow often enough to be a straggler."""
        return self.slow.get(rank, 0) >= self.rule.reports

    @property
    def median(self) -> float:
        """The lower median of the seconds of a mini-batch."""
        return statistics.median_low(self.seconds.values())


def _less(values: Mapping[int, Number], rank: int) -> dict[int, Number]:
    return {key: value for key, value in values.items() if key != rank}
