"""Operators change the cluster: done with a line in the history, or refused with numbers and nothing done."""

from __future__ import annotations

import pytest
from django.db import connection

from scheduling.audit.verification.settings import settings_verify
from scheduling.cluster import pool_overview
from scheduling.models import Cell, Lane, Pool, Server, ServerCapacity
from scheduling.operator.cells import AboveCapacity, cells_change_of_tenant, cells_change_on_server
from scheduling.operator.pools import InvalidPolicy, PoolTerms, pool_create
from scheduling.operator.servers import BelowCells, server_add, server_capacity_change
from tenants import history
from tenants.access import Access, Refused, access_of_system
from tenants.models import AuditEntry
from tenants.roles import ROLES_ALLOWED, Permission
from tenants.scoping import ScopeClosed, scope, scope_disabled
from tests.api.builders import program_of
from tests.database import without_triggers
from tests.scheduling.builders import NOON, make_cells, make_pool, make_server, make_tenant, tenant_quota
from tests.tenants.test_members import in_threads

pytestmark = pytest.mark.django_db

OPERATOR = access_of_system("test")
CHANGE = {"by": OPERATOR, "reason": "new rack", "at": NOON}
POOL = {
    "slug": "main",
    "name": "Main",
    "slot_seconds": 10,
    "clock_first": 1,
    "clock_cap": 8,
    "clock_restart": True,
    "batch_policy": {"name": "astraea"},
    "instant_policy": None,
    "resources": {"worker": "worker", "ps": "parameter server"},
    "epoch_at": NOON,
}


def cells_of(server: Server) -> dict[str, dict[str, int]]:
    """tenant slug -> resource -> units, as stored."""
    connection.check_constraints()  # whatever waits for the commit is asked now
    units: dict[str, dict[str, int]] = {}
    with scope_disabled("the test looks at all owners"):
        for cell in Cell.objects.filter(server=server).select_related("tenant", "resource"):
            units.setdefault(cell.tenant.slug, {})[cell.resource.name] = cell.units
    return units


def entries(action: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action=action).order_by("sequence"))


def test_creates_a_pool_with_its_resources_in_order_and_remembers_it() -> None:
    pool = pool_create(terms=PoolTerms(**POOL), **CHANGE)
    assert isinstance(pool, Pool)
    assert [kind.name for kind in pool.resources.all()] == ["worker", "ps"]
    (entry,) = entries("pool_create")
    assert (entry.reason, entry.after["slot_seconds"], entry.after["resources"]) == ("new rack", 10, ["worker", "ps"])


@pytest.mark.parametrize(
    ("policy", "plan"),
    [
        ({"name": "astraea"}, "renew"),
        ({"name": "astraea", "mode": "paper"}, "keep"),
        ({"name": "astraea", "floor": False}, "keep"),
        ({"name": "srtf", "workers": 1}, "keep"),
    ],
    ids=str,
)
def test_a_new_pool_that_gives_floors_has_plans_renewed_for_those_who_say_nothing(policy: object, plan: str) -> None:
    clock = {"clock_first": 1, "clock_cap": 1}
    pool = pool_create(terms=PoolTerms(**(POOL | clock | {"batch_policy": policy, "instant_policy": None})), **CHANGE)
    assert isinstance(pool, Pool), pool
    (entry,) = entries("pool_create")
    assert (pool.usual_plan, entry.after["usual_plan"]) == (plan, plan)


