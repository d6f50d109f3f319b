"""Twice the pools of `pools`, with the workers of two machines: processes on one, with connections of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.bench.scale import pools

SIZES = (40, 400)  # pools


def measure(size: int) -> Iterator[dict[str, Any]]:
    yield from pools.measure(size, workers=2 * pools.WORKERS)
