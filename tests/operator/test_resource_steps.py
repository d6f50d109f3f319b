"""The least amount and the step of a resource: exact, set by the operator, and told to whoever asks for another one."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import DataError, IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.scenario import BadScenario
from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.market.view.demands import ONES, AmountSteps, demands_check, role_of, steps_flaw
from scheduling.market.view.specs import steps_of
from scheduling.models import Pool, ResourceKind, ServerCapacity, TrainingJob
from scheduling.operator.pools import PoolTerms, pool_create
from scheduling.operator.resource_steps import resource_steps_set
from scheduling.runs.runs import runs_tick
from tenants import history
from tenants.access import NOBODY, Refused, access_of_system
from tenants.models import AuditEntry, Tenant
from tenants.roles import OPERATOR, SUBMITTER
from tenants.scoping import scope_disabled
from tests.api.builders import problem, program_of
from tests.market.test_units_for_nothing import Counting
from tests.operator.test_services import CHANGE, POOL
from tests.quotes.test_submit_page import FIELDS
from tests.scheduling.builders import NOON, kind, make_pool, make_server, make_tenant
from tests.scheduling.clocks import advance
from tests.scheduling.elastic_world import all_is_sound
from tests.scheduling.live import SPEC, again, fund, make_live_pool, member, moment, submit
from tests.scheduling.markets import award_of
from tests.scheduling.pages import client_as, text_of

BY = access_of_system("the tests")
QUARTERS = AmountSteps(Decimal("0.5"), Decimal("0.25"))

amounts = st.decimals(Decimal("0.000001"), Decimal(10_000), places=6)


@st.composite
def steps_drawn(draw: st.DrawFn) -> AmountSteps:
    step = draw(amounts)
    return AmountSteps(step * draw(st.integers(1, 50)), step)


@given(steps_drawn(), st.integers(0, 10**6))
def test_every_multiple_from_the_least_on_is_allowed_as_a_float_says_it(steps: AmountSteps, times: int) -> None:
    """Also where floats would say that 0.3 is no multiple of 0.1."""
    amount = float(steps.least + times * steps.step)
    if Decimal(repr(amount)) == steps.least + times * steps.step:  # else the float is not that number at all
        assert steps.allow(amount)
    assert steps.allow(0)
    assert steps.allow(-0.0)


@given(steps_drawn(), st.floats(1e-9, 1e9) | st.integers(1, 10**9))
def test_an_amount_that_is_not_allowed_lies_between_the_nearest_two_that_are(steps: AmountSteps, amount: float) -> None:
    exact = Fraction(repr(amount))
    if steps.allow(amount):
        assert exact >= steps.least
        assert exact % Fraction(steps.step) == 0
        return
    below, above = steps.nearest(amount)
    assert below < exact < above
    for near in (below, above):
        assert near == 0 or (near >= steps.least and near % steps.step == 0)
    assert above - below == (steps.least if exact < steps.least else steps.step)


@given(st.dictionaries(st.sampled_from(["gpu", "memory"]), st.floats(0, 20) | st.integers(0, 20), min_size=1))
def test_a_demand_is_refused_at_the_resource_whose_amount_is_none(demand: dict[str, float]) -> None:
    steps = {"gpu": ONES, "memory": QUARTERS}
    wrong = [name for name, amount in demand.items() if not steps[name].allow(amount)]
    spec = {"worker_demand": demand, "ps_demand": [{"gpu": 1}, demand]}
    if not wrong:
        return demands_check(spec, steps)
    with pytest.raises(BadScenario) as refused:
        demands_check(spec, steps)
    assert refused.value.place == f"worker_demand.{wrong[0]}"
    with pytest.raises(BadScenario) as refused:
        demands_check({"ps_demand": spec["ps_demand"]}, steps)
    assert refused.value.place == f"ps_demand[1].{wrong[0]}"
    return None


@pytest.mark.parametrize(
    ("least", "step"),
    [("0", "1"), ("1", "0"), ("-1", "1"), ("1", "2"), ("1", "0.3"), ("1e9", "1"), ("NaN", "1"), ("1", "Infinity"),
     ("0.0000001", "0.0000001")],
)  # fmt: skip
def test_steps_that_cannot_be_are_refused_with_what_is_wrong(least: str, step: str) -> None:
    flaw = steps_flaw(AmountSteps(Decimal(least), Decimal(step)))
    assert flaw is not None
    assert "must be" in flaw
    assert steps_flaw(QUARTERS) is None


@pytest.mark.parametrize(
    ("name", "role"),
    [("worker", "worker"), ("worker-a100", "worker"), ("ps", "ps"), ("ps_big", "ps"), ("psi", None), ("gpu", None)],
)
def test_whose_units_a_resource_is_says_its_name(name: str, role: str | None) -> None:
    assert role_of(name) == role


# Set by the operator.


@pytest.mark.django_db
def test_a_new_pool_has_whole_units_but_for_what_the_operator_says() -> None:
    resources = {"gpu": "GPU", "memory": "gigabyte of memory"}
    pool = pool_create(terms=PoolTerms(**(POOL | {"resources": resources, "steps": {"memory": QUARTERS}})), **CHANGE)
    assert isinstance(pool, Pool)
    assert steps_of(pool) == {"gpu": ONES, "memory": QUARTERS}
    (entry,) = AuditEntry.objects.filter(action="pool_create")
    assert entry.after["steps"] == {"memory": {"least": "0.5", "step": "0.25"}}
    for wrong in ({"cpu": QUARTERS}, {"memory": AmountSteps(Decimal("0.5"), Decimal("0.3"))}):
        refusal = pool_create(
            terms=PoolTerms(**(POOL | {"slug": "b", "resources": resources, "steps": wrong})), **CHANGE
        )
        assert isinstance(refusal, Refused)
        assert refusal.code == "invalid_step"
    assert Pool.objects.count() == 1


@pytest.mark.django_db
def test_steps_are_changed_with_a_line_in_the_history_and_hold_for_what_comes_then() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    first = submit(pool, lumen, lane="batch")
    pairs = {"worker": AmountSteps(Decimal(2), Decimal(2))}
    change = {"pool": pool, "reason": "Sold in pairs.", "at": NOON}
    assert resource_steps_set(steps=pairs, by=BY, **change) == {"worker": pairs["worker"], "ps": ONES}
    resource_steps_set(steps=pairs, by=BY, **change)  # nothing changes, nothing is told
    (entry,) = AuditEntry.objects.filter(action="resource_steps_set")
    assert entry.before == {"steps": {"worker": {"least": "1", "step": "1"}}}
    assert entry.after == {"steps": {"worker": {"least": "2", "step": "2"}}}
    assert isinstance(history.verify(), history.VerifiedHistory)
    answer = submit(pool, lumen, lane="batch")
    assert isinstance(answer, InvalidJob)
    assert answer.sentence.endswith("must be 0, or 2 or more in steps of 2, not 1; the nearest are 0 and 2.")
    assert isinstance(first, Submitted)
    assert again(first.job).state == "queued"
    for refused in (
        resource_steps_set(steps=pairs, by=NOBODY, **change),
        resource_steps_set(steps={"gpu": QUARTERS}, by=BY, **change),
        resource_steps_set(steps={"ps": AmountSteps(Decimal(1), Decimal(2))}, by=BY, **change),
        resource_steps_set(steps=pairs, by=BY, **change | {"reason": ""}),
    ):
        assert isinstance(refused, Refused)


@pytest.mark.django_db
@pytest.mark.parametrize("columns", [{"least": 0}, {"step": 0}, {"least": Decimal("0.5")}, {"least": 1, "step": 2}])
def test_the_database_keeps_no_steps_that_cannot_be(columns: dict[str, Any]) -> None:
    pool = make_pool()
    with pytest.raises((IntegrityError, DataError)), transaction.atomic():  # a step of 0 cannot be divided by
        ResourceKind.objects.filter(pool=pool, name="worker").update(**columns)


# A pool that counts parts of machines.


def machines(**fields: Any) -> tuple[Pool, Tenant]:
    """One server of the operator with GPUs, processors and memory; memory is dealt out in quarters of a gigabyte."""
    pool = make_pool(resources=("gpu", "cpu", "memory"), **fields)
    ResourceKind.objects.filter(pool=pool, name="memory").update(least=QUARTERS.least, step=QUARTERS.step)
    server = make_server_of(pool, {"gpu": 4, "cpu": 16, "memory": 64})
    assert server is not None
    fund(lumen := make_tenant("lumen"))
    return pool, lumen


def make_server_of(pool: Pool, units: dict[str, int]) -> Any:
    server = pool.servers.create(name="m1")
    for name, number in units.items():
        ServerCapacity.objects.create(pool=pool, server=server, resource=kind(pool, name), units=number)
    return server


PRICE = {"floor": 0.01, "ceiling": {"gpu": 10.0, "cpu": 10.0, "memory": 10.0}}
# Workers and parameter servers that take the same resource stand together in these lanes.
PLACES: dict[str, dict[str, Any]] = {
    "instant": {"instant_policy": {"name": "pdors", "price": PRICE}},
    "batch": {"batch_policy": {"name": "tetris"}},
}
PARTS = {"worker_demand": {"gpu": 1, "cpu": 2, "memory": 1.75}, "ps_demand": {"cpu": 1, "memory": 0.5}}
PROGRAM = {"program": {"name": "trainer", "parameters": {"model": "logistic"}}}


@pytest.mark.django_db
@pytest.mark.parametrize("lane", PLACES)
def test_a_pool_of_gpus_processors_and_memory_works_with_the_steps_that_were_set(lane: str) -> None:
    pool, lumen = machines(**PLACES[lane])
    jobs = [submit(pool, lumen, lane=lane, slot=0.5, max_workers=2, **PARTS | more) for more in (PROGRAM, {})]
    assert all(isinstance(job, Submitted) for job in jobs)
    for amount, nearest in ((0.3, "0 and 0.5"), (0.6, "0.5 and 0.75"), (1e-9, "0 and 0.5")):
        answer = submit(pool, lumen, lane=lane, **PARTS | {"ps_demand": {"cpu": 1, "memory": amount}})
        assert isinstance(answer, InvalidJob)
        assert answer.field == "ps_demand.memory"
        assert f"0.5 or more in steps of 0.25, not {amount}; the nearest are {nearest}" in answer.sentence
    advance(pool, 1)
    awarded_jobs = [again(job.job) for job in jobs if isinstance(job, Submitted)]
    assert {job.state for job in awarded_jobs} <= {"awarded", "running"}
    award, engine = award_of(awarded_jobs[0]), Counting()
    runs_tick(engine=engine, at=moment(1.5))
    (gang,) = engine.started
    members = sum(sum(roles.values()) for roles in gang.generations[0].servers.values())
    assert members == award.workers + award.ps
    advance(pool, 2)
    all_is_sound(pool)


@pytest.mark.django_db
def test_where_no_resource_is_named_after_them_members_take_a_whole_unit_of_any() -> None:
    pool, lumen = machines()
    only = {"worker_demand": {"gpu": 1}, "ps_demand": {"memory": 0.75}}
    assert isinstance(submit(pool, lumen, lane="batch", **only), Submitted)  # nothing is started for it
    answer = submit(pool, lumen, lane="batch", **only | PROGRAM)
    assert isinstance(answer, InvalidJob)
    assert answer.field == "ps_demand"
    assert (
        "a parameter server of a program must take at least one whole unit of a resource, not 0.75" in answer.sentence
    )


# At the doors.


VERSION = {"steps-version": "worker: 1 1, ps: 1 1"}


def page_of(client: Client, **fields: str) -> Any:
    form = {"steps-reason": "Sold in halves.", **VERSION, **fields}
    return client.post("/operator/pools/main/steps/", form, secure=True)


@pytest.mark.django_db
def test_the_operator_sees_and_sets_them_on_the_pools_page() -> None:
    pool = make_pool()
    client = client_as("operator", None)
    html = text_of(client.get("/operator/pools/main/", secure=True).content.decode())
    assert "Amounts that a unit may take" in html
    assert "1 or more in steps of 1" in html
    effect = client.post(
        "/operator/pools/main/steps/?part=effect",
        {"steps-steps": "worker: 0.5 0.25", "steps-reason": "x"},
        secure=True,
    )
    assert "0.5 or more in steps of 0.25" in text_of(effect.content.decode())
    for wrong, words in (
        ("worker 1 1", "is not a resource, a colon"),
        ("worker: 1e3 1", "is not a resource, a colon"),
        ("worker: ١ 1", "is not a resource, a colon"),
        ("gpu: 1 1", "there is no such resource"),
        ("worker: 1 0.3", "must be some steps of 0.3"),
        ("worker: 0 1", "must be above 0"),
    ):
        assert words in text_of(page_of(client, **{"steps-steps": wrong}).content.decode()), wrong
    assert steps_of(pool) == {"worker": ONES, "ps": ONES}
    assert page_of(client, **{"steps-steps": "worker: 0.5 0.25"}).status_code == 302
    assert steps_of(pool) == {"worker": QUARTERS, "ps": ONES}
    # A page of before that change would undo it with the line that it did not mean to change.
    stale = page_of(client, **{"steps-steps": "worker: 1 1\nps: 0.5 0.25"})
    assert "This was changed while you looked at it." in text_of(stale.content.decode())
    assert steps_of(pool) == {"worker": QUARTERS, "ps": ONES}
    assert page_of(client_as("auditor", None), **{"steps-steps": "worker: 1 1"}).status_code == 403
    reply = client.get("/admin/scheduling/resourcekind/", secure=True)
    assert reply.status_code in (200, 302)


@pytest.mark.django_db
def test_a_program_sees_and_sets_them() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    caller = program_of(OPERATOR, lumen)
    form = {"steps": {"worker": {"least": "0.5", "step": "0.25"}}, "reason": "Sold in halves."}
    answer = caller.post("pools/main/steps/", form)
    assert answer.status_code == 200, answer.content
    assert answer.json()["resources"][0] == {"name": "worker", "label": "worker", "least": "0.5", "step": "0.25"}
    assert steps_of(pool) == {"worker": QUARTERS, "ps": ONES}
    problem(
        caller.post("pools/main/steps/", form | {"steps": {"gpu": {"least": "1", "step": "1"}}}), 422, "invalid_step"
    )
    for amount in (1, 0.5, "1e3", " 1", "1_000", "١", "-1", "", "1.0000001", "NaN"):
        wrong = form | {"steps": {"worker": {"least": amount, "step": "1"}}}
        assert caller.post("pools/main/steps/", wrong).status_code == 400, amount
    new = {
        "slug": "second", "name": "Second", "slot_seconds": 10, "clock_first": 1, "clock_cap": 8, "clock_restart": True,
        "batch_policy": {"name": "astraea"}, "epoch_at": "2026-03-02T12:00:00Z", "reason": "More machines.",
        "resources": [{"name": "gpu", "label": "GPU"}, {"name": "memory", "label": "gigabyte", "least": "0.5",
                                                        "step": "0.25"}],
    }  # fmt: skip
    assert caller.post("pools/", new).status_code == 201
    assert steps_of(Pool.objects.get(slug="second")) == {"gpu": ONES, "memory": QUARTERS}


@pytest.mark.django_db
@pytest.mark.parametrize("lane", ["batch", "instant"])
def test_programs_and_forms_are_refused_at_the_field(lane: str) -> None:
    pool, lumen = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    make_server(pool, worker=4, ps=1)
    fund(lumen)
    caller, client = program_of(SUBMITTER, lumen), client_as(SUBMITTER, lumen)
    for amount in ("1e-9", "0.5", "1.5", "1e300", "-1"):
        spec = SPEC | {"worker_demand": {"worker": json.loads(amount)}}
        for where in ("jobs", "quotes"):
            body = {"pool": "main", "name": "train", "lane": lane, "spec": spec}
            reply = caller.post(f"tenants/lumen/{where}/", body)
            assert (reply.status_code, reply.json()["code"]) == (422, "invalid_job"), reply.content
            assert "worker_demand.worker" in json.dumps(reply.json()), reply.content
        page_reply = client.post(
            "/t/lumen/submit/", FIELDS | {"wanted": lane} | {"worker_takes_worker": amount}, secure=True
        )
        assert page_reply.status_code == 422
        html = page_reply.content.decode()
        where = html.index('id="id_worker_takes_worker_error"')
        words = "Enter a number" if "e" in amount else "ust be"  # a form reads no exponents
        assert words in text_of(html[where : where + 600]), amount
    nan = json.dumps({"pool": "main", "name": "train", "lane": lane, "spec": SPEC}).replace(
        '"worker": 1}', '"worker": NaN}'
    )
    assert "NaN" in nan
    assert caller.post("tenants/lumen/jobs/", nan).status_code == 400  # no JSON
    page_reply = client.post(
        "/t/lumen/submit/", FIELDS | {"wanted": lane} | {"worker_takes_worker": "nan"}, secure=True
    )
    assert "Enter a number" in text_of(page_reply.content.decode())
    with scope_disabled("the test counts all jobs"):
        assert TrainingJob.objects.count() == 0


@pytest.mark.django_db
def test_the_form_says_the_steps_where_they_are_not_whole_numbers() -> None:
    pool, lumen = machines(epoch_at=timezone.now())
    html = text_of(client_as(SUBMITTER, lumen).get(f"/t/lumen/submit/?pool={pool.slug}", secure=True).content.decode())
    assert "0.5 or more in steps of 0.25; empty: nothing." in html
    assert html.count("or more in steps of") == 2  # for a worker and a parameter server, and only of memory


@pytest.mark.django_db
def test_a_key_of_a_job_that_was_accepted_still_gives_it_back() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    words = {"pool": pool, "name": "train", "spec": SPEC, "lane": "batch", "by": member(lumen), "at": NOON}
    first = job_submit(**words, client_key="k1")
    resource_steps_set(pool=pool, steps={"worker": AmountSteps(Decimal(2), Decimal(2))}, by=BY, reason="pairs", at=NOON)
    second = job_submit(**words, client_key="k1")
    assert isinstance(first, Submitted)
    assert isinstance(second, Submitted)
    assert (second.job.pk, second.repeated) == (first.job.pk, True)