def test_a_pool_made_by_a_version_without_usual_plans_has_places_kept() -> None:
    pool = pool_create(terms=PoolTerms(**POOL), **CHANGE)
    assert isinstance(pool, Pool)
    with without_triggers():  # its entry as an older version wrote it
        AuditEntry.objects.update(after={k: v for k, v in entries("pool_create")[0].after.items() if k != "usual_plan"})
        assert ["usual_plan" in finding.what for finding in settings_verify()] == [True]
        Pool.objects.update(usual_plan="keep")
        assert settings_verify() == []


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("invalid_pool", {"slug": "Main pool"}),
        ("invalid_pool", {"name": " \u200b "}),
        ("invalid_pool", {"name": "Main \u202eloop"}),
        ("invalid_resource", {"resources": {"worker": "\u3164"}}),
        ("invalid_resource", {"resources": {"worker": "a\u202eb"}}),
        ("invalid_pool", {"slot_seconds": 0}),
        ("invalid_pool", {"clock_cap": 0}),
        ("invalid_pool", {"batch_policy": {}}),
        ("invalid_pool", {"batch_policy": {"name": "fifo"}}),
        ("invalid_pool", {"batch_policy": {"name": "astraea", "theta": {"worker": 1}}}),
        ("invalid_pool", {"batch_policy": {"name": "astraea", "price_floor": {"gpu": 1}}}),
        ("invalid_pool", {"batch_policy": {"name": "astraea", "mode": "paper", "parts": "nothing"}}),
        ("invalid_pool", {"batch_policy": {"name": "astraea", "mode": "guarantee", "parts": "half"}}),
        ("invalid_pool", {"instant_policy": {"name": 7}}),
        ("invalid_pool", {"instant_policy": {"name": "astraea"}}),
        ("invalid_pool", {"instant_policy": {"name": "oasis", "prices": 1}}),
        ("invalid_pool", {"instant_policy": {"name": "oasis", "worker_price": {"floor": 3, "ceiling": {"worker": 2}}}}),
        ("invalid_pool", {"instant_policy": {"name": "pdors", "price": {"floor": 1, "ceiling": {"gpu": 2}}}}),
        ("invalid_pool", {"resources": {}}),
        ("invalid_resource", {"resources": {"Worker 1": "worker"}}),
    ],
)
def test_refuses_an_impossible_pool(code: str, change: dict[str, object]) -> None:
    refusal = pool_create(terms=PoolTerms(**(POOL | change)), **CHANGE)
    assert isinstance(refusal, Refused)
    assert refusal.code == code
    assert not Pool.objects.exists()


def test_refusal_of_a_policy_says_of_which_lane_and_what_is_wrong() -> None:
    refusal = pool_create(terms=PoolTerms(**(POOL | {"instant_policy": {"name": "oasis", "units": "hours"}})), **CHANGE)
    assert isinstance(refusal, InvalidPolicy)
    assert (refusal.lane, refusal.sentence) == (
        Lane.INSTANT,
        'policy.units: must be one of worker_slots, chunks, not "hours".',
    )


def test_parts_are_worth_nothing_only_where_what_is_saved_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.operator.pools.engine_flaw", lambda name, seconds: None)  # there is such a cluster
    nothing = {"name": "astraea", "mode": "guarantee", "parts": "nothing"}
    refusal = pool_create(terms=PoolTerms(**(POOL | {"batch_policy": nothing, "engine": "dgx"})), **CHANGE)
    assert isinstance(refusal, InvalidPolicy)
    assert (refusal.lane, refusal.sentence) == (
        Lane.BATCH,
        'policy.parts: "nothing" needs the engine of this machine, for what is saved of a job that expires is deleted; '
        "on a cluster that belongs to the tenants' accounts.",
    )
    prorated = POOL | {"slug": "other", "batch_policy": nothing | {"parts": "prorated"}, "engine": "dgx"}
    assert isinstance(pool_create(terms=PoolTerms(**prorated), **CHANGE), Pool)
    pool = pool_create(terms=PoolTerms(**(POOL | {"batch_policy": nothing})), **CHANGE)
    assert isinstance(pool, Pool)
    assert pool.batch_policy["parts"] == "nothing"


