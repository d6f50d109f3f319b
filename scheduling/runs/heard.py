"""Read a program's epochs and speed from the rows of progress that it wrote. It is pure, and trusts no row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.core.estimates.live import MOST_MEASURED

Row = Mapping[str, Any]
# A larger loss counts as none, and a smaller one as 0, so that nothing that is computed from it is infinite.
LARGEST, SMALLEST = 1e30, 1e-30
Speed = tuple[int, int, float]  # parameter servers, workers, mini-batches a second of all workers together


@dataclass(frozen=True)
class Epoch:
    """An epoch that is complete. Where they are not known, `seconds` is nan and the counts of members are 0."""

    number: int
    loss: float
    seconds: float = math.nan
    workers: int = 0
    ps: int = 0


@dataclass(frozen=True)
class During:
    """The members with which a gang runs from `begin` to `end`, in seconds since 1970."""

    begin: float
    end: float
    workers: int
    ps: int


def epochs_of_ours(rows: Sequence[Row]) -> list[Epoch]:
    """Return the epochs of our own trainer, which writes a row for each."""
    epochs = []
    for row in rows:
        if row.get("event") == "epoch" and (number := _whole(row.get("epoch"))) > 0:
            members = _whole(row.get("workers")), _whole(row.get("servers"))
            epochs.append(Epoch(number, _number(row.get("loss")), _number(row.get("seconds")), *members))
    return epochs


def epochs_of_own(rows: Sequence[Row], during: During) -> list[Epoch]:
    """Return the epochs of a program of the catalogue. It writes numbers by name; only `epoch` and `loss` of its first
    worker are read.

    The loss of an epoch is the mean of the losses that were reported with it. An epoch is complete when a later one has
    begun. Epochs that are counted from 0 are numbered from 1 here. The time of an epoch is known if all of it is in
    `during`.
    """
    losses: dict[int, list[float]] = {}
    last: dict[int, float] = {}
    for number, loss, at in _epoch_rows(rows):
        losses.setdefault(number, []).append(loss)
        last[number] = at
    more, ordered = int(0 in losses), sorted(losses)
    epochs = []
    for place, number in enumerate(ordered[:-1]):
        believable = [loss for loss in losses[number] if abs(loss) <= LARGEST]
        before = last.get(ordered[place - 1], -math.inf) if place and ordered[place - 1] == number - 1 else -math.inf
        is_timed = during.begin <= before < last[number] <= during.end
        about = (last[number] - before, during.workers, during.ps) if is_timed else ()
        epochs.append(Epoch(number + more, math.fsum(believable) / len(believable) if believable else math.nan, *about))
    return epochs


def _epoch_rows(rows: Sequence[Row]) -> Iterator[tuple[int, float, float]]:
    """Yield (epoch, loss, moment) of each row of the first worker that names its epoch."""
    for row in rows:
        numbers = row.get("numbers")
        first = row.get("role") == "worker" and row.get("rank") == 0
        if row.get("event") == "numbers" and first and isinstance(numbers, Mapping) and "epoch" in numbers:
            number = _number(numbers["epoch"])
            if number >= 0:
                yield int(number), _number(numbers.get("loss")), _number(row.get("at"))


def losses_after(before: Sequence[float | None], epochs: Sequence[Epoch], most: int) -> list[float | None]:
    """Return the losses of epochs 1, 2, ... with those reported now, up to epoch `most`. If an epoch was trained again,
    its later loss counts."""
    by_epoch = {epoch.number: epoch.loss for epoch in epochs if epoch.number <= most}
    far = max([len(before), *by_epoch])
    old = dict(enumerate(before, 1))
    both = {number: by_epoch.get(number, old.get(number)) for number in range(1, far + 1)}
    return [_possible(loss) for loss in both.values()]


def speeds_of(epochs: Sequence[Epoch], minibatches: float) -> list[Speed]:
    """Return the latest speeds. `minibatches` are those of an epoch, of all workers together."""
    measured = [
        (epoch.ps, epoch.workers, minibatches / epoch.seconds)
        for epoch in epochs
        if epoch.workers > 0 and epoch.ps >= 0 and epoch.seconds > 0 and math.isfinite(minibatches / epoch.seconds)
    ]
    return measured[-MOST_MEASURED:]


def _possible(loss: float | None) -> float | None:
    if loss is None or not abs(loss) <= LARGEST:
        return None
    return loss if abs(loss) >= SMALLEST else 0.0


def _number(value: object) -> float:
    """Return a value as a float; nan if it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:
        return math.nan


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else -1
