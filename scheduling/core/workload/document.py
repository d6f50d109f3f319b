"""Make the parts of a scenario document: short numbers, servers with their owners' cells, and the whole document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduling.core.scenario import BadScenario
from scheduling.core.types import FloatArray

Document = dict[str, Any]

MACHINE = ("worker", "ps")  # the resources of a machine that is cut into pre-sized units
LARGEST = 1e9  # argument that anybody may mean


def short(number: float, digits: int = 4) -> int | float:
    """Return the number with `digits` significant digits, so that big files stay readable; 12.0 is written 12."""
    rounded = float(f"{number:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def decimals(number: float, places: int) -> int | float:
    """Return the number with `places` decimal places; 12.0 is written 12."""
    rounded = round(float(number), places)
    return int(rounded) if rounded.is_integer() else rounded


def amounts(resources: Sequence[str], numbers: Iterable[float]) -> dict[str, int | float]:
    """Return {resource: amount} of the numbers that are not zero."""
    return {resource: decimals(number, 3) for resource, number in zip(resources, numbers, strict=True) if number}


def server_rows(
    resources: Sequence[str],
    capacity: FloatArray,
    tenants: Sequence[str],
    cells: FloatArray | None,
    hosts: Sequence[str] | None = None,
) -> list[Document]:
    """Return one row for each server, of capacity (resources, servers), home cells (resources, tenants, servers), and
    what each hosts, "worker" or "ps"."""
    rows = []
    for server in range(capacity.shape[1]):
        row: Document = {"name": f"s{server + 1}", "capacity": amounts(resources, capacity[:, server])}
        if hosts is not None:
            row["hosts"] = [hosts[server]]
        if cells is not None:
            owned = np.flatnonzero(cells[:, :, server].any(axis=0)).tolist()
            row["cells"] = {tenants[u]: amounts(resources, cells[:, u, server]) for u in owned}
        rows.append(row)
    return rows


def tenant_rows(resources: Sequence[str], tenants: Sequence[str], quota: FloatArray) -> list[Document]:
    """Return one row for each tenant with its quota; `quota` is (resources, tenants)."""
    return [{"name": name, "quota": amounts(resources, quota[:, u])} for u, name in enumerate(tenants)]


def scenario(
    *,
    slot_seconds: float,
    slots: int,
    servers: Sequence[Document],
    tenants: Sequence[Document],
    jobs: Sequence[Document],
    policy: Mapping[str, Any],
    generator: Mapping[str, Any],
) -> Document:
    """Return the whole document, with the generator that made it."""
    return {
        "format": "scenario/1",
        "generator": dict(generator),
        "slot_seconds": decimals(slot_seconds, 6),
        "slots": slots,
        "servers": list(servers),
        "tenants": list(tenants),
        "jobs": list(jobs),
        "policy": dict(policy),
    }


def within(name: str, number: float, least: float, most: float) -> None:
    """Refuse an argument outside [least, most], by name."""
    if not least <= number <= most:
        raise BadScenario(name, f"must be from {_figure(least)} to {_figure(most)}, not {_figure(number)}")


def _figure(number: float) -> str:
    """Return an integer as 1,000,000 and not as 1e+06, and a fraction as short as it can be."""
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def above_zero(name: str, number: float) -> None:
    """Refuse an argument that is not above 0, or that is absurdly large, by name."""
    if not 0 < number <= LARGEST:
        raise BadScenario(name, f"must be above 0 and at most {LARGEST:g}, not {number:g}")
