"""The losses that a program reported and the curve that was fitted to them: lengths in per cent of their box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.jobs.read_outlook import Outlook

TOP = 6.0  # per cent left free above the highest loss


@dataclass(frozen=True)
class OutlookPicture:
    """The drawing of an outlook. `reported` and `estimated` are paths, empty where there is nothing to draw. `now` is
    where the last epoch that is done lies, or None at the right edge. The job will end between `low` and `high`, which
    are None where that is one place. `last` is the epoch at the right edge."""

    reported: str
    estimated: str
    now: float | None
    low: float | None
    high: float | None
    last: int
    summary: str

    @property
    def width(self) -> float:
        """Return the width of the range in which it will end."""
        return (self.high or 0.0) - (self.low or 0.0)


def outlook_picture(outlook: Outlook | None) -> OutlookPicture | None:
    """Return the picture, or None for fewer than two losses, which make no curve."""
    if outlook is None or len(outlook.reported) < 2:
        return None
    both = [*outlook.reported, *outlook.estimated]
    last = max(*(epoch for epoch, _ in both), outlook.total_high or 0 if outlook.estimated_now else 0)
    top = max(loss for _, loss in both)
    bottom = min(0.0, *(loss for _, loss in both))
    height = (top - bottom) or 1.0

    def across(epoch: int) -> float:
        return 100.0 * (epoch - 1) / max(last - 1, 1)

    def path(points: Sequence[tuple[int, float]]) -> str:
        places = (
            f"{across(epoch):.2f} {100.0 - (100.0 - TOP) * (loss - bottom) / height:.2f}" for epoch, loss in points
        )
        return "M" + "L".join(places) if len(points) > 1 else ""

    low, high = outlook.total_low or 0, outlook.total_high or 0
    wide = outlook.estimated_now and low < high
    (_, before), (epoch, loss) = outlook.reported[0], outlook.reported[-1]
    summary = f"Loss from {before:.4f} to {loss:.4f} after epoch {epoch}"
    if outlook.estimated:
        summary += f"; the fitted curve goes on to {outlook.estimated[-1][1]:.4f} at epoch {outlook.estimated[-1][0]}"
    if wide:
        summary += f"; it will probably end between epoch {low} and {high}"
    return OutlookPicture(
        path(outlook.reported),
        path(outlook.estimated),
        across(outlook.done) if outlook.done < last else None,
        across(low) if wide else None,
        across(high) if wide else None,
        last,
        f"{summary}.",
    )
