"""Write published windows as they are stored with an interval, and read them again, also for other owners than then."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from scheduling.core import records
from scheduling.core.types import Plan, Window
from scheduling.market.view.frame import PoolFrame
from scheduling.models import Interval


def windows_bytes(frame: PoolFrame, windows: Sequence[Window]) -> bytes:
    """Return two lines of canonical JSON: the ids behind the owners axis, and a plan that has only these windows."""
    owners = records.to_bytes({"owners": list(frame.owner_ids)})
    return owners + b"\n" + records.plan_bytes(Plan(windows=tuple(windows)))


def published_windows(frame: PoolFrame, slot: int) -> tuple[Window, ...]:
    """Read the windows that end after `slot`, in order, with the owners of this frame."""
    rows = Interval.objects.filter(pool=frame.pool, window_end__gt=slot).order_by("number")
    return windows_of(frame, slot, [bytes(stored) for stored in rows.values_list("windows", flat=True)])


def windows_of(frame: PoolFrame, slot: int, stored: Iterable[bytes]) -> tuple[Window, ...]:
    """Return the same windows from the stored bytes of their intervals."""
    windows = [window for text in stored for window in _read(text, frame.owner_ids)]
    return tuple(sorted((w for w in windows if w.end > slot), key=lambda window: window.start))


@lru_cache(maxsize=64)
def _read(stored: bytes, now: tuple[int, ...]) -> tuple[Window, ...]:
    """Read stored windows for the owners `now`. Cached by the stored bytes, since most requests for a price need the
    same windows."""
    first, rest = stored.split(b"\n", 1)
    then, windows = json.loads(first)["owners"], records.plan_from(rest).windows
    return tuple(windows) if tuple(then) == now else tuple(_for_owners(window, then, now) for window in windows)


def _for_owners(window: Window, then: Sequence[int], now: Sequence[int]) -> Window:
    """Return the window with the axis of the owners `now`. Owners that joined since had nothing for sale. Units of
    owners that left were for sale: they stay in the prices, but are left out here."""
    idle = np.zeros((window.idle.shape[0], len(now), window.idle.shape[2]))
    places = {owner: index for index, owner in enumerate(then)}
    for index, owner in enumerate(now):
        if owner in places:
            idle[:, index] = window.idle[:, places[owner]]
    return replace(window, idle=idle)