def test_constants_of_a_pools_policy_are_fixed_when_it_is_created() -> None:
    policy = {"name": "astraea", "theta": {"ps": 8.0}, "price_floor": {"ps": 0.5}}
    pool = pool_create(terms=PoolTerms(**(POOL | {"batch_policy": policy})), **CHANGE)
    assert isinstance(pool, Pool)
    assert pool.batch_policy == {
        "name": "astraea",
        "mode": "guarantee",
        "theta": {"worker": 2.0, "ps": 8.0},
        "price_floor": {"worker": 0.01, "ps": 0.5},
    }


def test_refuses_a_pool_whose_name_is_taken() -> None:
    make_pool("main")
    refusal = pool_create(terms=PoolTerms(**POOL), **CHANGE)
    assert isinstance(refusal, Refused)
    assert refusal.code == "invalid_pool"


@pytest.mark.django_db(transaction=True)
def test_of_pools_that_are_made_at_once_under_one_name_there_is_one() -> None:
    outcomes = in_threads(*[lambda: pool_create(terms=PoolTerms(**POOL), **CHANGE)] * 4)
    assert sum(isinstance(each, Pool) for each in outcomes) == 1
    assert {each.sentence for each in outcomes if isinstance(each, Refused)} == {"There is such a pool already."}
    assert len(entries("pool_create")) == 1


def test_adds_a_server_with_its_capacity() -> None:
    pool = make_pool()
    server = server_add(pool=pool, name="s01", capacity={"worker": 8, "ps": 2}, **CHANGE)
    assert isinstance(server, Server)
    assert {row.resource.name: row.units for row in server.capacities.all()} == {"worker": 8, "ps": 2}
    assert entries("server_add")[0].after["capacity"] == {"worker": 8, "ps": 2}


def test_server_is_called_as_its_cluster_calls_it() -> None:
    pool, operator = make_pool(slug="cluster"), program_of("operator", make_tenant())
    for name in ("GPU-A01", "node_1", "n1.cluster.example", "gpu--7"):
        assert isinstance(server_add(pool=pool, name=name, capacity={"worker": 1}, **CHANGE), Server)
        assert operator.get(f"/api/v1/pools/cluster/servers/{name}/").json()["name"] == name


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("invalid_server", {"name": "s 01"}),
        ("invalid_server", {"name": ".."}),
        ("invalid_server", {"name": "s/01"}),
        ("invalid_server", {"name": "taken"}),
        ("invalid_server", {"hosts_workers": False, "hosts_ps": False}),
        ("unknown_resource", {"capacity": {"gpu": 1}}),
        ("invalid_units", {"capacity": {"worker": -1}}),
        ("invalid_units", {"capacity": {"worker": 2**31}}),
    ],
)
def test_refuses_an_impossible_server(code: str, change: dict[str, object]) -> None:
    pool = make_pool()
    make_server(pool, "taken")
    refusal = server_add(**({"pool": pool, "name": "s01", "capacity": {"worker": 8}} | change | CHANGE))
    assert isinstance(refusal, Refused)
    assert refusal.code == code
    assert Server.objects.count() == 1


def test_changes_a_capacity_down_to_its_cells_and_refuses_below() -> None:
    server = make_server(make_pool(), worker=8, ps=2)
    make_cells(server, make_tenant(), {"worker": 5})
    refusal = server_capacity_change(server=server, capacity={"worker": 4}, **CHANGE)
    assert isinstance(refusal, BelowCells)
    assert (refusal.server, refusal.resource, refusal.asked, refusal.cells) == ("s01", "worker", 4, 5)
    assert server_capacity_change(server=server, capacity={"worker": 5}, **CHANGE) is None
    assert set(ServerCapacity.objects.values_list("units", flat=True)) == {5, 2}
    (entry,) = entries("server_capacity_change")
    assert (entry.before, entry.after) == ({"worker": 8, "ps": 2}, {"worker": 5, "ps": 2})


