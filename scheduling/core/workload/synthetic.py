"""Draw synthetic markets from a seed, with the papers' parameter ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from scheduling.core.cells import deal_servers
from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.reading import MOST_JOBS
from scheduling.core.types import FloatArray
from scheduling.core.workload.document import Document, above_zero, decimals, scenario, server_rows, tenant_rows, within
from scheduling.core.workload.presets import PRESETS, VALUES, WorkloadPreset, draw_value

TRIES = 10_000  # draws for one job before its limit on length is called impossible
UNEVEN = 4.0  # the largest weight of a tenant over the smallest, at most


def synthetic(
    *,
    seed: int,
    preset: str = "astraea",
    tenants: int = 14,
    servers: int = 100,
    jobs: int = 300,
    slots: int | None = None,
    span: float | None = None,
    load: float | None = None,
    value: str | None = None,
    longest: int | None = None,
    operator_share: float = 0.0,
    cells: bool = True,
    slot_seconds: float = 3600.0,
    shorter: float = 1.0,
    apart: bool = False,
    policy: Mapping[str, Any] | None = None,
) -> Document:
    """Return a market drawn with a seed; arguments that are left out have the preset's values.

    Jobs arrive in [0, span), evenly. `load` sets the span instead: the work that arrives is then `load` times what all
    workers can do in the span. `longest` draws jobs again until their shortest run has at most `longest` slots.
    `operator_share` is the share of the servers that belongs to no tenant; `cells` pins the quotas to servers. Jobs
    have `shorter` times fewer epochs. With `apart`, what tenants own and how many jobs they submit are each as uneven
    as chance makes them, instead of both being within a factor of four.
    """
    mix = _preset(preset, value)
    _check_sizes(seed, tenants, servers, jobs, operator_share, slot_seconds)
    above_zero("shorter", shorter)
    if apart and servers * (1.0 - operator_share) < tenants:
        raise BadScenario("apart", "needs a server for each tenant at least")
    dice = np.random.default_rng(seed)
    capacity = mix.machines(dice, servers)
    names = [f"u{u + 1}" for u in range(tenants)]
    owned = servers * (1.0 - operator_share)
    home = deal_servers(capacity, _cuts(dice, tenants, int(owned)) if apart else _bounds(dice, tenants, owned))
    most = longest if longest is not None else mix.longest
    rows = [_job(dice, mix, most, slot_seconds, shorter) for _ in range(jobs)]
    length = _span(rows, capacity, mix, span, load, slot_seconds)
    arrivals = _arrivals(dice, mix, jobs, length)
    owners = dice.choice(tenants, jobs, p=dice.dirichlet(np.ones(tenants)) if apart else _weights(dice, tenants))
    kind = value or mix.value
    document_jobs = [
        {
            "name": f"j{k + 1}",
            "tenant": names[owners[k]],
            "arrival": arrivals[k],
            **row,
            "value": draw_value(dice, kind),
        }
        for k, row in enumerate(rows)
    ]
    return scenario(
        slot_seconds=slot_seconds,
        slots=_slots(mix, length) if slots is None else slots,
        servers=server_rows(mix.resources, capacity, names, home if cells else None, _hosts(mix, servers)),
        tenants=tenant_rows(mix.resources, names, home.sum(axis=2)),
        jobs=document_jobs,
        policy=policy or {"name": "astraea"},
        generator={
            "name": "synthetic",
            "args": {
                **{"preset": preset, "tenants": tenants, "servers": servers, "jobs": jobs},
                **{"slots": slots, "span": span, "load": load, "value": value, "longest": longest},
                **{"operator_share": operator_share, "cells": cells, "slot_seconds": slot_seconds},
                **({"shorter": shorter} if shorter != 1.0 else {}),
                **({"apart": apart} if apart else {}),
            },
            "seed": seed,
        },
    )


def _preset(preset: str, value: str | None) -> WorkloadPreset:
    """Return the preset of this name; refuse unknown names of presets and of values."""
    if preset not in PRESETS:
        raise BadScenario("preset", f"must be one of {', '.join(PRESETS)}, not {preset}")
    if value not in (None, *VALUES):
        raise BadScenario("value", f"must be one of {', '.join(VALUES)}, not {value}")
    return PRESETS[preset]


def _check_sizes(seed: int, tenants: int, servers: int, jobs: int, operator_share: float, slot_seconds: float) -> None:
    within("seed", seed, 0, 2**63)
    within("tenants", tenants, 1, 5_000)
    within("servers", servers, 1, 20_000)
    within("jobs", jobs, 0, MOST_JOBS)
    within("operator_share", operator_share, 0.0, 1.0)
    above_zero("slot_seconds", slot_seconds)


def _weights(dice: np.random.Generator, tenants: int) -> FloatArray:
    """Return a weight for each tenant; they add up to 1, and the largest is at most `UNEVEN` times the smallest."""
    weights: FloatArray = dice.uniform(1.0, UNEVEN, tenants)
    weights /= weights.sum()
    return weights


def _bounds(dice: np.random.Generator, tenants: int, servers: float) -> FloatArray:
    """Return the bounds (tenants + 1,) of the tenants' stretches of servers, of about their weights. They consist of
    whole machines, at least one each, if there are enough."""
    ends = np.cumsum(_weights(dice, tenants)) * servers
    if servers >= tenants:
        spare = int(servers) - tenants
        ends = np.arange(1.0, tenants + 1) + np.rint(ends / servers * spare)
    return np.concatenate([[0.0], ends])


def _cuts(dice: np.random.Generator, tenants: int, servers: int) -> FloatArray:
    """Return the bounds (tenants + 1,) of the tenants' stretches of servers. All ways to cut the row with at least one
    server for each tenant are equally likely."""
    cuts = np.sort(dice.choice(np.arange(1, servers), tenants - 1, replace=False))
    return np.concatenate([[0.0], cuts, [servers]])


def _hosts(preset: WorkloadPreset, servers: int) -> list[str] | None:
    """Return what each server hosts: OASiS' servers host workers and parameter servers in turn; None means both."""
    return [("worker", "ps")[s % 2] for s in range(servers)] if preset.split else None


