"""Arrays of jobs: all members in one act or none, one row in lists, taken back in one."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling.audit.verification.intervals import intervals_verify
from scheduling.audit.verification.jobs import jobs_verify
from scheduling.jobs.arrays import SubmittedArray, array_submit
from scheduling.jobs.cancel_preview import cancel_previews
from scheduling.jobs.cancellation import array_cancel, job_cancel
from scheduling.jobs.read_arrays import array_by_id
from scheduling.models import Award, JobArray, Pool, TrainingJob
from tenants.access import Access, Refused
from tenants.ledger import audit
from tenants.roles import OWNER, VIEWER
from tenants.scoping import scope, scope_disabled
from tests.catalogue.builders import allow
from tests.quotes.test_submit_page import market
from tests.quotes.test_submit_ways import SHORT
from tests.scheduling.builders import make_tenant
from tests.scheduling.clocks import advance, moment
from tests.scheduling.elastic_world import make_elastic
from tests.scheduling.live import INSTANT, member
from tests.scheduling.markets import SPEC, make_market, make_renting
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> tuple[Pool, Access]:
    pool, (lumen, _) = make_market("lumen", "castor", instant_policy=INSTANT)
    return pool, member(lumen)


def submitted(pool: Pool, by: Access, count: int = 5, **words: Any) -> Any:
    wish = {"name": "sweep", "spec": SPEC, "at": moment(pool, 0.1)} | words
    outcome = array_submit(pool=pool, by=by, count=count, **wish)
    return outcome.array if isinstance(outcome, SubmittedArray) else outcome


def jobs(by: Access) -> list[TrainingJob]:
    with scope(by.tenant):
        return list(TrainingJob.objects.select_related("pool").order_by("pk"))


def sums(by: Access, array: JobArray) -> Any:
    with scope(by.tenant):
        return array_by_id(array.pk)


def proven(pool: Pool) -> list[Any]:
    with scope_disabled("the test verifies everything"):
        return jobs_verify(pool, list(TrainingJob.objects.select_related("pool")))


def page(client: Client, path: str = "") -> str:
    response = client.get(f"/t/lumen/jobs/{path}", secure=True)
    assert response.status_code == 200, response.content
    return response.content.decode()


def test_members_are_jobs_of_their_own_and_their_sums_are_those_of_what_they_pay(world) -> None:
    pool, by = world
    array = submitted(pool, by)
    assert [(job.name, job.array_id, job.array_place) for job in jobs(by)] == [
        (f"sweep[{place}]", array.pk, place) for place in range(5)
    ]
    assert sums(by, array).states == {"queued": 5}
    advance(pool, 40)
    totals = sums(by, array)
    assert (totals.states, totals.in_words, totals.is_alive) == ({"finished": 5}, "5 finished", False)
    with scope(by.tenant):
        assert totals.price == sum(award.paid - award.returned for award in Award.objects.all())
    assert proven(pool) == []
    assert audit.verify().is_clean


def test_is_submitted_once_under_its_key_and_the_key_is_that_of_jobs_too(world) -> None:
    pool, by = world
    array = submitted(pool, by, client_key="k")
    again = array_submit(pool=pool, by=by, count=5, name="sweep", spec=SPEC, at=moment(pool, 1), client_key="k")
    assert again == SubmittedArray(array, repeated=True)
    assert submitted(pool, by, 6, client_key="k").code == "key_reused"
    assert len(jobs(by)) == 5


@pytest.mark.parametrize(
    ("count", "words", "code", "begins"),
    [
        (1001, {}, "invalid_job", "count: must be 1 to 1,000 jobs"),
        (0, {}, "invalid_job", "count: must be 1 to 1,000 jobs"),
        (2, {"lane": "instant"}, "invalid_job", "lane: an array waits for the next interval"),
        (2, {"name": "x" * 199}, "invalid_job", "name: must be at most 197 characters"),
        (2, {"after": [987654]}, "invalid_job", "after: must be jobs of the tenant"),
        (2, {"spec": SPEC | {"epochs": 0}}, "invalid_job", "epochs"),
        (2, {"by": Access(user=None, tenant=None, roles=frozenset())}, "not_allowed", ""),
    ],
)
def test_all_or_none_are_taken(world, count: int, words: dict[str, Any], code: str, begins: str) -> None:
    pool, by = world
    refusal = submitted(pool, **({"by": by} | words), count=count)
    assert isinstance(refusal, Refused)
    assert (refusal.code, refusal.sentence[: len(begins)]) == (code, begins)
    assert jobs(by) == []
    with scope(by.tenant):
        assert not JobArray.objects.exists()


def test_a_thousand_take_as_many_queries_as_ten(world) -> None:
    pool, by = world
    counts = []
    for count in (10, 1000):
        with CaptureQueriesContext(connection) as queries:
            submitted(pool, by, count, name=f"of {count}")
        counts.append(len(queries))
    assert counts[1] <= counts[0] + 2, counts  # rows are written 500 at a time
    assert len(jobs(by)) == 1010


def test_is_taken_back_in_one_act_with_what_runs_and_what_waits(world) -> None:
    pool, by = world
    array = submitted(pool, by, 8)
    other = submitted(pool, by, 1, name="other")
    advance(pool, 3)
    states = {job.state for job in jobs(by)}
    assert "running" in states, states
    job_cancel(job_id=jobs(by)[7].pk, by=by, at=moment(pool, 3.1))
    outcome = array_cancel(array_id=array.pk, by=by, at=moment(pool, 3.2))
    before = {job.pk: job.state for job in jobs(by)}
    assert outcome == 7 - list(before.values()).count("finished")
    assert array_cancel(array_id=array.pk, by=by, at=moment(pool, 3.3)) == 0
    advance(pool, 40)
    assert not sums(by, array).is_alive
    assert sums(by, other).states == {"finished": 1}
    assert proven(pool) == []
    assert audit.verify().is_clean


def test_array_that_costs_more_by_now_than_was_shown_is_left_as_it_is() -> None:
    pool, _, renter = make_renting()
    by = member(renter)
    array = submitted(pool, by, 2, spec=SPEC | {"epochs": 3})
    costs = []
    for slot in (10.5, 11.5):  # one runs and one has a place ahead, which costs nothing; then both run
        advance(pool, slot)
        with scope(renter):
            costs.append(sum(preview.costs for preview in cancel_previews(jobs(by), moment(pool, slot))))
    assert 0 < costs[0] < costs[1]
    refusal = array_cancel(array_id=array.pk, by=by, at=moment(pool, 11.5), most=costs[0])
    assert isinstance(refusal, Refused)
    assert refusal.code == "costs_more"
    assert "cancelled" not in sums(by, array).states
    html = client_as(OWNER, renter).get(f"/t/{renter.slug}/jobs/arrays/{array.pk}/cancel/", secure=True)
    assert re.search(r'name="costs" value="\d+"', html.content.decode())
    assert array_cancel(array_id=array.pk, by=by, at=moment(pool, 11.5), most=costs[1]) == 2


def test_somebody_elses_array_is_not_there(world) -> None:
    pool, by = world
    array = submitted(pool, by)
    other = member(make_tenant("castor"))
    assert array_cancel(array_id=array.pk, by=other, at=moment(pool, 1)).code == "unknown_job"
    assert sums(other, array) is None
    html = client_as(OWNER, other.tenant).get(f"/t/castor/jobs/?array={array.pk}", secure=True).content.decode()
    assert "sweep" not in html


def test_list_shows_one_row_that_opens(world) -> None:
    pool, by = world
    array = submitted(pool, by)
    job_cancel(job_id=jobs(by)[0].pk, by=by, at=moment(pool, 0.2))
    client = client_as(OWNER, by.tenant)
    for query in ("", "?state=queued", "?name=sweep"):
        html = page(client, query)
        assert re.findall(r'class="job-name"[^>]*>([^<]+)<', html) == ["sweep"], query
        assert f'href="/t/lumen/jobs/?array={array.pk}"' in html
        assert "4 queued, 1 cancelled" in html
    opened = page(client, f"?array={array.pk}")
    assert len(re.findall(r'class="job-name"', opened)) == 5
    assert "An array of <b>5</b> jobs" in opened
    assert f'/t/lumen/jobs/arrays/{array.pk}/cancel/"' in opened
    assert "Cancel the array" not in page(client_as(VIEWER, by.tenant), f"?array={array.pk}")
    lines = client.get("/t/lumen/jobs/?format=csv", secure=True).getvalue().decode()
    assert lines.count("sweep[") == 5
    assert f"A-{array.pk}" in page(client, f"{jobs(by)[1].pk}/")


def test_page_takes_the_array_back_once_it_is_confirmed(world) -> None:
    pool, by = world
    array = submitted(pool, by)
    client, path = client_as(OWNER, by.tenant), f"/t/lumen/jobs/arrays/{array.pk}/cancel/"
    assert "Cancel 5 jobs?" in client.get(path, secure=True).content.decode()
    assert {job.state for job in jobs(by)} == {"queued"}
    assert client.post(path, secure=True).status_code == 302
    assert sums(by, array).states == {"cancelled": 5}
    assert client.get("/t/lumen/jobs/arrays/987654/cancel/", secure=True).status_code == 404


def test_form_submits_a_script_with_an_array_as_a_whole() -> None:
    _, lumen = market()
    allow(lumen)
    client = client_as(OWNER, lumen)
    script = "#!/bin/bash\n#SBATCH --gpus=1 --time=0:00:30 --array=0-9\necho $SLURM_ARRAY_TASK_ID\n"
    at = (timezone.now() + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%S")
    form = SHORT | {"source": "script", "script": script, "by": at, "name": ""}
    answer = client.post("/t/lumen/submit/", form, secure=True)
    assert answer.status_code == 302, answer.content.decode()
    with scope(lumen):
        (array,) = JobArray.objects.all()
        assert [job.spec["program"]["parameters"]["index"] for job in TrainingJob.objects.order_by("pk")] == [
            *range(10)
        ]
    assert answer.headers["Location"] == f"/t/lumen/jobs/?array={array.pk}"
    again = client.post("/t/lumen/submit/", form, secure=True)
    assert again.headers["Location"] == answer.headers["Location"]
    refused = client.post("/t/lumen/submit/", form | {"wanted": "instant", "key": "c" * 32}, secure=True)
    assert refused.status_code == 422
    assert "goes to the batch lane as a whole" in refused.content.decode()


def in_one_interval(by: Access) -> list[set[int | None]]:
    """Of each array, the intervals in which its members were awarded; None: not yet."""
    with scope(by.tenant):
        award = {award.job_id: award.interval_id for award in Award.objects.all()}
    intervals: dict[int, set[int | None]] = {}
    for job in jobs(by):
        if job.array_id is not None:
            intervals.setdefault(job.array_id, set()).add(award.get(job.pk))
    return list(intervals.values())


def test_members_that_go_together_are_bought_in_one_interval(world) -> None:
    """Lumen's own two workers and the other's: three jobs fit at once, and thirty never do. One by one some would."""
    pool, by = world
    array, many = submitted(pool, by, 3, together=True), submitted(pool, by, 30, together=True, name="many")
    advance(pool, 6)
    bought, waiting = in_one_interval(by)
    assert (len(bought), None in bought) == (1, False)
    assert waiting == {None}
    assert {job.reason_code for job in jobs(by) if job.array_id == many.pk} == {"bought_together"}
    assert (sums(by, array).together, sums(by, many).together) == (True, True)
    with scope_disabled("the test verifies everything"):
        outcome = intervals_verify(pool_ids=[pool.pk])
    assert outcome.is_clean, outcome.findings
    assert proven(pool) == []
    assert audit.verify().is_clean


def test_apart_some_are_bought_where_not_all_are(world) -> None:
    pool, by = world
    submitted(pool, by, 30)
    advance(pool, 2)
    assert None in in_one_interval(by)[0]
    assert len(in_one_interval(by)[0]) > 1


def test_what_is_left_of_an_array_is_bought_without_what_was_taken_back(world) -> None:
    pool, by = world
    submitted(pool, by, 30, together=True)
    for job in jobs(by)[2:]:
        job_cancel(job_id=job.pk, by=by, at=moment(pool, 0.2))
    advance(pool, 6)
    with scope(by.tenant):
        assert Award.objects.count() == 2
        assert Award.objects.values("interval").distinct().count() == 1


def test_form_submits_an_array_that_is_bought_together_and_page_and_list_say_so() -> None:
    _, lumen = market()
    allow(lumen)
    client = client_as(OWNER, lumen)
    script = "#!/bin/bash\n#SBATCH --gpus=1 --time=0:00:30 --array=0-2\necho $SLURM_ARRAY_TASK_ID\n"
    at = (timezone.now() + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%S")
    form = SHORT | {"source": "script", "script": script, "by": at, "name": "", "together": "on"}
    one = client.post("/t/lumen/submit/", form | {"script": script.replace(" --array=0-2", "")}, secure=True)
    assert one.status_code == 422
    assert "The script has no --array, so it is one job" in one.content.decode()
    answer = client.post("/t/lumen/submit/", form, secure=True)
    assert answer.status_code == 302, answer.content.decode()
    with scope(lumen):
        assert {job.together for job in TrainingJob.objects.all()} == {True}
    assert "bought in one interval, all of them or none" in page(
        client, answer.headers["Location"].partition("jobs/")[2]
    )
    assert "Bought together." in page(client)


def test_elastic_pool_buys_no_jobs_together() -> None:
    pool, _, renter = make_elastic()
    refusal = submitted(pool, member(renter), 2, together=True)
    assert (refusal.code, refusal.field) == ("invalid_job", "together")
    assert refusal.sentence.startswith("together: an elastic pool deals out one slot at a time")


def test_more_than_an_interval_has_room_for_are_refused_at_once() -> None:
    """A guest's jobs rent: eight workers for the slots of the longest interval."""
    pool, _, renter = make_renting()
    refusal = submitted(pool, member(renter), 500, together=True)
    assert isinstance(refusal, Refused), refusal
    assert (refusal.code, refusal.field) == ("invalid_job", "together")
    match = re.fullmatch(
        r"together: no interval of this pool has room for more than (\d+) such jobs at once, and these are 500\.",
        refusal.sentence,
    )
    assert match, refusal.sentence
    assert isinstance(submitted(pool, member(renter), int(match[1]), together=True), JobArray)
    assert isinstance(submitted(pool, member(renter), 500), JobArray)
