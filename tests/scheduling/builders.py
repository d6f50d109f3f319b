"""Rows for a test: each builder needs only what the test is about. They write rows, not use cases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import Sum

from scheduling.audit.verification.settings import AS_MADE, SHARING
from scheduling.cluster.changes import server_subject
from scheduling.market.view.specs import steps_of
from scheduling.models import Cell, Pool, ResourceKind, Server, ServerCapacity, TenantPolicy, UsePrice
from scheduling.operator.pools import steps_listed
from tenants import history
from tenants.access import access_of_system
from tenants.ledger.sums import from_outside
from tenants.models import AuditEntry, Tenant
from tenants.scoping import scope, scope_disabled

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def make_tenant(slug: str = "lumen") -> Tenant:
    return Tenant.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def make_pool(slug: str = "main", *, resources: tuple[str, ...] = ("worker", "ps"), **fields: object) -> Pool:
    wanted = {
        "name": slug.title(),
        "slot_seconds": 10,
        "clock_first": 1,
        "clock_cap": 8,
        "clock_restart": True,
        "batch_policy": {"name": "astraea"},
        "epoch_at": NOON,
        "outage_grace_seconds": None,  # most tests let time jump, and mean that the market was there
    } | fields
    pool = Pool.objects.create(slug=slug, **wanted)
    for name in resources:
        ResourceKind.objects.create(pool=pool, name=name, label=name)
    return pool


def make_server(pool: Pool, name: str = "s01", *, worker: int = 8, ps: int = 2) -> Server:
    server = Server.objects.create(pool=pool, name=name)
    for resource, units in (("worker", worker), ("ps", ps)):
        ServerCapacity.objects.create(pool=pool, server=server, resource=kind(pool, resource), units=units)
    return server


def make_cells(server: Server, tenant: Tenant, units: Mapping[str, int]) -> None:
    with scope(tenant):
        for resource, number in units.items():
            Cell.objects.create(server=server, tenant=tenant, resource=kind(server.pool, resource), units=number)


def kind(pool: Pool, name: str) -> ResourceKind:
    return ResourceKind.objects.get(pool=pool, name=name)


@transaction.atomic
def tell_history(pool: Pool) -> None:
    """Write the entries of the history that the services would have written for what these builders made, because a
    verification of everything compares the rows with them. Call it once, when everything is built."""
    common: dict[str, Any] = {"at": NOON, "by": access_of_system("a test"), "reason": "test"}
    values = {field.attname: getattr(pool, field.attname) for field in pool._meta.concrete_fields}
    values = {name: value for name, value in values.items() if name not in ("id", *AS_MADE)}
    kinds = {kind.name: kind.label for kind in ResourceKind.objects.filter(pool=pool).order_by("pk")}
    prices = {
        price.resource.name: price.amount for price in UsePrice.objects.filter(pool=pool).select_related("resource")
    }
    after = values | {
        "resources": list(kinds),
        "labels": kinds,
        "use_prices": prices,
        "steps": steps_listed(steps_of(pool)),
    }
    history.append(action="pool_create", subject=f"pool {pool.slug}", after=after, **common)
    for server in Server.objects.filter(pool=pool).select_related("pool").order_by("pk"):
        capacity = dict(ServerCapacity.objects.filter(server=server).values_list("resource__name", "units"))
        details = {"capacity": capacity, "hosts_workers": server.hosts_workers, "hosts_ps": server.hosts_ps}
        history.append(action="server_add", subject=server_subject(server), after=details, **common)
    with scope_disabled("the test tells whose cells are whose"):
        cells = list(
            Cell.objects.filter(server__pool=pool).select_related("server", "resource", "tenant").order_by("pk")
        )
        policies = list(TenantPolicy.objects.filter(pool=pool).select_related("tenant").order_by("pk"))
    for row in policies:
        subject, after = (
            f"sharing of {row.tenant.slug} in pool {pool.slug}",
            {name: getattr(row, name) for name in SHARING},
        )
        history.append(action="sharing_change", subject=subject, tenant=row.tenant, before={}, after=after, **common)
    units: dict[Tenant, dict[str, dict[str, int]]] = {}
    for cell in cells:
        units.setdefault(cell.tenant, {}).setdefault(cell.server.name, {})[cell.resource.name] = cell.units
    for tenant, of_servers in units.items():
        subject = f"cells of {tenant.slug} in pool {pool.slug}"
        history.append(action="cells_change", subject=subject, tenant=tenant, before={}, after=of_servers, **common)
    credits = AuditEntry.objects.filter(action="credits_grant")
    with scope_disabled("the history tells of all tenants' credits"):
        amounts = from_outside()
    for number, amount in amounts.items():
        before = sum(after["amount"] for after in credits.filter(tenant=number).values_list("after", flat=True))
        if amount != before:  # another pool's entries may tell of them
            tenant, about = Tenant.objects.get(pk=number), {"amount": amount - before}
            subject = f"credits of {tenant.slug}"
            history.append(action="credits_grant", subject=subject, tenant=tenant, after=about, **common)


def tenant_quota(tenant: Tenant, pool: Pool) -> dict[str, int]:
    """Return resource name -> units of the tenant's cells; 0 where it has none. Needs the tenant's scope."""
    sums = Cell.objects.filter(tenant=tenant, server__pool=pool).values_list("resource_id").annotate(Sum("units"))
    by_resource = dict(sums)
    return {kind.name: by_resource.get(kind.pk, 0) for kind in ResourceKind.objects.filter(pool=pool)}
