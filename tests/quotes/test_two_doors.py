"""A job comes by the page's form or through the interface. One service answers both, and the outcome is the same."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from scheduling.jobs.submission import Submitted, job_submit
from scheduling.models import Award, Budget, Event, Lane, LaneClock, Pool, StartEstimate, TrainingJob
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope, scope_disabled
from tenants.selectors import access_of
from tests.api.builders import Program, program
from tests.codes import modules
from tests.database import as_superuser, undone
from tests.market.test_servers_page import make_person
from tests.quotes.test_submit_page import FIELDS
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import fund, make_live_pool, money
from tests.scheduling.pages import client_of

pytestmark = pytest.mark.django_db

# What the form of `FIELDS` means.
SPEC: dict[str, Any] = {
    "epochs": 2,
    "chunks": 4,
    "minibatch_seconds": 10.0,
    "max_workers": 4,
    "worker_mbps": 1.0,
    "ps_mbps": 4.0,
    "worker_demand": {"worker": 1.0},
    "ps_demand": {"ps": 1.0},
}
WANTED = {"batch": ("batch", None), "instant": ("instant", None), "either": ("instant", "batch")}
STATES = ("open", "closed", "held", "draining", "early")
KEY, OTHER_NAME = "b" * 32, "another"

Outcome = Mapping[str, Any]


def spec(worth: float) -> dict[str, Any]:
    return SPEC | {"value": {"kind": "linear", "base": worth, "slope": -1.0}}


class World:
    """A pool with eight workers for sale in both lanes, a tenant with credits, and a person who comes by two doors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = timezone.now()
        monkeypatch.setattr(timezone, "now", lambda: self.now)
        self.pool = make_live_pool(epoch_at=self.now - timedelta(seconds=95))
        self.tenant = make_tenant("lumen")
        make_server(self.pool, "s01", worker=8, ps=2)
        fund(self.tenant)
        self.user = make_person(SUBMITTER, self.tenant)
        self.doors = {"page": Page(client_of(self.user)), "interface": Interface(program(self.user, self.tenant))}

    def becomes(self, state: str, *, cooling: bool, budget: bool, worth: float) -> None:
        pool, tenant = self.pool, self.tenant
        if cooling:
            self._refused_before(worth)
        changes: dict[str, dict[str, Any]] = {
            "closed": {"instant_policy": None},
            "early": {"epoch_at": self.now + timedelta(hours=1)},
        }
        with as_superuser():
            Pool.objects.filter(pk=pool.pk).update(instant_cooling_slots=9 * cooling, **changes.get(state, {}))
        if state in ("held", "draining"):
            for lane in Lane.values:
                fields = {"held": state == "held", "draining": state == "draining"}
                LaneClock.objects.update_or_create(pool=pool, lane=lane, defaults=fields)
        if budget:
            with scope(tenant):
                Budget.objects.create(tenant=tenant, member=None, period="month", hard_limit=0)

    def _refused_before(self, worth: float) -> None:
        """The same job, said to be worth less than any price."""
        terms = spec(worth) | {"max_price": 0.000001}
        by = access_of(self.user, self.tenant)
        answer = job_submit(pool=self.pool, name="vision", spec=terms, lane="instant", by=by, at=self.now)
        assert isinstance(answer, Submitted)
        assert answer.job.state == "rejected"


