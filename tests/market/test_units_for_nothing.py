"""Nobody gets units for nothing: what a unit may take, at every door, and what was let in before there was a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from scheduling.engines.base import RUNNING, Gang, Handle, Status
from scheduling.engines.local.engine import TIMINGS
from scheduling.jobs.submission import InvalidJob, Submitted
from scheduling.market.reads.explain import reason_sentence
from scheduling.market.view import batch, specs
from scheduling.models import Pool, Run, TrainingJob
from scheduling.quotes.quotes import Quote, job_quote
from scheduling.runs.runs import runs_tick
from tenants.access import Refused
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.clocks import advance
from tests.scheduling.elastic_world import all_is_sound, make_elastic
from tests.scheduling.live import (
    SPEC,
    again,
    events,
    fund,
    make_live_pool,
    member,
    moment,
    money,
    publish,
    submit,
    submitted,
)
from tests.scheduling.markets import award_of

pytestmark = pytest.mark.django_db

DUST = 1e-9
BAD = [DUST, 0.5, 1.5, 1e300, float("nan"), float("inf"), -1, True, "1", 0.1 + 0.2, 1 + 1e-12]
LANES = ["batch", "instant", "elastic"]


def door(lane: str) -> tuple[Pool, Tenant]:
    """A pool with that lane, and a tenant with credits who owns nothing in it."""
    if lane == "elastic":
        pool, _, renter = make_elastic()
        return pool, renter
    pool, owner, renter = make_live_pool(), make_tenant("owner"), make_tenant("renter")
    make_cells(make_server(pool, worker=8, ps=4), owner, {"worker": 8, "ps": 4})
    fund(renter)
    if lane == "instant":
        publish(pool, frontier=8)
    return pool, renter


def submission(lane: str, pool: Pool, renter: Tenant, **spec: Any) -> Submitted | Refused:
    return submit(pool, renter, lane="instant" if lane == "instant" else "batch", **spec)


def quoted(lane: str, pool: Pool, renter: Tenant, **spec: Any) -> Quote | Refused:
    where = "instant" if lane == "instant" else "batch"
    return job_quote(pool=pool, name="train", spec=SPEC | spec, lane=where, by=member(renter), at=moment(0))


class Counting:
    """An engine that only remembers whom it was to start."""

    name = "local"
    timings = TIMINGS

    def __init__(self) -> None:
        self.started: list[Gang] = []

    def touch(self) -> None: ...

    def submit(self, gangs: Sequence[Gang]) -> dict[str, Handle]:
        self.started += gangs
        return {gang.key: Handle(gang.key, gang.home, {"number": 1}) for gang in gangs}

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        return {handle.key: Status(RUNNING, started_at=1.0) for handle in handles}


def jobs() -> list[TrainingJob]:
    with scope_disabled("the test looks at all jobs"):
        return list(TrainingJob.objects.order_by("pk"))


@pytest.mark.parametrize("ask", [submission, quoted])
@pytest.mark.parametrize("lane", LANES)
def test_no_lane_takes_or_quotes_a_demand_below_or_between_the_steps(lane: str, ask: Any) -> None:
    pool, renter = door(lane)
    for field, resource in (("worker_demand", "worker"), ("ps_demand", "ps")):
        for amount in BAD:
            answer = ask(lane, pool, renter, **{field: {resource: amount}})
            assert isinstance(answer, InvalidJob), amount
            assert (answer.code, answer.field) == ("invalid_job", f"{field}.{resource}"), amount
        refusal = ask(lane, pool, renter, **{field: [{resource: 1}, {resource: 1.5}]})
        assert isinstance(refusal, InvalidJob)
        assert refusal.field == f"{field}[1].{resource}"
    assert jobs() == []
    assert not isinstance(ask(lane, pool, renter, worker_demand={"worker": 2, "ps": 0}), Refused)


def test_a_refusal_names_the_nearest_amounts() -> None:
    pool, renter = door("batch")
    for amount, sentence in (
        (DUST, "worker_demand.worker: must be 0, or 1 or more in steps of 1, not 1e-09; the nearest are 0 and 1."),
        (1.5, "worker_demand.worker: must be 0, or 1 or more in steps of 1, not 1.5; the nearest are 1 and 2."),
    ):
        answer = submission("batch", pool, renter, worker_demand={"worker": amount})
        assert isinstance(answer, InvalidJob)
        assert answer.sentence == sentence


# Members of a program.

ATTACK: dict[str, Any] = {
    "epochs": 1,
    "chunks": 120,
    "minibatches": 1,
    "minibatch_seconds": 1.0,
    "worker_demand": {"worker": DUST},
    "ps_demand": {"ps": DUST},
    "worker_mbps": 100.0,
    "ps_mbps": 100.0,  # a parameter server for each worker: 241 processes with the coordinator
    "min_workers": 120,
    "max_workers": 120,
    "program": {"name": "trainer", "parameters": {"model": "logistic"}},
}


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("worker_demand.worker", {"worker_demand": {"ps": 1}, "ps_demand": {"ps": 1}}),
        ("ps_demand.ps", {"worker_demand": {"worker": 1}, "ps_demand": {"worker": 1}}),
        ("ps_demand[1].ps", {"worker_demand": {"worker": 1}, "ps_demand": [{"ps": 1}, {"worker": 2}]}),
        ("max_workers", {"worker_demand": {"worker": 1}, "ps_demand": {"ps": 1}}),
    ],
)
def test_no_program_has_members_without_units_or_more_than_an_engine_starts(
    lane: str, field: str, spec: dict[str, Any]
) -> None:
    pool, renter = door(lane)
    for ask in (submission, quoted):
        answer = ask(lane, pool, renter, **ATTACK | spec)
        assert isinstance(answer, InvalidJob)
        assert answer.field == field
    if field == "max_workers":
        assert "at most 47, not 120" in answer.sentence
        fewer = {"min_workers": 1, "max_workers": 47}
        assert isinstance(submission(lane, pool, renter, **ATTACK | spec | fewer), Submitted)
    assert len(jobs()) == (field == "max_workers")


# What was let in before there was a rule.


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Within it the market takes and decides what it did before."""

    @contextmanager
    def unruled() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(specs, "demands_check", lambda *_: None)
            patch.setattr(specs, "members_check", lambda *_: None)
            patch.setattr(batch, "_unfit", lambda *_: {})
            patch.setattr(batch, "within_engine", lambda job: job)
            yield

    return unruled


