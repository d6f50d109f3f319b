"""What operators change through the interface: each rule's refusal with its figures, and nothing paid twice."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.jobs.api import jobs as jobs_api
from scheduling.models import Pool, TrainingJob
from tenants.models import AuditEntry, Tenant
from tenants.roles import OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tests.api.builders import Program, problem, program_of
from tests.api.rows_market import new_pool
from tests.database import as_superuser
from tests.scheduling.builders import make_cells, make_server
from tests.scheduling.live import SPEC, fund, make_live_pool, money
from tests.tenants.builders import make_tenant

pytestmark = pytest.mark.django_db
WHY = {"reason": "As agreed."}
POOL = "pools/main/"


@pytest.fixture
def cluster() -> tuple[Pool, Tenant, Program]:
    """A server of 8 workers and 2 parameter servers, of which lumen has 3 and 1; and an operator's program."""
    pool, tenant = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    make_cells(make_server(pool, "s01"), tenant, {"worker": 3, "ps": 1})
    return pool, tenant, program_of(OPERATOR, tenant)


def test_cells_above_the_capacity_are_refused_with_the_figures(cluster) -> None:
    make_tenant("quarry")
    body = WHY | {"cells": {"lumen": {"worker": 5}, "quarry": {"worker": 4}}}
    document = problem(cluster[2].put(f"{POOL}servers/s01/cells/", body), 409, "above_capacity")
    assert document["numbers"] == {"server": "s01", "resource": "worker", "asked": 9, "capacity": 8}
    assert cluster[2].get(f"{POOL}cells/?tenant=lumen").json()["results"][0]["units"] == 3


def test_cells_are_replaced_and_the_change_is_in_the_history_with_its_reason(cluster) -> None:
    body = WHY | {"cells": {"s01": {"worker": 5}}}
    results = cluster[2].put(f"{POOL}cells/lumen/", body).json()["results"]
    before, after = {"s01": {"worker": 3, "ps": 1}}, {"s01": {"worker": 5}}
    assert results == [{"tenant": "lumen", "before": before, "after": after}]
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.reason, entry.after) == ("cells_change", "As agreed.", after)
    server = program_of(VIEWER, make_tenant("other")).get(f"{POOL}servers/s01/").json()
    assert server["capacities"][0]["cells"] == [{"tenant": "lumen", "units": 5}]
    assert server["capacities"][0]["operator_units"] == 3


@pytest.mark.parametrize(
    ("address", "body", "status", "code"),
    [
        ("servers/s01/cells/", {"cells": {"nobody": {"worker": 1}}}, 422, "unknown_tenant"),
        ("servers/s01/cells/", {"cells": {"lumen": {"gpu": 1}}}, 422, "unknown_resource"),
        ("servers/s01/cells/", {"cells": {"lumen": {"worker": -1}}}, 400, "invalid_request"),
        ("servers/s01/cells/", {"cells": {"lumen": {"worker": "1"}}}, 400, "invalid_request"),
        ("servers/s01/cells/", {"cells": {"lumen": 1}}, 400, "invalid_request"),
        ("servers/s01/cells/", {"cells": {f"t{n}": {} for n in range(1001)}}, 400, "invalid_request"),
        ("servers/s77/cells/", {"cells": {}}, 404, "not_found"),
        ("cells/lumen/", {"cells": {"s77": {"worker": 1}}}, 422, "unknown_server"),
        ("cells/nobody/", {"cells": {}}, 404, "not_found"),
    ],
)
def test_cells_that_cannot_be_are_refused(cluster, address: str, body: Any, status: int, code: str) -> None:
    problem(cluster[2].put(POOL + address, WHY | body), status, code)


def test_capacity_below_the_cells_and_a_wrong_state_are_refused(cluster) -> None:
    _, _, operator = cluster
    document = problem(
        operator.post(f"{POOL}servers/s01/capacity/", WHY | {"capacity": {"worker": 2}}), 409, "below_cells"
    )
    assert document["numbers"] == {"server": "s01", "resource": "worker", "asked": 2, "cells": 3}
    problem(operator.post(f"{POOL}servers/s01/return/", WHY), 409, "wrong_state")
    assert operator.post(f"{POOL}servers/s01/drain/", WHY).json()["state"] == "draining"
    lost = operator.post(f"{POOL}servers/s01/lose/", WHY).json()
    assert (lost["server"]["state"], lost["awards"], lost["refunded"]) == ("lost", 0, "0.000000")
    problem(operator.post(f"{POOL}servers/s01/lose/", WHY), 409, "already_lost")
    assert operator.post(f"{POOL}servers/s01/return/", WHY).json()["state"] == "in_service"


@pytest.mark.parametrize("reason", [None, "", "x" * 301, 7])
def test_change_without_a_reason_is_no_change(cluster, reason: Any) -> None:
    _, _, operator = cluster
    body = {} if reason is None else {"reason": reason}
    for address in (f"{POOL}hold/", f"{POOL}servers/s01/drain/"):
        assert operator.post(address, body).status_code == 400
    problem(operator.post(f"{POOL}hold/", {"reason": "  "}), 422, "reason_missing")
    assert operator.get(POOL).json()["state"] == "open"


def test_pool_is_held_drained_and_resumed(cluster) -> None:
    operator = cluster[2]
    states = [operator.post(f"{POOL}{verb}/", WHY).json()["state"] for verb in ("hold", "drain", "drain", "resume")]
    assert states == ["held", "draining", "draining", "open"]