class Page:
    """The form, as a browser sends it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def quote(self, wanted: str, worth: float) -> Outcome:
        card = self._send("quote/", wanted, worth, "vision").context["card"]
        if card.refused:
            return {"refused": card.refused.sentence}
        return {lane.lane: (lane.admitted, lane.price, lane.reason) for lane in card.lanes if lane.is_chosen}

    def submit(self, wanted: str, worth: float, name: str) -> Outcome:
        reply = self._send("", wanted, worth, name)
        if reply.status_code == 302:
            return {"job": int(reply["Location"].rstrip("/").rpartition("/")[2])}
        (sentence,) = [str(error) for errors in reply.context["form"].errors.values() for error in errors]
        return {"refused": sentence}

    def _send(self, where: str, wanted: str, worth: float, name: str) -> Any:
        fields = {"name": name, "wanted": wanted, "worth": str(worth), "key": KEY}
        return self.client.post(f"/t/lumen/submit/{where}", FIELDS | fields, secure=True)


class Interface:
    """The same as a program asks it."""

    def __init__(self, caller: Program) -> None:
        self.caller = caller

    def quote(self, wanted: str, worth: float) -> Outcome:
        """Of each lane that is asked for. A page that could be sent to no lane says so once."""
        body = {"pool": "main", "name": "vision", "spec": spec(worth)}
        lanes = [lane for lane in ("batch", "instant") if lane in WANTED[wanted]]
        answers = {
            lane: self.caller.post("tenants/lumen/quotes/", body | {"lane": lane}).json()
            for lane in ("batch", "instant")
        }
        if all("detail" in answer for answer in answers.values()):
            return {"refused": answers[lanes[0]]["detail"]}
        return {lane: self._terms(answers[lane]) for lane in lanes}

    def _terms(self, answer: Mapping[str, Any]) -> tuple[bool, int, str]:
        if "detail" in answer:
            return False, 0, answer["detail"]
        terms = answer["terms"]
        sentence = terms["reason"]["sentence"] if terms["reason"] else ""
        return terms["admitted"], round(Decimal(terms["price"]) * 1_000_000), sentence

    def submit(self, wanted: str, worth: float, name: str) -> Outcome:
        lane, otherwise = WANTED[wanted]
        body = {"pool": "main", "name": name, "lane": lane, "spec": spec(worth)}
        reply = self.caller.post("tenants/lumen/jobs/", body | ({"otherwise": otherwise} if otherwise else {}), key=KEY)
        answer = reply.json()
        return {"job": answer["id"]} if reply.status_code == 201 else {"refused": answer["detail"]}


# Of events: numbers of rows, and digests over them.
NUMBERS = ("job", "award", "digest", "answer")


def stands(tenant: Tenant) -> Outcome:
    """All that a submission may write, without the numbers that differ from one try to the next."""
    with scope_disabled("the test looks at everything"):
        jobs = list(TrainingJob.objects.order_by("pk"))
        names = {job.pk: f"job {place}" for place, job in enumerate(jobs)}
        plain = ("name", "lane", "state", "spec", "arrival", "submitted_at", "submitted_by_id", "ended_at", "attempt")
        return {
            "jobs": [
                {field: getattr(job, field) for field in plain} | {"reason": (job.reason_code, job.reason_numbers)}
                for job in jobs
            ],
            "awards": [
                (names[award.job_id], award.state, award.start, award.end, award.workers, award.paid, award.allocation)
                for award in Award.objects.order_by("pk")
            ],
            "estimates": [
                (names[row.job_id], row.earliest, row.latest, row.price_low, row.price_high)
                for row in StartEstimate.objects.order_by("pk")
            ],
            "events": [
                (row.kind, {name: value for name, value in row.data.items() if name not in NUMBERS})
                for row in Event.objects.order_by("pk")
            ],
            "money": money(tenant),
        }


# The one thing that the doors say differently: a person who sends a form knows nothing of keys.
OTHER_CONTENTS = (
    "This form was sent before with other contents. Send it again to submit a second job.",
    "This Idempotency-Key was used for another request. Take a new one.",
)


def outcome(world: World, door: Any, wanted: str, worth: float, *, quoted: bool) -> Outcome:
    """A quote and then the submission; or the submission, the same again, and another one under its key."""
    if quoted:
        quote = door.quote(wanted, worth)
        return {"quote": quote, "refused": door.submit(wanted, worth, "vision").get("refused")} | stands(world.tenant)
    before = stands(world.tenant)
    first = door.submit(wanted, worth, "vision")
    once = stands(world.tenant)
    second = door.submit(wanted, worth, "vision")
    twice = stands(world.tenant)
    third = door.submit(wanted, worth, OTHER_NAME)
    if "job" in first:
        assert second == first, "sent again it is the same job"
        assert twice == once
        assert third["refused"] in OTHER_CONTENTS
    else:
        assert second == first
        assert once == twice == before
    return {"refused": first.get("refused")} | once


REFUSED = BUDGET, COOLS, CLOSED, HELD, REST, OPENS = (
    "budget",
    "at this job again",
    "no instant",
    "hold",
    "rest",
    "opens at",
)
MET = {
    ("batch", "open"): {BUDGET, "batch queued"},
    ("batch", "closed"): {BUDGET, "batch queued"},
    ("batch", "held"): {BUDGET, "batch queued"},
    ("instant", "open"): {BUDGET, COOLS, "instant awarded", "instant rejected"},
    ("instant", "closed"): {CLOSED},
    ("instant", "held"): {BUDGET, COOLS, HELD},
    ("either", "open"): {BUDGET, "instant awarded", "batch queued"},
    ("either", "closed"): {BUDGET, "batch queued"},
    ("either", "held"): {BUDGET, "batch queued"},
    **{(wanted, "draining"): {REST} for wanted in WANTED},
    **{(wanted, "early"): {OPENS} for wanted in WANTED},
}


def brief(visit: Outcome, *, cooling: bool) -> str:
    """What became of the wish, in a word or two."""
    if visit["refused"] is not None:
        return next((word for word in REFUSED if word in visit["refused"]), visit["refused"])
    job = visit["jobs"][1 if cooling else 0]
    return f"{job['lane']} {job['state']}"


@pytest.mark.one_case
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("wanted", [*WANTED][::-1])  # "either" first, which meets both lanes
def test_the_same_wish_has_the_same_outcome_at_both_doors(
    monkeypatch: pytest.MonkeyPatch, wanted: str, state: str
) -> None:
    """Over what a job is worth where a lane looks at it (more than its price, or less), cooling, a budget that is used
    up, and quotes."""
    world, outcomes = World(monkeypatch), set()
    worths = (100.0, 1.000001) if state == "open" else (100.0,)
    for worth, cooling, budget, quoted in product(worths, (False, True), (False, True), (False, True)):
        with undone():
            world.becomes(state, cooling=cooling, budget=budget, worth=worth)
            visits = {}
            for name, door in world.doors.items():
                with undone():
                    visits[name] = outcome(world, door, wanted, worth, quoted=quoted)
        assert visits["page"] == visits["interface"], (worth, cooling, budget, quoted)
        outcomes.add(brief(visits["page"], cooling=cooling))
    assert outcomes == MET[wanted, state], "the test meets every outcome that there is"


def test_jobs_are_made_by_one_service_alone() -> None:
    """Whoever submits (pages, programs, the demonstration) asks `job_submit`. A quote only supposes a job."""
    makers, callers = set(), set()
    for module in modules():
        for call in [node for node in module.nodes if isinstance(node, ast.Call)]:
            model = ast.unparse(call.func)
            if model in ("TrainingJob", "TrainingJob.objects.create", "TrainingJob.objects.bulk_create"):
                makers.add(module.path)
        for source in [node for node in module.nodes if isinstance(node, ast.ImportFrom)]:
            if (source.module or "").startswith("scheduling.jobs") and "job_submit" in [
                name.name for name in source.names
            ]:
                callers.add(module.path)
    assert makers == {"scheduling/jobs/submission.py", "scheduling/quotes/desks.py"}
    doors = {"scheduling/jobs/api/jobs.py", "scheduling/demo/outside.py", "scheduling/quotes/pages/submit.py"}
    doors |= {"scheduling/jobs/describing.py"}  # what is described as people do becomes a job there, for both doors
    assert callers == doors | {"scheduling/jobs/__init__.py"}
