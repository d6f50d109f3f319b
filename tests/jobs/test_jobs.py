"""Submitting a job: taken once under its key, refused with the field that is wrong, seen by its tenant alone."""

from __future__ import annotations

import pytest

from scheduling.jobs.intake import OverBudget
from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.market.decide.submissions import submission_digest, submission_document
from scheduling.models import Budget, StartEstimate, TrainingJob
from tenants.access import NOBODY, Access, Refused
from tenants.roles import BILLING, OPERATOR, VIEWER
from tenants.scoping import ForeignTenant, scope, scope_disabled
from tests.scheduling.builders import make_pool, make_tenant
from tests.scheduling.live import SPEC, again, events, member, moment, publish, submit, submitted

pytestmark = pytest.mark.django_db


def jobs() -> int:
    with scope_disabled("the test counts all jobs"):
        return TrainingJob.objects.count()


def test_a_batch_job_waits_for_the_next_interval_and_says_when_it_closes() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    publish(pool, frontier=4)
    job = submitted(pool, lumen, lane="batch", slot=1.25).job
    row = again(job)
    assert (row.state, row.reason_code, row.arrival) == ("queued", "waiting_for_interval", 1.25)
    assert row.reason_numbers == {"slot": 4, "closes_at": moment(4).isoformat()}
    (event,) = events("job_submitted")
    assert (event.tenant_id, event.subject) == (lumen.pk, f"job:{job.pk}")
    with scope_disabled("the test looks at the estimate"):
        document = submission_document(row, lane="batch", estimate=StartEstimate.objects.get(job=job))
    assert event.data == {"name": "train", "lane": "batch", "digest": submission_digest(document)}


def test_the_same_key_gives_the_same_job() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    first = submitted(pool, lumen, lane="batch", key="k1")
    second = submitted(pool, lumen, lane="batch", key="k1", slot=7)
    assert (second.job.pk, second.repeated) == (first.job.pk, True)
    assert (jobs(), len(events("job_submitted"))) == (1, 1)


def test_the_same_key_with_another_job_is_refused() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    submitted(pool, lumen, lane="batch", key="k1")
    answer = submit(pool, lumen, lane="batch", key="k1", epochs=2)
    assert isinstance(answer, Refused)
    assert answer.code == "key_reused"
    assert jobs() == 1


def test_two_tenants_may_use_the_same_key_and_the_same_name() -> None:
    pool = make_pool()
    pair = [submitted(pool, make_tenant(slug), lane="batch", key="k1").job for slug in ("lumen", "castor")]
    assert pair[0].pk != pair[1].pk


def test_without_a_key_each_submission_is_a_job() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    submitted(pool, lumen, lane="batch")
    submitted(pool, lumen, lane="batch")
    assert jobs() == 2


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("epochs", {"epochs": 0}),
        ("max_workers", {"max_workers": 9}),
        ("worker_demand.gpu", {"worker_demand": {"gpu": 1}}),
        ("value.slope", {"value": {"kind": "linear", "slope": 1.0, "base": 1.0}}),
        ("colour", {"colour": "red"}),
        ("arrival", {"arrival": -3}),
        ("name", {"name": "train"}),
        ("rent", {"rent": "budget"}),
    ],
)
def test_refuses_a_job_naming_the_field_that_is_wrong(field: str, spec: dict) -> None:
    answer = submit(make_pool(), make_tenant("lumen"), lane="batch", **spec)
    assert isinstance(answer, InvalidJob)
    assert answer.field == field
    assert jobs() == 0


@pytest.mark.parametrize("name", ["", " ", "\u3164 \u2800", "\u200b"], ids=ascii)
def test_refuses_a_job_of_whose_name_nothing_can_be_seen(name: str) -> None:
    answer = job_submit(
        pool=make_pool(), name=name, spec=SPEC, lane="batch", by=member(make_tenant("lumen")), at=moment(0)
    )
    assert isinstance(answer, InvalidJob)
    assert (answer.code, answer.field) == ("invalid_job", "name")
    assert jobs() == 0


def test_refuses_a_job_before_the_pool_opens() -> None:
    answer = submit(make_pool(), make_tenant("lumen"), lane="batch", slot=-1)
    assert isinstance(answer, Refused)
    assert answer.code == "pool_not_open"


def test_refuses_an_instant_job_where_there_is_no_instant_lane() -> None:
    answer = submit(make_pool(), make_tenant("lumen"), lane="instant")
    assert isinstance(answer, Refused)
    assert answer.code == "lane_closed"


@pytest.mark.parametrize("role", [VIEWER, BILLING, OPERATOR])
def test_refuses_whoever_may_not_submit(role: str) -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    answer = job_submit(pool=pool, name="train", spec=SPEC, lane="batch", by=member(lumen, role), at=moment(0))
    assert isinstance(answer, Refused)
    assert answer.code == "not_allowed"


def test_nobody_submits_in_no_tenants_name() -> None:
    answer = job_submit(pool=make_pool(), name="train", spec=SPEC, lane="batch", by=NOBODY, at=moment(0))
    assert isinstance(answer, Refused)


def test_cannot_be_submitted_from_inside_another_tenants_scope() -> None:
    pool, lumen, castor = make_pool(), make_tenant("lumen"), make_tenant("castor")
    with scope(castor), pytest.raises(ForeignTenant):
        submit(pool, lumen, lane="batch")


def test_a_used_up_budget_lets_only_jobs_in_that_never_rent() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    with scope(lumen):
        Budget.objects.create(tenant=lumen, period="month", hard_limit=0)
    answer = submit(pool, lumen, lane="batch")
    assert isinstance(answer, OverBudget)
    assert "Have it raised, wait for its next period, or forbid the job to rent." in answer.sentence
    assert answer.left == 0
    assert isinstance(submit(pool, lumen, lane="batch", rent="never"), Submitted)


def test_a_person_is_remembered_with_the_job() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    access: Access = member(lumen)
    assert access.user is None
    assert submitted(pool, lumen, lane="batch").job.submitted_by is None
