"""The pool as the core sees it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from django.db import transaction

from scheduling.core.scenario import BadScenario
from scheduling.market.view.batch import _occupied
from scheduling.market.view.frame import PoolShape, _shape, pool_frame
from scheduling.market.view.jobs import JobReader, arrival_of
from scheduling.market.view.pool_rows import rows_of
from scheduling.models import (
    CalendarCell,
    Cell,
    Part,
    Pool,
    ResourceKind,
    Server,
    ServerCapacity,
    ServerState,
    TenantPolicy,
)
from tenants.models import Tenant
from tenants.scoping import scope
from tests.database import overrule
from tests.scheduling.builders import NOON, make_cells, make_pool, make_server, make_tenant
from tests.scheduling.markets import make_market

pytestmark = pytest.mark.django_db

SPEC = {
    "epochs": 4,
    "chunks": 2,
    "minibatch_seconds": 5,
    "worker_demand": {"worker": 1},
    "ps_demand": {"ps": 1},
    "value": {"kind": "linear", "slope": -1, "base": 100},
}


def test_counts_cells_and_capacity_by_index() -> None:
    pool = make_pool()
    first, second = make_server(pool, "s01"), make_server(pool, "s02", worker=4)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    make_cells(first, castor, {"worker": 3, "ps": 1})
    make_cells(second, lumen, {"worker": 4})
    frame = pool_frame(pool)
    assert frame.server_ids == (first.pk, second.pk)
    assert frame.owner_ids == (lumen.pk, castor.pk, 0)
    assert frame.cluster.capacity.tolist() == [[8, 4], [2, 2]]
    assert frame.cells[:, frame.tenant_index[castor.pk]].tolist() == [[3, 0], [1, 0]]
    assert frame.home.capacity.tolist() == [[3, 4], [1, 0]]
    assert frame.cluster.quota.tolist() == [[4, 3], [0, 1]]


def test_lost_server_has_neither_units_nor_cells() -> None:
    pool = make_pool()
    server = make_server(pool)
    make_cells(server, make_tenant(), {"worker": 3})
    server.state = ServerState.LOST
    server.save(update_fields=["state"])
    frame = pool_frame(pool)
    assert not frame.cluster.capacity.any()
    assert not frame.cells.any()


def test_draining_server_keeps_its_units_and_hosts_nothing_new() -> None:
    pool = make_pool()
    server = make_server(pool)
    server.state = ServerState.DRAINING
    server.save(update_fields=["state"])
    cluster = pool_frame(pool).cluster
    assert cluster.capacity.tolist() == [[8], [2]]
    assert not cluster.hosts_workers.any()
    assert not cluster.hosts_ps.any()


def test_reads_a_tenants_standing_instructions() -> None:
    pool, tenant = make_pool(), make_tenant()
    make_cells(make_server(pool), tenant, {"worker": 3})
    with scope(tenant):
        TenantPolicy.objects.create(
            pool=pool, rent="budget", budget=2_500_000, lend="keep", reserve_price={"ps": 0.5}, tenant=tenant
        )
    (owner,) = pool_frame(pool).cluster.tenants
    assert (owner.rent, owner.budget, owner.lend) == ("budget", 2.5, "keep")
    assert owner.reserve_price.tolist() == [0.0, 0.5]


def test_tenant_without_cells_is_known_when_it_is_asked_for() -> None:
    pool, tenant = make_pool(), make_tenant()
    assert pool_frame(pool).tenant_ids == ()
    assert pool_frame(pool, also=[tenant.pk]).tenant_ids == (tenant.pk,)


def test_reads_a_specification_as_a_job_of_the_core() -> None:
    pool, tenant = make_pool(), make_tenant()
    reader = JobReader(pool_frame(pool, also=[tenant.pk]))
    job = reader.read_spec(SPEC, number=7, tenant_id=tenant.pk, arrival=1.5, lane="batch")
    assert (job.number, job.tenant, job.work, job.max_workers) == (7, 0, 8, 2)
    assert np.array_equal(job.worker_types[0].demand, [1.0, 0.0])


def test_names_the_field_of_a_bad_specification() -> None:
    pool, tenant = make_pool(), make_tenant()
    reader = JobReader(pool_frame(pool, also=[tenant.pk]))
    with pytest.raises(BadScenario, match="epochs"):
        reader.read_spec(SPEC | {"epochs": 0}, number=7, tenant_id=tenant.pk, arrival=1.5, lane="batch")


def test_job_under_a_budget_that_was_taken_away_can_still_be_read() -> None:
    pool, tenant = make_pool(), make_tenant()
    reader = JobReader(pool_frame(pool, also=[tenant.pk]))
    job = reader.read_spec(SPEC | {"rent": "budget"}, number=7, tenant_id=tenant.pk, arrival=1.5, lane="batch")
    assert job.rent == "budget"


def test_arrival_counts_slots_from_the_epoch() -> None:
    assert arrival_of(make_pool(slot_seconds=10), NOON + timedelta(seconds=25)) == 2.5


# --- what is kept from one reading to the next


def changes() -> dict[str, Callable[[Server, Tenant], object]]:
    """Each kind of row behind a frame, changed as the services change it: by rows alone, and nobody is told."""
    return {
        "capacity": lambda server, _: ServerCapacity.objects.filter(server=server).update(units=9),
        "cells": lambda server, owner: make_cells(server, owner, {"ps": 1}),
        "cell": lambda server, owner: Cell.objects.filter(server=server).update(units=2),
        "state": lambda server, _: Server.objects.filter(pk=server.pk).update(state=ServerState.LOST),
        "hosts": lambda server, _: overrule("UPDATE scheduling_server SET hosts_ps = false WHERE id = %s", [server.pk]),
        "server": lambda server, _: make_server(server.pool, "s02"),
        "resource": lambda server, _: ResourceKind.objects.create(pool=server.pool, name="gpu", label="GPU"),
        "sharing": lambda server, owner: TenantPolicy.objects.create(pool=server.pool, tenant=owner, lend="keep"),
    }


@pytest.mark.parametrize("change", changes())
def test_a_frame_is_shared_until_a_row_behind_it_changes(change: str) -> None:
    pool, owner = make_pool(), make_tenant()
    server = make_server(pool)
    make_cells(server, owner, {"worker": 3})
    before = pool_frame(pool)
    assert pool_frame(Pool.objects.get(pk=pool.pk)).shape is before.shape
    with scope(owner):
        changes()[change](server, owner)
    after = pool_frame(pool)
    _shape.cache_clear()
    rows_of.cache_clear()
    alone = pool_frame(pool).shape  # as a process reads it that has kept nothing
    assert as_words(after.shape) == as_words(alone) != as_words(before.shape)


def as_words(shape: PoolShape) -> str:
    cluster = shape.cluster
    arrays = [cluster.capacity, cluster.cells, cluster.quota, cluster.hosts_workers, cluster.hosts_ps]
    lends = [tenant.lend for tenant in cluster.tenants]
    return str((cluster.resources, cluster.servers, lends, [None if a is None else a.tolist() for a in arrays]))


def test_a_change_that_is_taken_back_leaves_nothing_behind() -> None:
    pool = make_pool()
    server = make_server(pool)
    with transaction.atomic():
        ServerCapacity.objects.filter(server=server).update(units=1)
        assert pool_frame(pool).cluster.capacity.tolist() == [[1], [1]]
        transaction.set_rollback(True)
    assert pool_frame(pool).cluster.capacity.tolist() == [[8], [2]]


def test_settings_of_the_pool_are_those_of_whoever_asks() -> None:
    pool = make_pool()
    make_server(pool)
    assert pool_frame(pool).pool.instant_policy is None
    other = Pool.objects.get(pk=pool.pk)
    other.instant_policy = {"name": "oasis"}
    assert pool_frame(other).batch_cluster is not pool_frame(pool).batch_cluster


@pytest.mark.parametrize("instant", [False, True])
def test_what_batch_plans_hold_is_the_sum_over_the_parts_of_a_server_that_they_plan(instant: bool) -> None:
    pool, _ = make_market("lumen", "castor", "orrin", instant=instant)
    servers, kinds = Server.objects.order_by("pk"), ResourceKind.objects.order_by("pk")
    Server.objects.filter(pk=servers[1].pk).update(state=ServerState.LOST)
    cells = [
        CalendarCell(
            pool=pool, server=server, resource=kind, part=part, slot=slot, capacity=4.0, batch=batch, instant=1.0
        )
        for number, server in enumerate(servers)
        for place, kind in enumerate(kinds)
        for part, more in ((Part.HOME, 0.125), (Part.OPERATOR, 0.25))
        for slot in range(6, 10 + number)
        if (batch := float((slot + place) % 2) * (more + number))
    ]
    CalendarCell.objects.bulk_create(cells)
    frame = pool_frame(Pool.objects.get(pk=pool.pk))
    expected = np.zeros((2, 5, 3))
    for cell in cells:
        if cell.slot >= 7 and (not instant or cell.part == Part.HOME) and cell.server_id != servers[1].pk:
            resource, server = frame.resource_index[cell.resource_id], frame.server_index[cell.server_id]
            expected[resource, cell.slot - 7, server] += cell.batch
    assert expected.any(axis=(0, 1)).tolist() == [True, False, True]
    np.testing.assert_array_equal(_occupied(frame, 7), expected)
    assert _occupied(frame, 99).shape == (2, 0, 3)


def test_calendar_that_names_a_server_which_the_pool_has_not_is_no_calendar_of_it() -> None:
    pool, _ = make_market("lumen", "castor")
    frame, late = pool_frame(pool), make_server(pool, "s00")
    kind = ResourceKind.objects.order_by("pk")[0]
    CalendarCell.objects.create(
        pool=pool, server=late, resource=kind, part=Part.HOME, slot=3, capacity=4.0, batch=1.0, instant=0.0
    )
    with pytest.raises(KeyError, match="the calendar names a server that the pool does not have"):
        _occupied(frame, 2)