def attacked(lane: str, pool: Pool, renter: Tenant, **spec: Any) -> tuple[TrainingJob, int]:
    """The job of the attack once its award has begun, and the slot in which it has."""
    answer = submitted(pool, renter, lane="instant" if lane == "instant" else "batch", slot=0.5, **ATTACK | spec)
    slot = 2 if lane == "batch" else 1  # the first interval closes a slot after the arrival
    for each in range(1, slot + 1):
        advance(pool, each)
    return answer.job, slot


@pytest.mark.parametrize("lane", ["batch", "elastic"])
def test_a_program_that_waits_without_units_is_refused_at_the_next_boundary(lane: str, before: Any) -> None:
    pool, renter = door(lane)
    with before():
        bad, plain = (
            submitted(pool, renter, lane="batch", slot=0.5, **ATTACK),
            submitted(pool, renter, lane="batch", slot=0.5, worker_demand={"worker": 1.5}),
        )
    advance(pool, 1)
    advance(pool, 2)
    job = again(bad.job)
    assert (job.state, job.reason_code) == ("rejected", "demand_too_small")
    assert job.reason_numbers == {"role": "worker", "resource": "worker", "takes": DUST}
    assert "needs at least one whole unit of worker" in reason_sentence(pool, job.reason_code, job.reason_numbers)
    assert [event.data["reason"] for event in events("job_refused")] == ["demand_too_small"]
    assert again(plain.job).state in ("awarded", "running", "finished", "stopped")  # accepted as it was, and harmless
    all_is_sound(pool)


@pytest.mark.parametrize("lane", LANES)
def test_no_award_of_before_starts_more_than_it_has_units_for(lane: str, before: Any) -> None:
    pool, renter = door(lane)
    wallet = money(renter)
    with before():
        job, slot = attacked(lane, pool, renter)
    award, engine = award_of(job), Counting()
    assert (award.workers, award.state) == (120, "running")
    runs_tick(engine=engine, at=moment(slot + 0.5))
    assert engine.started == []
    with scope_disabled("the test looks at a run"):
        run = Run.objects.get(award=award)
    assert (run.state, run.detail[:40]) == ("lost", "It is not started: a worker of a program")
    assert (again(job).state, again(job).reason_code, again(award).state) == ("queued", "engine_error", "void")
    for later in (slot + 1, slot + 2):
        advance(pool, later)
        runs_tick(engine=engine, at=moment(later + 0.5))
    assert (again(job).state, again(job).reason_code, engine.started) == ("rejected", "demand_too_small", [])
    assert money(renter) == wallet
    all_is_sound(pool)


@pytest.mark.parametrize("lane", LANES)
def test_nor_more_members_than_an_engine_starts(lane: str, before: Any) -> None:
    """Of an award of before that has units for all of them."""
    pool, renter = door(lane)
    crowd = {"worker_demand": {"worker": 1}, "ps_demand": {"ps": 1}, "ps_mbps": 12_000.0}
    make_cells(make_server(pool, "large", worker=120, ps=120), make_tenant("owner"), {"worker": 120, "ps": 120})
    with before():
        job, slot = attacked(lane, pool, renter, **crowd)
    award, engine = award_of(job), Counting()
    assert award.workers == 120
    runs_tick(engine=engine, at=moment(slot + 0.5))
    assert engine.started == []
    assert again(award).state == "void"
    members = award.workers + award.ps
    sentence = f"It is not started: it has {members} members, and one program has 95 at most."
    assert again(job).reason_numbers["detail"] == sentence
