"""A tenant's own idle cells, which it may have at once and for nothing."""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.posted.bounds import PriceBounds
from scheduling.core.types import View

COUNTED = PriceBounds(1.0, {})  # every unit counts alike: the cheapest schedule is the one that takes the fewest


def home_view(view: View) -> View | None:
    """The market as if there were nothing but those cells; None where there are none. They are counted up to their last
    slot, and nobody says how many are idle after it."""
    own = view.own_idle
    if own is None or not own.any():
        return None
    capacity = own.max(axis=1)
    return replace(
        view,
        horizon=min(view.horizon, view.slot + own.shape[1]),
        cluster=replace(view.cluster, capacity=capacity),
        occupied=capacity[:, None, :] - own,
        tail=capacity,
        windows=(),
        resale=(),
    )