def test_replaces_all_cells_of_a_server_and_tells_each_owner_what_changed_for_it() -> None:
    server = make_server(make_pool(), worker=8, ps=2)
    lumen, castor, tarn = make_tenant("lumen"), make_tenant("castor"), make_tenant("tarn")
    make_cells(server, lumen, {"worker": 6, "ps": 2})
    make_cells(server, castor, {"worker": 2})
    wanted = {"lumen": {"worker": 3}, "castor": {"worker": 2}, "tarn": {"worker": 3, "ps": 2}}
    changes = cells_change_on_server(server=server, cells=wanted, **CHANGE)
    assert cells_of(server) == wanted
    assert [change.tenant for change in changes] == [lumen, tarn]
    changes_by_owner = {entry.tenant_id: (entry.before, entry.after, entry.reason) for entry in entries("cells_change")}
    assert changes_by_owner == {
        lumen.pk: ({"s01": {"worker": 6, "ps": 2}}, {"s01": {"worker": 3}}, "new rack"),
        tarn.pk: ({}, {"s01": {"worker": 3, "ps": 2}}, "new rack"),
    }
    assert isinstance(history.verify(), history.VerifiedHistory)


def test_replaces_all_cells_of_a_tenant_in_one_pool_and_no_others() -> None:
    pool, other = make_pool(), make_pool("other")
    first, second, elsewhere = make_server(pool, "s01"), make_server(pool, "s02"), make_server(other, "s01")
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    make_cells(first, lumen, {"worker": 4})
    make_cells(second, castor, {"worker": 4})
    make_cells(elsewhere, lumen, {"worker": 1})
    cells_change_of_tenant(pool=pool, tenant=lumen, cells={"s02": {"worker": 4, "ps": 0}}, **CHANGE)
    assert cells_of(first) == {}
    assert cells_of(second) == {"castor": {"worker": 4}, "lumen": {"worker": 4}}
    assert cells_of(elsewhere) == {"lumen": {"worker": 1}}


def test_refuses_cells_above_capacity_with_the_numbers_and_changes_nothing() -> None:
    server = make_server(make_pool(), worker=8)
    make_cells(server, make_tenant("lumen"), {"worker": 6})
    tarn = make_tenant("tarn")
    refusal = cells_change_of_tenant(pool=server.pool, tenant=tarn, cells={"s01": {"ps": 1, "worker": 3}}, **CHANGE)
    assert isinstance(refusal, AboveCapacity)
    assert (refusal.server, refusal.resource, refusal.asked, refusal.capacity) == ("s01", "worker", 9, 8)
    assert refusal.sentence == "s01 has 8 units of worker; the cells would take 9."
    assert cells_of(server) == {"lumen": {"worker": 6}}
    assert not entries("cells_change")


def test_changes_nothing_and_writes_nothing_when_the_cells_are_the_same() -> None:
    server = make_server(make_pool())
    make_cells(server, make_tenant(), {"worker": 6})
    assert cells_change_on_server(server=server, cells={"lumen": {"worker": 6}}, **CHANGE) == []
    assert not entries("cells_change")


@pytest.mark.parametrize(
    ("code", "cells"),
    [
        ("unknown_tenant", {"nobody": {"worker": 1}}),
        ("unknown_resource", {"lumen": {"gpu": 1}}),
        ("invalid_units", {"lumen": {"worker": -1}}),
    ],
)
def test_refuses_cells_that_make_no_sense(code: str, cells: dict[str, dict[str, int]]) -> None:
    server = make_server(make_pool())
    make_cells(server, make_tenant("lumen"), {"worker": 6})
    refusal = cells_change_on_server(server=server, cells=cells, **CHANGE)
    assert isinstance(refusal, Refused)
    assert refusal.code == code
    assert cells_of(server) == {"lumen": {"worker": 6}}


