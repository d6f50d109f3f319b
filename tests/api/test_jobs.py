"""Jobs through the interface: the same services as the pages, the same refusals, and the answer says what it costs."""

from __future__ import annotations

import pytest
from django.utils import timezone

from tenants.roles import BILLING, OWNER, SUBMITTER, VIEWER
from tests.api.builders import problem, program_of
from tests.scheduling.builders import make_server
from tests.scheduling.live import SPEC, fund, make_live_pool
from tests.tenants.builders import make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def market():
    """A pool that opened just now, one server of the operator, and a tenant with money."""
    pool = make_live_pool(epoch_at=timezone.now())
    make_server(pool, worker=4, ps=1)
    tenant = make_tenant("lumen")
    fund(tenant)
    return pool, tenant


def body(**fields):
    return {"pool": "main", "name": "train", "lane": "instant", "spec": SPEC} | fields


def test_submission_echoes_lane_price_payer_and_hold(market) -> None:
    _, tenant = market
    reply = program_of(SUBMITTER, tenant).post("tenants/lumen/jobs/", body())
    assert reply.status_code == 201, reply.content
    job = reply.json()
    assert (job["lane"], job["payer"], job["state"]) == ("instant", "lumen", "awarded")
    assert float(job["price"]) > 0
    assert job["hold"] == job["price"]
    assert reply["Location"] == f"/api/v1/tenants/lumen/jobs/{job['id']}/"


def test_a_cancellation_costs_no_more_than_its_call_allows() -> None:
    """The owners keep a part of what a job has reserved. A call that says nothing allows whatever the rule asks for."""
    make_server(make_live_pool(epoch_at=timezone.now(), cancellation_keep_percent=10), worker=4, ps=1)
    tenant = make_tenant("lumen")
    fund(tenant)
    caller = program_of(SUBMITTER, tenant)
    job = caller.post("tenants/lumen/jobs/", body()).json()
    there = f"tenants/lumen/jobs/{job['id']}/cancel/"
    problem(caller.post(there, {"most": "a lot"}), 400, "invalid_request")
    refused = problem(caller.post(there, {"most": "0"}), 409, "costs_more")
    costs = f"{float(job['price']) / 10:.6f}"
    assert refused["numbers"] == {"costs": costs, "most": "0.000000"}
    assert caller.get(f"tenants/lumen/jobs/{job['id']}/").json()["state"] == "awarded"
    assert caller.post(there, {"most": job["price"]}).json()["state"] == "cancelled"
    array = caller.post("tenants/lumen/jobs/arrays/", body(lane="batch", count=2)).json()
    there = f"tenants/lumen/jobs/arrays/{array['id']}/cancel/"
    refused = problem(caller.post(there, {"most": "-0.5"}), 409, "costs_more")  # nothing costs so little
    assert refused["numbers"] == {"costs": "0.000000", "most": "-0.500000"}
    answer = caller.post(there, {"most": "0"}).json()
    assert answer["states"] == {"cancelled": 2}  # those that wait cost nothing


def test_list(market) -> None:
    _, tenant = market
    caller = program_of(SUBMITTER, tenant)
    for _ in range(3):
        assert caller.post("tenants/lumen/jobs/", body(lane="batch")).status_code == 201
    page = caller.get("tenants/lumen/jobs/?limit=2").json()
    assert len(page["results"]) == 2
    assert page["previous"] is None
    second = caller.get(page["next"]).json()
    assert len(second["results"]) == 1
    assert second["next"] is None
    lines = b"".join(caller.get("tenants/lumen/jobs/?format=csv").streaming_content).decode().splitlines()
    assert len(lines) == 4
    quote = caller.post("tenants/lumen/quotes/", body())
    assert quote.status_code == 200, quote.content
    problem(program_of(BILLING, tenant).get("tenants/lumen/jobs/"), 403, "not_allowed")
    problem(program_of(VIEWER, tenant).post("tenants/lumen/jobs/", body()), 403, "not_allowed")
    problem(program_of(OWNER, tenant, ["jobs:read"]).post("tenants/lumen/jobs/", body()), 403, "scope_missing")
    me = caller.get("me/").json()
    print(me)
