"""The pool as the core sees it."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from scheduling.core.scenario import BadScenario
from scheduling.models import ServerState, TenantPolicy
from scheduling.snapshots.frame import pool_frame
from scheduling.snapshots.jobs import JobReader, arrival_of
from tenants.scoping import scope
from tests.scheduling.builders import NOON, make_cells, make_pool, make_server, make_tenant

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
    server.save()
    frame = pool_frame(pool)
    assert not frame.cluster.capacity.any()
    assert not frame.cells.any()


def test_draining_server_keeps_its_units_and_hosts_nothing_new() -> None:
    pool = make_pool()
    server = make_server(pool)
    server.state = ServerState.DRAINING
    server.save()
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
    (found,) = pool_frame(pool).cluster.tenants
    assert (found.rent, found.budget, found.lend) == ("budget", 2.5, "keep")
    assert found.reserve_price.tolist() == [0.0, 0.5]


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