def test_refuses_cells_on_a_server_of_another_pool() -> None:
    pool, other = make_pool(), make_pool("other")
    make_server(other, "s09")
    refusal = cells_change_of_tenant(pool=pool, tenant=make_tenant(), cells={"s09": {"worker": 1}}, **CHANGE)
    assert isinstance(refusal, Refused)
    assert refusal.code == "unknown_server"


ROLES = sorted(set().union(*ROLES_ALLOWED.values()))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("use_case", ["pool", "server", "capacity", "cells_on", "cells_of"])
def test_lets_only_operators_change_the_cluster_and_only_with_a_reason(use_case: str, role: str) -> None:
    server, tenant = make_server(make_pool("other")), make_tenant()

    def ask(reason: str) -> object:
        change = {"by": Access(None, tenant, frozenset({role}), "test"), "reason": reason, "at": NOON}
        match use_case:
            case "pool":
                return pool_create(terms=PoolTerms(**POOL), **change)
            case "server":
                return server_add(pool=server.pool, name="s02", capacity={}, **change)
            case "capacity":
                return server_capacity_change(server=server, capacity={"worker": 9}, **change)
            case "cells_on":
                return cells_change_on_server(server=server, cells={"lumen": {"ps": 1}}, **change)
            case _:
                cells = {"s01": {"ps": 2}}
                return cells_change_of_tenant(pool=server.pool, tenant=tenant, cells=cells, **change)

    if role in ROLES_ALLOWED[Permission.CLUSTER_CHANGE]:
        assert ask(" ").code == "reason_missing"
        assert not isinstance(ask("new rack"), Refused)
    else:
        assert ask("new rack").code == "not_allowed"
        assert not AuditEntry.objects.exists()


def test_quota_is_the_sum_of_the_cells_in_that_pool() -> None:
    pool, other = make_pool(), make_pool("other")
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    first, second = make_server(pool, "s01"), make_server(pool, "s02")
    make_cells(first, lumen, {"worker": 3, "ps": 1})
    make_cells(second, lumen, {"worker": 4})
    make_cells(second, castor, {"worker": 4})
    make_cells(make_server(other), lumen, {"worker": 8})
    with scope(lumen):
        assert tenant_quota(lumen, pool) == {"worker": 7, "ps": 1}
    with scope(castor):
        assert tenant_quota(castor, pool) == {"worker": 4, "ps": 0}
        assert tenant_quota(lumen, pool) == {"worker": 0, "ps": 0}  # another's scope shows nothing


def test_quota_outside_a_scope_is_an_error() -> None:
    pool, lumen = make_pool(), make_tenant()
    with pytest.raises(ScopeClosed):
        tenant_quota(lumen, pool)


def test_overview_gives_what_no_cell_covers_to_the_operator() -> None:
    pool = make_pool()
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    first = make_server(pool, "s01", worker=8, ps=2)
    make_server(pool, "s02", worker=4, ps=0)
    make_cells(first, lumen, {"worker": 3})
    make_cells(first, castor, {"worker": 4, "ps": 2})
    overview = pool_overview(pool)
    workers, ps = overview.totals
    assert (workers.units, workers.operator_units, workers.units_by_tenant) == (12, 5, {lumen.pk: 3, castor.pk: 4})
    assert (ps.units, ps.operator_units, ps.units_by_tenant) == (2, 0, {castor.pk: 2})
    assert [(cell.name, cell.units) for cell in overview.servers[0].capacities[0].cells] == [
        ("Castor", 4),
        ("Lumen", 3),
    ]


def test_overview_asks_the_same_number_of_queries_for_one_server_and_for_twenty(django_assert_num_queries) -> None:
    pool, tenant = make_pool(), make_tenant()
    make_cells(make_server(pool, "s01"), tenant, {"worker": 1})
    with django_assert_num_queries(2):
        pool_overview(pool)
    for number in range(2, 21):
        make_cells(make_server(pool, f"s{number:02}"), tenant, {"worker": 1})
    with django_assert_num_queries(2):
        pool_overview(pool)
