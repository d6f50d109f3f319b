"""Many jobs in one act: what each becomes by itself, all of them or none, once under a key."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.audit.verification.jobs import jobs_verify
from scheduling.jobs.bulk import JobsRefused, JobWords, SubmittedJobs, jobs_submit
from scheduling.jobs.describing import JobWording, job_describe
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.models import (
    Award,
    Budget,
    Event,
    JobDescription,
    JobFloor,
    Pool,
    PriceTick,
    ResourceKind,
    StartEstimate,
    TrainingJob,
)
from tenants.access import Access, Refused
from tenants.roles import SUBMITTER, VIEWER
from tenants.scoping import scope, scope_disabled
from tests.database import undone
from tests.jobs import test_too_long as too_long
from tests.quotes.test_two_doors import NUMBERS
from tests.scheduling.clocks import advance, moment
from tests.scheduling.elastic_world import make_elastic
from tests.scheduling.live import INSTANT, member
from tests.scheduling.markets import SPEC, make_market

pytestmark = pytest.mark.django_db

PROGRAM = {"name": "trainer", "parameters": {"minibatch_ms": 20.0}}
HOURS = {"hours": "0.01", "most": 2, "worker": {"worker": 1}}
WORTH = {"within_seconds": 900, "credits": "60", "later": "half"}


@pytest.fixture
def world() -> tuple[Pool, Access, Access]:
    pool, (lumen, castor) = make_market("lumen", "castor", instant_policy=INSTANT)
    return pool, member(lumen), member(castor)


def one_by_one(pool: Pool, by: Access, words: Sequence[JobWords], slot: float = 0.5) -> list[TrainingJob | Refused]:
    order: dict[str, Any] = {"pool": pool, "lane": "batch", "by": by, "at": moment(pool, slot)}
    answers: list[Any] = []
    for each in words:
        if each.wording is not None:
            answers.append(job_describe(wording=each.wording, **order))
        else:
            answers.append(job_submit(name=each.name, spec=each.spec, begin=each.begin, after=each.after, **order))
    return [answer.job if isinstance(answer, Submitted) else answer for answer in answers]


def in_bulk(pool: Pool, by: Access, words: Sequence[JobWords], slot: float = 0.5, **more: Any) -> Any:
    answer = jobs_submit(pool=pool, words=words, by=by, at=moment(pool, slot), **more)
    return answer.jobs if isinstance(answer, SubmittedJobs) else answer


def some(seed: int, pool: Pool, before: int) -> list[JobWords]:
    """Jobs of every kind, and some that repeat another."""
    dice = random.Random(seed)

    def spec(**more: Any) -> dict[str, Any]:
        value = {"kind": "linear", "slope": -dice.random(), "base": float(dice.randint(1, 200))}
        return {**SPEC, "epochs": dice.randint(1, 3), "value": value, **more}

    kinds: list[Callable[[], JobWords]] = [
        lambda: JobWords("plain", spec()),
        lambda: JobWords("the same", SPEC),
        lambda: JobWords("at home", spec(rent="never")),
        lambda: JobWords("with a limit", spec(max_price=2.5)),
        lambda: JobWords("a program", spec(program=PROGRAM)),
        lambda: JobWords("later", spec(), begin=moment(pool, 2.5)),
        lambda: JobWords("after another", spec(), after=[before]),
        lambda: JobWords(wording=JobWording(worth=WORTH, hours=HOURS, name="in hours")),
    ]
    words = [kind() for kind in kinds] + [dice.choice(kinds)() for _ in range(4)]
    dice.shuffle(words)
    return words


ROW = (
    "tenant_id", "pool_id", "name", "lane", "state", "reason_code", "reason_numbers", "spec", "submitted_at",
    "submitted_by_id", "arrival", "request_digest", "attempt", "not_before", "after", "ended_at", "worth", "worth_from",
    "array_id", "array_place", "together", "client_key",
)  # fmt: skip


def everything(first: int) -> dict[str, Any]:
    """All rows that a submission and an interval write of the jobs behind this one, without numbers of rows."""
    with scope_disabled("the test compares whole markets"):
        jobs = list(TrainingJob.objects.filter(pk__gt=first).order_by("pk"))
        place = {job.pk: index for index, job in enumerate(jobs)}
        mine = {"job__in": jobs}
        subjects = {f"job:{job.pk}": index for job, index in zip(jobs, place.values(), strict=True)}
        events = Event.objects.filter(subject__in=subjects).order_by("pk")
        assert set(ROW) | {"id"} == {field.attname for field in TrainingJob._meta.concrete_fields}
        return {
            "jobs": [{name: getattr(job, name) for name in ROW} for job in jobs],
            "estimates": [
                (place[row.job_id], row.made_at, row.earliest, row.latest, row.price_low, row.price_high)
                for row in StartEstimate.objects.filter(**mine).order_by("job")
            ],
            "descriptions": [
                (place[row.job_id], row.how, row.said, row.lines)
                for row in JobDescription.objects.filter(**mine).order_by("job")
            ],
            "awards": [
                (place[row.job_id], row.start, row.end, row.state, row.workers, row.paid, row.charges, row.allocation)
                for row in Award.objects.filter(**mine).order_by("job", "start")
            ],
            "floors": [
                (place[row.job_id], row.start, row.end, row.value, row.allocation)
                for row in JobFloor.objects.filter(**mine).order_by("job", "interval")
            ],
            "events": [
                (event.kind, subjects[event.subject], event.at, event.tenant_id, event.pool_id) for event in events
            ],
            "said": [{name: value for name, value in event.data.items() if name not in NUMBERS} for event in events],
        }


@pytest.mark.parametrize("seed", range(3))
def test_jobs_in_bulk_are_the_jobs_that_they_are_by_themselves(world, seed: int) -> None:
    """Rows, events, and what the next intervals decide."""
    pool, by, _ = world
    (before,) = one_by_one(pool, by, [JobWords("before", SPEC)], slot=0.1)
    assert isinstance(before, TrainingJob)
    words, stories = some(seed, pool, before.pk), []
    for submit in (one_by_one, in_bulk):
        with undone():
            jobs = submit(pool, by, words)
            assert all(isinstance(job, TrainingJob) for job in jobs), jobs
            submitted = everything(before.pk)
            advance(pool, 5)
            with scope_disabled("the test verifies everything"):
                assert jobs_verify(pool, list(TrainingJob.objects.select_related("pool"))) == []
            stories.append((submitted, everything(before.pk)))
    alone, bulk = stories
    assert bulk[0] == alone[0]
    assert bulk[1] == alone[1]
    assert len(bulk[0]["jobs"]) == 12
    assert bulk[1]["awards"]


def test_in_an_elastic_pool_too() -> None:
    pool, _, renter = make_elastic()
    by, words, stories = member(renter), [JobWords("a", SPEC), JobWords("b", SPEC | {"epochs": 2})], []
    for submit in (one_by_one, in_bulk):
        with undone():
            submit(pool, by, words)
            stories.append(everything(0))
    assert stories[0] == stories[1]
    assert len(stories[0]["jobs"]) == 2


FLAWED: list[tuple[JobWords, str]] = [
    (JobWords("x", SPEC | {"chunks": 0}), "chunks"),
    (JobWords("x", SPEC | {"nonsense": 1}), "nonsense"),
    (JobWords(" ", SPEC), "name"),
    (JobWords("x", SPEC | {"epochs": 5000, "value": {"kind": "deadline", "base": 5.0, "deadline": 9.0}}), ""),
    (JobWords("x", SPEC, after=[987654]), "after"),
    (JobWords("x", SPEC | {"program": {"name": "nothing"}}), "program.name"),
    (JobWords(wording=JobWording(worth=WORTH, hours=HOURS | {"hours": "0"})), "hours.hours"),
]


def test_one_that_cannot_be_keeps_all_away_and_each_such_is_named_by_its_index_as_it_is_refused_alone(world) -> None:
    pool, by, _ = world
    good = JobWords("good", SPEC)
    words = [good, *(each for flaw, _ in FLAWED for each in (flaw, good))]
    refusal = in_bulk(pool, by, words, client_key="k")
    assert isinstance(refusal, JobsRefused)
    assert [index for index, _ in refusal.faults] == [1, 3, 5, 7, 9, 11, 13]
    assert [getattr(each, "field", "") for _, each in refusal.faults] == [field for _, field in FLAWED]
    assert [each for _, each in refusal.faults] == one_by_one(pool, by, [flaw for flaw, _ in FLAWED])
    assert (refusal.jobs, refusal.refused) == (15, 7)
    assert refusal.sentence.startswith("jobs[1]: chunks: ")
    assert refusal.sentence.endswith(" 7 of the 15 jobs cannot be taken, so none is.")
    with scope(by.tenant):
        assert not TrainingJob.objects.exists()
        assert not Event.objects.filter(tenant=by.tenant).exists()
    assert len(in_bulk(pool, by, [good], client_key="k")) == 1  # the key was not used


def test_a_used_up_budget_lets_only_those_in_that_never_rent(world) -> None:
    pool, by, _ = world
    with scope(by.tenant):
        Budget.objects.create(tenant=by.tenant, member=None, period="month", hard_limit=0)
    home, renting = JobWords("home", SPEC | {"rent": "never"}), JobWords("renting", SPEC)
    refusal = in_bulk(pool, by, [home, renting])
    assert [(index, each.code) for index, each in refusal.faults] == [(1, "over_budget")]
    assert len(in_bulk(pool, by, [home])) == 1


def test_a_key_makes_the_jobs_once_and_is_that_of_single_jobs_too(world) -> None:
    pool, by, other = world
    words = [JobWords("a", SPEC), JobWords("b", SPEC), JobWords(wording=JobWording(worth=WORTH, hours=HOURS))]
    jobs = in_bulk(pool, by, words, client_key="k")
    again = jobs_submit(pool=pool, words=words, by=by, at=moment(pool, 1.5), client_key="k")
    assert isinstance(again, SubmittedJobs)
    assert ([job.pk for job in again.jobs], again.repeated) == ([job.pk for job in jobs], True)
    for others in (words[:2], [*words, words[0]], words[::-1], [words[0], words[1], words[1]]):
        assert in_bulk(pool, by, others, client_key="k").code == "key_reused"
    single = job_submit(pool=pool, name="else", spec=SPEC, lane="batch", by=by, at=moment(pool, 1.5), client_key="k")
    assert isinstance(single, Refused)
    assert single.code == "key_reused"
    assert in_bulk(pool, by, words, client_key="x" * 201).code == "invalid_key"
    theirs = in_bulk(pool, other, words, client_key="k")  # another tenant's key is another key
    assert {job.tenant_id for job in theirs} == {other.tenant.pk}
    with scope_disabled("the test counts everything"):
        assert TrainingJob.objects.count() == 6


def test_jobs_of_another_tenant_are_not_waited_for(world) -> None:
    pool, by, other = world
    (theirs,) = in_bulk(pool, other, [JobWords("theirs", SPEC)])
    refusal = in_bulk(pool, by, [JobWords("mine", SPEC, after=[theirs.pk])])
    assert refusal.faults[0][1].sentence == f"after: must be jobs of the tenant, and there is no J-{theirs.pk}."


@pytest.mark.parametrize(
    ("count", "more", "code", "begins"),
    [
        (0, {}, "invalid_job", "jobs: must be 1 to 1,000 jobs"),
        (1001, {}, "invalid_job", "jobs: must be 1 to 1,000 jobs"),
        (2, {"lane": "instant"}, "invalid_job", "lane: jobs in bulk wait for the next interval"),
        (2, {"role": VIEWER}, "not_allowed", ""),
        (2, {"slot": -1}, "pool_not_open", ""),
    ],
)
def test_what_all_of_them_meet_is_refused_as_one(
    world, count: int, more: dict[str, Any], code: str, begins: str
) -> None:
    pool, by, _ = world
    role, slot = more.pop("role", SUBMITTER), more.pop("slot", 0.5)
    refusal = in_bulk(pool, member(by.tenant, role), [JobWords("x", SPEC)] * count, slot, **more)
    assert isinstance(refusal, Refused)
    assert not isinstance(refusal, JobsRefused)
    assert (refusal.code, refusal.sentence[: len(begins)]) == (code, begins)


def test_a_thousand_ask_the_database_as_often_as_ten(world) -> None:
    pool, by, _ = world
    counts = []
    for count in (10, 1000):
        words = [JobWords(f"job {number}", SPEC, begin=moment(pool, 2)) for number in range(count)]
        with CaptureQueriesContext(connection) as queries:
            jobs = in_bulk(pool, by, words, client_key=f"of {count}")
        assert [job.name for job in jobs] == [each.name for each in words]
        assert [job.pk for job in jobs] == sorted(job.pk for job in jobs)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_programs_of_the_catalogue_are_looked_up_once(world, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, by, _ = world
    calls = []
    monkeypatch.setattr("scheduling.jobs.intake.usable_programs", lambda **words: calls.append(words) or [])
    refusal = in_bulk(pool, by, [JobWords("x", SPEC | {"program": {"name": "align"}})] * 3)
    assert refusal.refused == 3
    assert len(calls) == 1


def test_refusals_are_named_up_to_a_number(world) -> None:
    pool, by, _ = world
    refusal = in_bulk(pool, by, [JobWords("x", SPEC | {"chunks": 0})] * 150)
    assert (refusal.refused, len(refusal.faults)) == (150, 100)


def test_every_job_is_taken_at_one_moment(world) -> None:
    pool, by, _ = world
    jobs = in_bulk(pool, by, [JobWords("x", SPEC), JobWords("y", SPEC, begin=moment(pool, 3))])
    assert [job.arrival for job in jobs] == [0.5, 3.0]
    assert {job.submitted_at for job in jobs} == {pool.epoch_at + timedelta(seconds=0.5 * pool.slot_seconds)}


def test_a_resource_of_which_nothing_was_for_sale_has_no_price_to_estimate_by(world) -> None:
    pool, by, _ = world
    worker, ps = ResourceKind.objects.filter(pool=pool).order_by("pk")
    PriceTick.objects.create(pool=pool, lane="batch", resource=worker, slot=0, price=None)
    PriceTick.objects.create(pool=pool, lane="batch", resource=ps, slot=0, price=2.0)
    in_bulk(pool, by, [JobWords("x", SPEC)])
    with scope(by.tenant):
        assert StartEstimate.objects.get().price_high > 0


@pytest.mark.parametrize("order", [1, -1])
def test_worth_counts_where_only_home_serves_a_job_whoever_asked_for_the_same_before(order: int) -> None:
    """Fifty slots fit no window. At home they are worth something by then, or they are not."""
    pool, castor, lumen = too_long.market()
    rich, poor = (
        JobWords("x", too_long.SPEC | too_long.LONG | {"value": {"kind": "linear", "slope": -1.0, "base": base}})
        for base in (100.0, 10.0)
    )
    words = [rich, poor, rich, poor][::order]
    for tenant, refused in ((castor, [each is poor for each in words]), (lumen, [True] * 4)):
        refusal = in_bulk(pool, member(tenant), words)
        assert [index for index, _ in refusal.faults] == [index for index, each in enumerate(refused) if each]
        with undone():
            alone = one_by_one(pool, member(tenant), words)
        assert [isinstance(each, Refused) for each in alone] == refused
        assert [each for each in alone if isinstance(each, Refused)] == [each for _, each in refusal.faults]
