"""The loss curve as a server-made drawing: lengths in per cent of its box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.jobs.read_run import EpochPoint

TOP = 6.0  # per cent left free above the highest loss


@dataclass(frozen=True)
class LossPicture:
    path: str
    summary: str
    first: float
    last: float


def loss_picture(points: Sequence[EpochPoint]) -> LossPicture | None:
    """Return the curve, or None for fewer than two epochs, which make no curve."""
    if len(points) < 2:
        return None
    top = max(point.loss for point in points) or 1.0
    span = max(points[-1].epoch - points[0].epoch, 1)
    places = [
        (100.0 * (point.epoch - points[0].epoch) / span, 100.0 - (100.0 - TOP) * max(point.loss, 0.0) / top)
        for point in points
    ]
    path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in places)
    first, last = points[0], points[-1]
    summary = f"Loss from {first.loss:.4f} after epoch {first.epoch} to {last.loss:.4f} after epoch {last.epoch}"
    return LossPicture(path, f"{summary}; numbers in the table.", first.loss, last.loss)