def _job(
    dice: np.random.Generator, preset: WorkloadPreset, longest: int | None, slot_seconds: float, shorter: float
) -> Document:
    """Draw a job whose shortest run is within the limit `longest`, if there is a limit."""
    for _ in range(TRIES):
        row = preset.job(dice, slot_seconds)
        if shorter != 1.0:
            row["epochs"] = max(1, round(row["epochs"] / shorter))
        if longest is None or preset.shortest(row, slot_seconds) <= longest:
            return row
    raise BadScenario("longest", f"no job in {TRIES:,} drawn can end within {longest} slots")


def _span(
    rows: list[Document],
    capacity: FloatArray,
    preset: WorkloadPreset,
    span: float | None,
    load: float | None,
    slot_seconds: float,
) -> float:
    """Return the number of slots in which the jobs arrive."""
    for name, amount in (("load", load), ("span", span)):
        if amount is not None:
            above_zero(name, amount)
    if load is None:
        return preset.span if span is None else span
    if span is not None:
        raise BadScenario("load", "sets the span itself; give one of the two")
    if preset.resources[0] != "worker":
        raise BadScenario("load", "is known only where machines are cut into workers (preset astraea)")
    work = sum(row["chunks"] * _worker_slots(row, slot_seconds) for row in rows)
    return float(work / (load * capacity[0].sum()))


def _slots(preset: WorkloadPreset, span: float) -> int:
    """Return the length of the scenario: the preset's, plus the span if jobs arrive for longer than in the preset."""
    return preset.slots if span <= preset.span else preset.slots + math.ceil(span)


def _worker_slots(row: Document, slot_seconds: float) -> float:
    """Return the slots that a worker takes for one chunk, with gradients that cross the network."""
    seconds = row["minibatch_seconds"] + row["update_seconds"] + 16.0 * row["gradient_mb"] / row["worker_mbps"]
    return float(row["epochs"] * row["minibatches"] * seconds / slot_seconds)


def _arrivals(dice: np.random.Generator, preset: WorkloadPreset, jobs: int, span: float) -> list[int | float]:
    """Return sorted arrivals in [0, span); with bursts every second slot has two thirds of them."""
    times = dice.uniform(0.0, span, jobs)
    if preset.bursts:
        late = (dice.uniform(size=jobs) < 1 / 3) & (np.floor(times) % 2 == 0) & (times + 1 < span)
        times = np.where(late, times + 1, times)
    return [decimals(time, 3) for time in np.sort(times)]
