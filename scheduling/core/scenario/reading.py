"""Read a scenario: the document, its cluster, and the checks that concern several of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scheduling.core.scenario.fields import BadScenario, Section, amounts, choice, quoted, suggestion, text
from scheduling.core.scenario.jobs import RENT, ScenarioJobs
from scheduling.core.scenario.model import Preload, Scenario
from scheduling.core.scenario.strict import parse
from scheduling.core.types import KEEP, OPERATOR, RENEW, Cluster, FloatArray, Tenant

FORMAT = "scenario/1"
HOSTS = ("worker", "ps")
LEND = ("keep", "lend")
PLAN = (KEEP, RENEW)
ROUNDING = 1e-9  # relative; sums of decimals

MOST_SLOTS = 10**6
MOST_SERVERS = 20_000
MOST_TENANTS = 5_000
MOST_RESOURCES = 64
MOST_JOBS = 10**6
MOST_CELLS = 2 * 10**7  # resources * tenants * servers

FIELDS = ("format", "slot_seconds", "slots", "servers", "tenants", "jobs", "policy", "instant", "preload", "generator")


def read(source: str | bytes | Mapping[str, Any]) -> Scenario:
    """Return the scenario in a text or in a parsed document; raise `BadScenario` with the place of what is wrong."""
    document = parse(source) if isinstance(source, str | bytes) else source
    top = _top(document)
    slots = top.whole("slots", most=MOST_SLOTS)
    cluster = _cluster(top)
    jobs = ScenarioJobs(cluster.resources, cluster.tenants, cluster.slot_seconds)
    return Scenario(
        cluster=cluster,
        jobs=tuple(jobs.read(row, index) for index, row in enumerate(top.array("jobs", most=MOST_JOBS))),
        slots=slots,
        policy=_policy(top.raw("policy"), "policy"),
        instant=_policy(top.raw("instant"), "instant") if top.has("instant") else None,
        preload=_preload(top, cluster),
        generator=dict(top.object("generator")) if top.has("generator") else None,
    )


def _policy(value: object, place: str) -> dict[str, Any]:
    """Return the settings of a policy: an object with a name. The policy's builder checks the other fields."""
    row = Section(value, place, value if isinstance(value, Mapping) else ())
    row.text("name")
    return dict(row.fields)


def _top(document: object) -> Section:
    if not isinstance(document, Mapping):
        raise BadScenario("scenario", f"must be an object, not {quoted(document)}")
    if document.get("format") != FORMAT:  # checked before all else, since another format has other fields
        hint = f", not {quoted(document['format'])}" if "format" in document else "; it is missing"
        raise BadScenario("format", f'must be "{FORMAT}"{hint}')
    return Section(document, "", FIELDS)


def _cluster(top: Section) -> Cluster:
    slot_seconds = top.number("slot_seconds", least=1e-6, most=1e9)
    rows = [
        Section(row, f"servers[{s}]", ("name", "capacity", "hosts", "cells"))
        for s, row in enumerate(top.array("servers", most=MOST_SERVERS))
    ]
    if not rows:
        raise BadScenario("servers", "must have at least one server")
    names = _names(rows)
    resources, capacity = _capacity(rows)
    tenants = _tenants(top, resources)
    hosts = [_hosts(row) for row in rows]
    cells = _cells(rows, resources, tenants, capacity)
    return Cluster(
        resources=resources,
        servers=names,
        tenants=tenants,
        slot_seconds=slot_seconds,
        capacity=capacity,
        quota=_quota(top, resources, tenants, capacity, cells),
        hosts_workers=np.array(["worker" in host for host in hosts]),
        hosts_ps=np.array(["ps" in host for host in hosts]),
        cells=cells,
    )


def _names(rows: Sequence[Section]) -> tuple[str, ...]:
    """Return the names of the rows; refuse a name that occurs twice."""
    first: dict[str, str] = {}
    for row in rows:
        name = row.text("name")
        if name in first:
            raise BadScenario(row.at("name"), f"{quoted(name)} is already the name of {first[name]}")
        first[name] = row.place
    return tuple(first)


def _capacity(rows: Sequence[Section]) -> tuple[tuple[str, ...], FloatArray]:
    """Return the resources, in the order in which they are first named, and their amounts (resources, servers)."""
    capacities = [amounts(row.raw("capacity"), row.at("capacity"), None) for row in rows]
    for row, amount in zip(rows, capacities, strict=True):
        if not any(amount.values()):
            raise BadScenario(row.at("capacity"), "must be above 0 for at least one resource")
    resources = tuple(dict.fromkeys(name for amount in capacities for name in amount))
    if len(resources) > MOST_RESOURCES:
        raise BadScenario("servers", f"name {len(resources)} resources, more than {MOST_RESOURCES}")
    for resource in resources:
        text(resource, f"servers[{_first(capacities, resource)}].capacity (name of a resource)", longest=60)
        if not any(amount.get(resource) for amount in capacities):
            place = f"servers[{_first(capacities, resource)}].capacity.{resource}"
            raise BadScenario(place, "is 0, and no other server has any of it")
    return resources, np.array([[amount.get(name, 0.0) for amount in capacities] for name in resources])


def _first(capacities: Sequence[Mapping[str, float]], resource: str) -> int:
    return next(s for s, amount in enumerate(capacities) if resource in amount)


def _hosts(row: Section) -> tuple[str, ...]:
    hosts = row.array("hosts", HOSTS)
    words = tuple(choice(word, f"{row.at('hosts')}[{k}]", HOSTS) for k, word in enumerate(hosts))
    if not words or len(set(words)) < len(words):
        raise BadScenario(row.at("hosts"), "must name worker, ps or both, each once")
    return words


