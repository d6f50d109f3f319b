"""Verifying that what operators and owners have set is as the history left it: pools and their servers, whose cells are
whose, standing instructions, budgets, holds, prices of use, weights, limits of fairness.

The history is folded from its first entry on, and the rows are compared with the result.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Model

from scheduling.audit import archive_entries
from scheduling.audit.bundle import keys
from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.programs import programs_verify
from scheduling.common import one_moment
from scheduling.feed import EventKind
from scheduling.market.view import ONES, AmountSteps
from scheduling.models import (
    AlonePlan,
    Budget,
    Cell,
    Event,
    FairnessAlert,
    IntervalArchive,
    LaneClock,
    PolicyWeights,
    Pool,
    ResourceKind,
    Server,
    ServerCapacity,
    ServerState,
    SigningKey,
    TenantPolicy,
    UsePrice,
    WeightsPromotion,
)
from scheduling.operator import steps_listed
from scheduling.runs import LOCAL
from tenants import history
from tenants.ledger.sums import from_outside
from tenants.models import AuditEntry, Tenant
from tenants.scoping import scope_disabled

WORD = r"([a-z0-9_-]+)"
SUBJECT = re.compile(rf"(?:(?:server|cells of|sharing of) {WORD} (?:of|in) )?(?:pool|weights) {WORD}")
# Settings of a pool that no service changes: they stay as every pool is made.
AS_MADE = ("cancellation_keep_percent", "posted_slots")
LOSS = ("lost_from", "lost_after")  # columns of a server that its last loss wrote
SHARING = ("rent", "budget", "budget_period", "lend", "plan", "reserve_price")


class UsePriceSet(NamedTuple):
    resource: str
    from_slot: int
    amount: int
    set_at: datetime


class PromotionSet(NamedTuple):
    weights: str
    from_slot: int
    by_rule: bool
    made_at: datetime


@dataclass
class ServerSet:
    hosts: Mapping[str, bool]
    capacity: Mapping[str, int]
    state: str = ServerState.IN_SERVICE.value
    loss: Mapping[str, int | None] | None = field(default_factory=lambda: dict.fromkeys(LOSS))  # None if unknown


@dataclass
class PoolSet:
    """One pool as the history says it should be, by the names of servers, tenants and resources."""

    values: Mapping[str, Any]
    resources: list[str]
    labels: Mapping[str, str] | None  # None where an older version did not record them
    steps: dict[str, Mapping[str, str]]  # only of resources that do not count whole units
    held: Mapping[str, bool] = field(default_factory=lambda: {"held": False, "draining": False})
    servers: dict[str, ServerSet] = field(default_factory=dict)
    cells: dict[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)  # (tenant, server) -> units
    sharing: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    prices: list[UsePriceSet] = field(default_factory=list)
    alerts: Mapping[str, Any] = field(default_factory=dict)
    promotions: list[PromotionSet] = field(default_factory=list)


def settings_verify(pool_ids: Collection[int] | None = None) -> list[Finding]:
    """Compare everything of all pools, or only what belongs to these pools."""
    with one_moment(), scope_disabled("what was set is that of all tenants"):
        return _settings_verify(pool_ids)


def _settings_verify(pool_ids: Collection[int] | None) -> list[Finding]:
    pools, weights = dict[str, PoolSet](), dict[str, tuple[object, object]]()
    entries = AuditEntry.objects.filter(action__in=["pool_create", "weights_add", *_CHANGES]).order_by("sequence")
    for entry in entries.iterator(chunk_size=2_000):
        if (subject := SUBJECT.fullmatch(entry.subject)) is None:
            continue
        part, name = subject.groups()
        if entry.action == "weights_add":
            weights[name] = ((entry.after or {}).get("digest"), entry.at)
        elif entry.action == "pool_create":
            pools[name] = _pool_created(entry)
        elif name in pools:
            _CHANGES[entry.action](pools[name], part, entry)
    if pool_ids is not None:
        rows = Pool.objects.filter(pk__in=pool_ids).order_by("pk")
        return [finding for pool in rows for finding in _pool_verify(pool, pools.get(pool.slug))]
    stand = list(Pool.objects.order_by("pk"))
    return [
        *(finding for pool in stand for finding in _pool_verify(pool, pools.get(pool.slug))),
        *(Finding(f"pool {name}", "it was made, and is gone") for name in pools.keys() - {pool.slug for pool in stand}),
        *_weights_verify(weights),
        *_signing_keys_verify(),
        *_archives_verify(),
        *programs_verify(),
        *(finding for tenant in Tenant.objects.order_by("pk") for finding in _budgets_verify(tenant)),
        *_credits_verify(),
    ]


# ---------------------------------------------------------------- what each entry of the history says


def _pool_created(entry: AuditEntry) -> PoolSet:
    # Older versions had no other engine, no servers that return by themselves, and no other usual plan.
    before_choices = {"engine": LOCAL, "servers_return": False, "usual_plan": AlonePlan.KEEP.value}
    after: dict[str, Any] = {**before_choices, **(entry.after or {})}
    resources, prices = after.pop("resources", []), after.pop("use_prices", {})
    pool = PoolSet(after, resources, after.pop("labels", None), after.pop("steps", {}))
    pool.prices = [UsePriceSet(name, 0, amount, entry.at) for name, amount in prices.items()]
    return pool


def _server_added(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    after = entry.after or {}
    hosts = {name: after.get(name, True) for name in ("hosts_workers", "hosts_ps")}
    pool.servers[part] = ServerSet(hosts, after.get("capacity", {}))


def _capacity_changed(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    if part in pool.servers:
        pool.servers[part].capacity = entry.after or {}


def _state_changed(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    if part in pool.servers:
        pool.servers[part].state = (entry.after or {}).get("state", "")


def _server_lost(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    """Record the loss. An older version did not write down from which slot on."""
    _state_changed(pool, part, entry)
    after = entry.after or {}
    if part in pool.servers:
        pool.servers[part].loss = {name: after.get(name) for name in LOSS} if "lost_from" in after else None


def _cells_changed(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    """Record the cells on the servers that the change was about: those where the tenant had something before, or has
    now."""
    for server in entry.before or {}:
        pool.cells.pop((part, server), None)
    for server, units in (entry.after or {}).items():
        pool.cells[part, server] = units


def _sharing_changed(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    pool.sharing[part] = entry.after or {}


def _held(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    del part
    pool.held = entry.after or {}


def _steps_set(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    del part
    pool.steps |= (entry.after or {}).get("steps", {})


def _servers_return_set(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    del part
    pool.values = {**pool.values, **(entry.after or {})}


def _prices_set(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    del part
    before, after = (entry.before or {}).get("prices", {}), entry.after or {}
    pool.prices += [
        UsePriceSet(name, after.get("from_slot", 0), amount, entry.at)
        for name, amount in after.get("prices", {}).items()
        if before.get(name) != amount
    ]


def _alerts_set(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    del part
    pool.alerts = entry.after or {}


def _weights_taken(pool: PoolSet, part: str, entry: AuditEntry) -> None:
    del part
    after = entry.after or {}
    promotion = PromotionSet(after.get("weights", ""), after.get("from_slot", 0), after.get("by_rule", False), entry.at)
    pool.promotions.append(promotion)


_CHANGES: Mapping[str, Callable[[PoolSet, str, AuditEntry], None]] = {
    "server_add": _server_added,
    "server_capacity_change": _capacity_changed,
    "server_drain": _state_changed,
    "server_return": _state_changed,
    "server_lose": _server_lost,
    "cells_change": _cells_changed,
    "sharing_change": _sharing_changed,
    "pool_hold": _held,
    "pool_drain": _held,
    "pool_resume": _held,
    "resource_steps_set": _steps_set,
    "servers_return_set": _servers_return_set,
    "use_prices_set": _prices_set,
    "weights_take": _weights_taken,
    "fairness_alerts_set": _alerts_set,
}


# ---------------------------------------------------------------- what the rows say


def _pool_verify(pool: Pool, right: PoolSet | None) -> Iterator[Finding]:
    where = f"pool {pool.slug}"
    if right is None:
        yield Finding(where, "no entry of the history tells that it was made")
        return
    yield from differences(where, _exactly(pool, right.values))
    blank = Pool()
    yield from differences(where, {name: (getattr(pool, name), getattr(blank, name)) for name in AS_MADE})
    kinds = list(ResourceKind.objects.filter(pool=pool).order_by("pk"))
    yield from differences(where, {"its resources": ([kind.name for kind in kinds], right.resources)})
    if right.labels is not None:
        labels = {kind.name: kind.label for kind in kinds}
        yield from differences(where, {"what its resources are called": (labels, dict(right.labels))})
    steps = steps_listed({kind.name: AmountSteps(kind.least, kind.step) for kind in kinds})
    ones = steps_listed({kind.name: ONES for kind in kinds})
    yield from differences(where, {"the steps of its resources": (steps, ones | right.steps)})
    for clock in LaneClock.objects.filter(pool=pool).order_by("lane"):
        yield from differences(f"the {clock.lane} lane of {where}", _exactly(clock, right.held))
    names = {kind.pk: kind.name for kind in kinds}
    yield from _servers_verify(pool, names, right)
    yield from _cells_verify(pool, names, right)
    yield from _sharing_verify(pool, right)
    stored = [
        UsePriceSet(names.get(row.resource_id, f"resource {row.resource_id}"), row.from_slot, row.amount, row.set_at)
        for row in UsePrice.objects.filter(pool=pool).order_by("pk")
    ]
    # Of one resource and slot the newest price is valid, so their order counts.
    pair = tuple(sorted(rows, key=lambda price: price[:2]) for rows in (stored, right.prices))
    yield from differences(where, {"its prices of use": (pair[0], pair[1])})
    promoted = WeightsPromotion.objects.filter(pool=pool).order_by("pk").select_related("weights")
    promotions = [
        PromotionSet(_weights_named(row), row.from_slot, row.by_rule, row.made_at)
        for row in promoted.defer("weights__content")
    ]
    yield from differences(where, {"its weights put in place": (promotions, right.promotions)})
    alerts = {row.measure: history.exact(row.threshold) for row in FairnessAlert.objects.filter(pool=pool)}
    yield from differences(where, {"its limits of fairness": (alerts, dict(right.alerts))})


def _weights_named(row: WeightsPromotion) -> str:
    """Return the name of the weights: a number where they are gone, and "" for those that the pool was made with."""
    if row.weights is not None:
        return row.weights.name
    return "" if row.weights_id is None else f"weights {row.weights_id}"


def _servers_verify(pool: Pool, names: Mapping[int, str], right: PoolSet) -> Iterator[Finding]:
    """Compare the servers. `names` are those of the pool's resources by their rows' numbers, as in what follows."""
    servers = {server.name: server for server in Server.objects.filter(pool=pool).order_by("pk")}
    capacities: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for row in ServerCapacity.objects.filter(server__pool=pool).order_by("pk"):
        resource = names.get(row.resource_id) if row.pool_id == pool.pk else None
        capacities[row.server_id][resource or f"resource {row.resource_id} of pool {row.pool_id}"] = row.units
    for name in sorted(servers.keys() | right.servers.keys()):
        where = f"server {name} of pool {pool.slug}"
        server, right_server = servers.get(name), right.servers.get(name)
        if server is None or right_server is None:
            yield Finding(where, "it is gone" if server is None else "no entry of the history tells that it was added")
            continue
        yield from differences(
            where,
            {
                **_exactly(server, right_server.hosts),
                **_exactly(server, right_server.loss or {}),
                "state": (server.state, right_server.state),
                "capacity": (capacities[server.pk], dict(right_server.capacity)),
            },
        )


def _cells_verify(pool: Pool, names: Mapping[int, str], right: PoolSet) -> Iterator[Finding]:
    stored: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    rows = Cell.objects.filter(server__pool=pool).order_by("pk")
    tenants = dict(Tenant.objects.values_list("pk", "slug"))
    for tenant, server, resource, units in rows.values_list("tenant_id", "server__name", "resource_id", "units"):
        stored[tenants.get(tenant, f"tenant {tenant}"), server][names.get(resource, f"resource {resource}")] = units
    for tenant, server in sorted(stored.keys() | right.cells.keys()):
        where = f"cells of {tenant} on server {server} of pool {pool.slug}"
        cells = stored.get((tenant, server), {}), dict(right.cells.get((tenant, server), {}))
        yield from differences(where, {"units": cells})


def _sharing_verify(pool: Pool, right: PoolSet) -> Iterator[Finding]:
    """Compare the standing instructions. A tenant without a row, or without an entry, has set nothing."""
    unsaid = TenantPolicy(plan=pool.usual_plan)
    tenants = dict(Tenant.objects.values_list("pk", "slug"))
    policies = TenantPolicy.objects.filter(pool=pool).order_by("pk")
    rows = {tenants.get(row.tenant_id, f"tenant {row.tenant_id}"): row for row in policies}
    for tenant in sorted(rows.keys() | right.sharing.keys()):
        where, row = f"sharing of {tenant} in pool {pool.slug}", rows.get(tenant, unsaid)
        values = right.sharing.get(tenant) or {name: history.exact(getattr(unsaid, name)) for name in SHARING}
        yield from differences(where, _exactly(row, values))


def _weights_verify(right: Mapping[str, tuple[object, object]]) -> Iterator[Finding]:
    rows = {row.name: row for row in PolicyWeights.objects.order_by("pk")}
    for name in sorted(rows.keys() | right.keys()):
        where, row = f"weights {name}", rows.get(name)
        if row is None or name not in right:
            yield Finding(
                where, "they are gone" if row is None else "no entry of the history tells that they were added"
            )
            continue
        content = hashlib.sha256(bytes(row.content)).hexdigest()
        yield from differences(where, {"digest and time": ((row.digest, row.added_at), right[name])})
        yield from differences(where, {"the digest of its content": (content, row.digest)})


def _signing_keys_verify() -> Iterator[Finding]:
    """Compare which public keys may be believed, and when each of them signed."""
    right: dict[str, list[datetime | None]] = {}
    entries = AuditEntry.objects.filter(action__in=[keys.MAKE, keys.RETIRE]).order_by("sequence")
    for action, subject, at in entries.values_list("action", "subject", "at"):
        key = subject.rpartition(" ")[2]
        if action == keys.MAKE:
            right[key] = [at, None]
        elif key in right:
            right[key][1] = at
    rows = {row.public_key: [row.made_at, row.retired_at] for row in SigningKey.objects.order_by("pk")}
    for key in sorted(rows.keys() | right.keys()):
        where = f"signing key {key}"
        if key not in rows or key not in right:
            yield Finding(where, "it is gone" if key in right else "no entry of the history tells that it was made")
            continue
        yield from differences(where, {"when it signed": (rows[key], right[key])})


def _archives_verify() -> Iterator[Finding]:
    """Compare which intervals an archive has, and the digest by which its file is believed."""
    entries = AuditEntry.objects.filter(action=archive_entries.ACTION).order_by("sequence")
    right: defaultdict[str, list[Any]] = defaultdict(list)
    for subject, after, at in entries.values_list("subject", "after", "at"):
        right[subject].append((after, at))
    rows: defaultdict[str, list[Any]] = defaultdict(list)
    for row in IntervalArchive.objects.select_related("pool").order_by("pk"):
        rows[archive_entries.archive_subject(row)].append((archive_entries.archive_said(row), row.archived_at))
    for where in sorted(rows.keys() | right.keys()):
        if where not in rows or where not in right:
            yield Finding(where, "its row is gone" if where in right else "no entry of the history tells of it")
            continue
        yield from differences(where, {"what it has": (rows[where], right[where])})


def _budgets_verify(tenant: Tenant) -> Iterator[Finding]:
    """Compare a tenant's budgets. Its own events have every change by the member's number, as addresses may change."""
    about = Event.objects.filter(
        tenant=tenant, subject__gte="budget", subject__lt="budgeu", kind=EventKind.BUDGET_CHANGED
    )
    right: dict[tuple[int | None, str], Mapping[str, Any]] = {}
    for data in about.order_by("pk").values_list("data", flat=True):
        right[data.get("member"), data.get("period")] = data
    right = {key: data for key, data in right.items() if not data.get("removed")}
    rows = {(row.member_id, row.period): row for row in Budget.objects.filter(tenant=tenant)}
    for member, period in sorted(rows.keys() | right.keys(), key=str):
        where = f"budget of {tenant.slug}, member {member}, per {period}"
        row, entry = rows.get((member, period)), right.get((member, period))
        if row is None or entry is None:
            yield Finding(where, "it is gone" if row is None else "nothing tells that it was set")
            continue
        limits = {name: (getattr(row, name), entry.get(name)) for name in ("soft_limit", "hard_limit")}
        yield from differences(where, limits)


def _credits_verify() -> Iterator[Finding]:
    """Compare what came into the book from outside for each tenant, and went there, with what operators did."""
    right: defaultdict[int, int] = defaultdict(int)
    entries = AuditEntry.objects.filter(action__in=["credits_grant", "credits_withdraw"])
    for action, tenant, after in entries.values_list("action", "tenant", "after"):
        amount = (after or {}).get("amount", 0)
        right[tenant] += amount if action == "credits_grant" else -amount
    stored, slugs = from_outside(), dict(Tenant.objects.values_list("pk", "slug"))
    for tenant in sorted(stored.keys() | right.keys()):
        sums = stored.get(tenant, 0), right.get(tenant, 0)
        yield from differences(f"credits of {slugs.get(tenant, f'tenant {tenant}')}", {"what came from outside": sums})


def _exactly(row: Model, values: Mapping[str, Any]) -> dict[str, tuple[object, object]]:
    """Return the row's columns as the history would write them, each beside what the history says."""
    return {name: (history.exact(getattr(row, name)), value) for name, value in values.items()}
