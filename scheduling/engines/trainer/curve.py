"""The loss curve of a running job: for each epoch the mean of its mini-batches' losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scheduling.engines.trainer.settings import TrainerSettings


class Curve:
    """Losses by round and chunk. A loss may be reported twice: a repeated step gives the same losses."""

    def __init__(self, settings: TrainerSettings) -> None:
        self.settings = settings
        self.epochs: list[float] = []  # mean losses of complete epochs
        self.positions = [0] * settings.chunks  # by chunk, how many rounds are reported without a gap
        self.rows: dict[int, dict[int, float]] = {}  # losses by round and chunk, of epochs that are not complete

    def report(self, chunk: int, round_: int, loss: float) -> None:
        """Note a loss."""
        if round_ < len(self.epochs) * self.settings.minibatches:
            # The last step of an epoch that is closed already was repeated, because a worker was lost in it.
            self.positions[chunk] = max(self.positions[chunk], round_ + 1)
            return
        self.rows.setdefault(round_, {})[chunk] = loss
        while chunk in self.rows.get(self.positions[chunk], {}):
            self.positions[chunk] += 1

    def rewind(self, version: int) -> None:
        """Forget the losses of steps that were taken back."""
        self.rows = {round_: row for round_, row in self.rows.items() if round_ < version}
        self.positions = [version] * self.settings.chunks

    def knows_all_before(self, version: int) -> bool:
        """Return whether all losses of the steps before this one have come."""
        return min(self.positions) >= version

    @property
    def finished(self) -> bool:
        """True if all of the job's losses have come, so that it is done."""
        return self.knows_all_before(self.settings.rounds)

    def close_epoch(self) -> float | None:
        """Close the next epoch and return its mean loss, once all of it was reported; else None. The sum does not
        depend on the order of the losses."""
        count = self.settings.minibatches
        first = len(self.epochs) * count
        if len(self.epochs) >= self.settings.epochs or not self.knows_all_before(first + count):
            return None
        losses = [loss for round_ in range(first, first + count) for loss in self.rows.pop(round_).values()]
        self.epochs.append(math.fsum(losses) / len(losses))
        return self.epochs[-1]

    def open_losses(self) -> Iterator[tuple[int, int, float]]:
        """Yield (round, chunk, loss) of the epochs that are not complete."""
        for round_, row in self.rows.items():
            for chunk, loss in row.items():
                yield round_, chunk, loss