def _tenants(top: Section, resources: Sequence[str]) -> tuple[Tenant, ...]:
    fields = ("name", "quota", "rent", "budget", "lend", "reserve_price", "plan")
    rows = [Section(row, f"tenants[{u}]", fields) for u, row in enumerate(top.array("tenants", most=MOST_TENANTS))]
    for row, name in zip(rows, _names(rows), strict=True):
        if name == OPERATOR:
            raise BadScenario(row.at("name"), f'"{OPERATOR}" is the name of whoever owns what no quota covers')
    return tuple(_tenant(row, resources) for row in rows)


def _tenant(row: Section, resources: Sequence[str]) -> Tenant:
    reserve = row.amounts("reserve_price", resources, {})
    rent = row.choice("rent", RENT, "auto")
    budget = row.number("budget", None, least=0.0)
    if rent == "budget" and budget is None:
        raise BadScenario(row.at("budget"), 'is missing; rent "budget" needs it')
    return Tenant(
        name=row.text("name"),
        reserve_price=np.array([reserve.get(resource, 0.0) for resource in resources]),
        rent=rent,
        budget=budget,
        lend=row.choice("lend", LEND, "lend"),
        plan=row.choice("plan", PLAN, KEEP),
    )


def _cells(
    rows: Sequence[Section], resources: Sequence[str], tenants: Sequence[Tenant], capacity: FloatArray
) -> FloatArray | None:
    """Return the home cells (resources, tenants, servers), or None if no server has a field for cells."""
    if not any(row.has("cells") for row in rows):
        return None
    if len(resources) * len(tenants) * len(rows) > MOST_CELLS:
        raise BadScenario("servers", f"too large: resources * tenants * servers must be at most {MOST_CELLS:,}")
    cells = np.zeros((len(resources), len(tenants), len(rows)))
    numbers = {tenant.name: number for number, tenant in enumerate(tenants)}
    for s, row in enumerate(rows):
        for name, units in row.object("cells", {}).items():
            place = f"{row.at('cells')}.{ascii(name)[1:-1]}"
            if name not in numbers:
                raise BadScenario(place, f"unknown tenant{suggestion(name, numbers)}")
            for resource, amount in amounts(units, place, resources).items():
                cells[resources.index(resource), numbers[name], s] = amount
        _check_sum(row.at("cells"), "cells", resources, cells[:, :, s].sum(axis=1), capacity[:, s])
    return cells


def _quota(
    top: Section,
    resources: Sequence[str],
    tenants: Sequence[Tenant],
    capacity: FloatArray,
    cells: FloatArray | None,
) -> FloatArray:
    """Return the quotas (resources, tenants): the sums of the home cells if there are any, or else those that are
    written. If there are both, they must agree."""
    quota = np.zeros((len(resources), len(tenants))) if cells is None else cells.sum(axis=2)
    for u, row in enumerate(top.array("tenants")):
        entry = row.get("quota")
        if entry is None:
            continue
        place = f"tenants[{u}].quota"
        for resource, amount in amounts(entry, place, resources).items():
            r = resources.index(resource)
            if cells is not None and abs(amount - quota[r, u]) > ROUNDING * max(1.0, amount):
                raise BadScenario(f"{place}.{resource}", f"is {amount:g}, but the cells sum to {quota[r, u]:g}")
            if cells is None:
                quota[r, u] = amount
    _check_sum("tenants", "quotas", resources, quota.sum(axis=1), capacity.sum(axis=1))
    return quota


def _check_sum(place: str, what: str, resources: Sequence[str], amounts: FloatArray, capacity: FloatArray) -> None:
    over = np.flatnonzero(amounts > capacity + ROUNDING * np.maximum(1.0, capacity))
    if len(over):
        r = int(over[0])
        above = f"above the capacity of {capacity[r]:g}"
        raise BadScenario(place, f"{what} of {resources[r]} sum to {amounts[r]:g}, {above}")


def _preload(top: Section, cluster: Cluster) -> tuple[Preload, ...]:
    loads: dict[tuple[int, int, int], float] = {}
    bookings = []
    servers = {name: number for number, name in enumerate(cluster.servers)}
    resources = {name: number for number, name in enumerate(cluster.resources)}
    for k, value in enumerate(top.array("preload", ())):
        row = Section(value, f"preload[{k}]", ("server", "slot", "resource", "amount"))
        server, resource = _number(row, "server", servers), _number(row, "resource", resources)
        slot, amount = row.whole("slot", least=0, most=2 * MOST_SLOTS), row.number("amount", least=0.0)
        total = loads[server, slot, resource] = loads.get((server, slot, resource), 0.0) + amount
        limit, what = cluster.capacity[resource, server], "the capacity of"
        if cluster.cells is not None:  # home cells are promised to their owners from the first slot on
            limit, what = cluster.operator_cells[resource, server], "what is nobody's home,"
        if total > limit + ROUNDING * max(1.0, limit):
            raise BadScenario(row.at("amount"), f"{total:g} are taken there in all, above {what} {limit:g}")
        bookings.append(Preload(server, slot, resource, amount))
    return tuple(bookings)


def _number(row: Section, field: str, numbers: Mapping[str, int]) -> int:
    name = row.text(field)
    if name not in numbers:
        raise BadScenario(row.at(field), f"unknown {field} {quoted(name)}{suggestion(name, numbers)}")
    return numbers[name]
