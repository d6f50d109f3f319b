"""A simulated slot of the baselines of Astraea's comparison: 200 jobs at once on 500 servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.bench.slots import slot


def measure() -> Iterator[dict[str, Any]]:
    for name in ("batchsche", "gandiva_fair", "hived"):
        yield slot({"name": name}, cells=True).figure(f"{name}_slot")
