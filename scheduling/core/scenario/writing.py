"""Write a scenario as the document that reads back as the same scenario, and as JSON that people can read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from scheduling.core.scenario.jobs import SAMPLE_FIELDS
from scheduling.core.scenario.model import Scenario
from scheduling.core.scenario.reading import FORMAT
from scheduling.core.types import BATCH, KEEP, Cluster, FloatArray, Job, Samples, UnitType, Value
from scheduling.core.value import KINDS

Document = dict[str, Any]
DULL = Samples()


def write(scenario: Scenario) -> Document:
    """Return the document of a scenario, in plain JSON values. Fields with their default are left out."""
    cluster = scenario.cluster
    document: Document = {
        "format": FORMAT,
        "slot_seconds": _plain(cluster.slot_seconds),
        "slots": scenario.slots,
        "servers": [_server(cluster, s) for s in range(len(cluster.servers))],
        "tenants": [_tenant(cluster, u) for u in range(len(cluster.tenants))],
        "jobs": [_job(cluster, job) for job in scenario.jobs],
        "policy": dict(scenario.policy),
    }
    if scenario.instant is not None:
        document["instant"] = dict(scenario.instant)
    if scenario.preload:
        document["preload"] = [
            {
                "server": cluster.servers[part.server],
                "slot": part.slot,
                "resource": cluster.resources[part.resource],
                "amount": _plain(part.amount),
            }
            for part in scenario.preload
        ]
    if scenario.generator is not None:
        document["generator"] = dict(scenario.generator)
    return document


def to_json(document: Mapping[str, Any]) -> str:
    """Return JSON with one line for each field, and for each element of a list of objects, so that it is short enough
    to be read and compared."""
    lines = []
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            rows = ",\n".join(f"  {_line(row)}" for row in value)
            lines.append(f"{_line(name)}: [\n{rows}\n]")
        else:
            lines.append(f"{_line(name)}: {_line(value)}")
    return "{" + ",\n".join(lines) + "}\n"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _plain(number: float) -> float | int:
    """Return a whole number as an integer: 4, not 4.0. Both read back as the same number."""
    return int(number) if float(number).is_integer() else float(number)


def _amounts(resources: Sequence[str], amounts: FloatArray) -> dict[str, float | int]:
    return {name: _plain(amount) for name, amount in zip(resources, amounts.tolist(), strict=True) if amount}


def _server(cluster: Cluster, s: int) -> Document:
    """Return the row of a server. The first server names all resources: one that no server names would not exist."""
    capacity = _amounts(cluster.resources, cluster.capacity[:, s])
    if s == 0:
        capacity = {name: capacity.get(name, 0) for name in cluster.resources}
    row: Document = {"name": cluster.servers[s], "capacity": capacity}
    hosts = [kind for kind, can in (("worker", cluster.hosts_workers[s]), ("ps", cluster.hosts_ps[s])) if can]
    if len(hosts) < 2:
        row["hosts"] = hosts
    if cluster.cells is not None:
        units = ((u, _amounts(cluster.resources, cluster.cells[:, u, s])) for u in range(len(cluster.tenants)))
        row["cells"] = {cluster.tenants[u].name: amounts for u, amounts in units if amounts}
    return row


def _tenant(cluster: Cluster, u: int) -> Document:
    tenant = cluster.tenants[u]
    row: Document = {"name": tenant.name}
    if cluster.cells is None:
        row["quota"] = _amounts(cluster.resources, cluster.quota[:, u])
    row |= {"rent": tenant.rent, "lend": tenant.lend}
    if tenant.budget is not None:
        row["budget"] = _plain(tenant.budget)
    if tenant.reserve_price.any():
        row["reserve_price"] = _amounts(cluster.resources, tenant.reserve_price)
    if tenant.plan != KEEP:
        row["plan"] = tenant.plan
    return row


def _job(cluster: Cluster, job: Job) -> Document:
    row: Document = {
        "name": job.name,
        "tenant": cluster.tenants[job.tenant].name,
        "arrival": _plain(job.arrival),
        "epochs": job.epochs,
        "chunks": job.chunks,
        "minibatches": job.minibatches,
        "minibatch_seconds": _each(job.worker_types, "seconds"),
        **({} if job.all_reduce else {"update_seconds": _each(job.ps_types, "seconds")}),
        "gradient_mb": _plain(job.gradient_mb),
        "worker_mbps": _each(job.worker_types, "mbps"),
        **({} if job.all_reduce else {"ps_mbps": _each(job.ps_types, "mbps")}),
        "worker_demand": _demands(cluster, job.worker_types),
        "ps_demand": [] if job.all_reduce else _demands(cluster, job.ps_types),
        "value": _value(job.value),
    }
    optional = {
        "lane": (job.lane, BATCH),
        "priority": (job.priority, 0),
        "min_workers": (job.min_workers, 1),
        "max_workers": (job.max_workers, job.chunks),
        "max_ps": (job.max_ps, None),
        "asked_workers": (job.asked_workers, None),
        "max_price": (job.max_price, None),
        "rent": (job.rent, None),
        "divisible": (job.divisible, False),
        "save_slots": (job.save_slots, 0.0),
        "unbroken": (job.unbroken, False),
        **{field: (getattr(job.samples, name), getattr(DULL, name)) for field, name in SAMPLE_FIELDS.items()},
    }
    row |= {field: _json(value) for field, (value, default) in optional.items() if value != default}
    return row


def _json(value: object) -> object:
    if isinstance(value, tuple):
        return [_json(element) for element in value]
    return _plain(value) if isinstance(value, float) else value


def _each(types: Sequence[UnitType], field: str) -> object:
    numbers = [_plain(getattr(unit, field)) for unit in types]
    return numbers[0] if len(numbers) == 1 else numbers


def _demands(cluster: Cluster, types: Sequence[UnitType]) -> object:
    demands = [_amounts(cluster.resources, unit.demand) for unit in types]
    return demands[0] if len(demands) == 1 else demands


def _value(value: Value) -> Document:
    kind = next(kind for kind, form in KINDS.items() if type(value) is form)
    return {"kind": kind} | {name: _plain(number) for name, number in asdict(value).items()}  # type: ignore[call-overload]
