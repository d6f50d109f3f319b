"""Rows for a test: each builder needs only what the test is about. They write rows, not use cases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from scheduling.models import Cell, Pool, ResourceKind, Server, ServerCapacity
from tenants.models import Tenant
from tenants.scoping import scope

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