def test_pool_is_made_with_what_was_asked_for(cluster) -> None:
    operator = cluster[2]
    settings = {"outage_grace_seconds": None, "instant_share_percent": 40, "instant_cooling_slots": 7}
    reply = operator.post("pools/", {**new_pool({}), **settings})
    assert (reply.status_code, reply["Location"]) == (201, "/api/v1/pools/second/")
    body = operator.get("pools/second/").json()
    assert {name: body[name] for name in settings} == settings
    assert [row["name"] for row in body["resources"]] == ["worker", "ps"]
    assert [pool["slug"] for pool in operator.get("pools/").json()["results"]] == ["main", "second"]
    problem(operator.post("pools/", new_pool({})), 422, "invalid_pool")
    twice = {"resources": [{"name": "worker", "label": "one"}] * 2, "slug": "third"}
    problem(operator.post("pools/", {**new_pool({}), **twice}), 422, "invalid_pool")


def test_same_payment_is_paid_once_whatever_the_headers_say(cluster) -> None:
    _, tenant, operator = cluster
    body = WHY | {"amount": "12.5", "key": "invoice-7"}
    address = "tenants/lumen/credits/grant/"
    replies = [operator.post(address, body, key=key).json() for key in ("a", "b", "a")]
    assert [reply["repeated"] for reply in replies] == [False, True, False]
    assert money(tenant) == (12_500_000, 0, 0)
    problem(operator.post(address, body | {"amount": "13"}), 409, "key_reused")
    problem(operator.post(address, body | {"key": "an invoice"}), 400, "invalid_request")
    problem(operator.post(address, body | {"key": "k", "amount": "-1"}), 422, "invalid_amount")


def test_withdrawal_beyond_the_funds_says_what_is_left(cluster) -> None:
    _, tenant, operator = cluster
    fund(tenant, 10)
    address = "tenants/lumen/credits/withdraw/"
    document = problem(operator.post(address, WHY | {"amount": "10.000001", "key": "p1"}), 409, "beyond_funds")
    assert document["numbers"] == {"asked": "10.000001", "left": "10.000000"}
    assert operator.post(address, WHY | {"amount": "10", "key": "p1"}).json()["amount"] == "10.000000"
    assert money(tenant) == (0, 0, 0)


def test_sharing_is_replaced_whole_and_is_the_tenants_own(cluster) -> None:
    _, tenant, _ = cluster
    owner, other = program_of(OWNER, tenant), program_of(OWNER, make_tenant("quarry"))
    address = "tenants/{}/pools/main/sharing/"
    usual = {
        "rent": "auto",
        "budget": None,
        "budget_period": "month",
        "lend": "lend",
        "plan": "keep",
        "reserve_price": {},
    }
    assert owner.get(address.format("lumen")).json() == usual
    wanted = usual | {"rent": "budget", "budget": "2.500000", "reserve_price": {"worker": "0.050000"}}
    assert owner.put(address.format("lumen"), wanted).json() == wanted
    assert owner.get(address.format("lumen")).json() == wanted
    assert other.get(address.format("quarry")).json() == usual
    assert owner.put(address.format("lumen"), {"rent": "auto", "lend": "lend"}).json() == usual
    problem(owner.put(address.format("lumen"), {"rent": "budget", "lend": "lend"}), 422, "invalid_sharing")
    problem(owner.put(address.format("lumen"), usual | {"reserve_price": {"gpu": "1"}}), 422, "invalid_sharing")


def submission(**fields: Any) -> dict[str, Any]:
    return {"pool": "main", "name": "train", "lane": "instant", "spec": SPEC} | fields


def test_job_that_is_not_taken_at_once_waits_if_it_was_asked_to(cluster) -> None:
    _, tenant, _ = cluster  # without money: nothing can be rented
    caller = program_of(SUBMITTER, tenant)
    refused = caller.post("tenants/lumen/jobs/", submission()).json()
    assert refused["state"] == "rejected"
    replies = [caller.post("tenants/lumen/jobs/", submission(otherwise="batch"), key="k") for _ in range(2)]
    waiting = replies[0].json()
    assert (replies[0].status_code, waiting["lane"], waiting["state"]) == (201, "batch", "queued")
    assert (replies[1]["Idempotent-Replay"], replies[1].json()["id"]) == ("true", waiting["id"])
    with scope(tenant):
        assert TrainingJob.objects.count() == 2
    problem(caller.post("tenants/lumen/jobs/", submission(lane="batch", otherwise="batch")), 422, "invalid_job")
    problem(caller.post("tenants/lumen/jobs/", submission(otherwise="instant")), 400, "invalid_request")


def test_job_that_cools_is_refused_with_the_time(cluster) -> None:
    pool, tenant, _ = cluster
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(instant_cooling_slots=6)
    caller = program_of(SUBMITTER, tenant)
    assert caller.post("tenants/lumen/jobs/", submission()).json()["state"] == "rejected"
    document = problem(caller.post("tenants/lumen/jobs/", submission()), 409, "cooling")
    assert document["numbers"]["slots"] == 6
    assert document["numbers"]["until"].endswith("Z")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("fields", "one"), [({}, True), ({"otherwise": "batch"}, False)])
def test_only_a_submission_to_one_lane_is_one_transaction(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], one: bool
) -> None:
    """Else the instant lane's lock would be held while the batch lane's is waited for."""
    make_live_pool(epoch_at=timezone.now())
    caller, submit, transactions = program_of(SUBMITTER, make_tenant("lumen")), jobs_api.job_submit, []

    def watched(**settings: Any) -> Any:
        transactions.append(connection.in_atomic_block)
        return submit(**settings)

    monkeypatch.setattr(jobs_api, "job_submit", watched)
    assert caller.post("tenants/lumen/jobs/", submission(**fields), key="k").status_code == 201
    assert transactions == [one]
