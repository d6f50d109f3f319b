"""Counters of the instant lane: one job's share, time to cool down, and "at once, or else at the next interval"."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.jobs import submission as jobs
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.market.decide.cooling_off import Cooling
from scheduling.models import Award, LaneClock, Pool, TrainingJob
from tenants.access import Refused
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import SPEC, again, events, fund, make_live_pool, member, moment, submit, submitted

pytestmark = pytest.mark.django_db

WORTHLESS = {"value": {"kind": "linear", "slope": -1.0, "base": 0.001}}


def market(**fields: Any) -> tuple[Pool, Tenant]:
    """Eight workers and two parameter servers, all for sale at once; Lumen has credits."""
    pool, lumen = make_live_pool(**fields), make_tenant("lumen")
    make_server(pool, worker=8, ps=2)
    fund(lumen)
    return pool, lumen


def either(pool: Pool, tenant: Tenant, *, slot: float = 0.0, key: str | None = "a-key", **spec: Any) -> Any:
    return job_submit(
        pool=pool,
        name="train",
        spec=SPEC | spec,
        lane="instant",
        otherwise="batch",
        by=member(tenant),
        at=moment(slot),
        client_key=key,
    )


def only_job() -> TrainingJob:
    with scope_disabled("the test looks at the only job"):
        return TrainingJob.objects.get()


# --- one job's share


@pytest.mark.parametrize(("percent", "workers", "slots"), [(100, 4, 1), (50, 4, 1), (25, 2, 2), (13, 1, 4)])
def test_a_job_has_no_more_workers_at_once_than_its_share(percent: int, workers: int, slots: int) -> None:
    pool, lumen = market(instant_share_percent=percent)
    award = submitted(pool, lumen).award
    assert award is not None
    assert award.workers <= workers
    assert award.end - award.start >= slots


def test_a_job_that_needs_more_than_its_share_is_refused_with_the_numbers() -> None:
    pool, lumen = market(instant_share_percent=25)
    job = again(submitted(pool, lumen, min_workers=3).job)
    assert (job.state, job.reason_code) == ("rejected", "over_share")
    assert job.reason_numbers == {"asked": 3, "most": 2, "percent": 25}


# --- cooling down


def test_a_refused_job_is_not_looked_at_again_until_it_has_cooled_down() -> None:
    pool, lumen = market(instant_cooling_slots=5)
    assert submitted(pool, lumen, **WORTHLESS).job.state == "rejected"
    answer = submit(pool, lumen, slot=1.5)
    assert isinstance(answer, Cooling)
    assert (answer.code, answer.slots, answer.until) == ("cooling", 4, moment(5))
    assert isinstance(submit(pool, lumen, slot=4.9), Cooling)
    assert submitted(pool, lumen, slot=5).job.state != "rejected"


def test_a_job_that_was_taken_back_cools_down_too() -> None:
    pool, lumen = market(instant_cooling_slots=5)
    job = submitted(pool, lumen).job
    job_cancel(job_id=job.pk, by=member(lumen), at=moment(0.5))
    assert isinstance(submit(pool, lumen, slot=1), Cooling)


def test_only_the_same_job_of_the_same_tenant_cools_down_and_only_in_the_instant_lane() -> None:
    pool, lumen = market(instant_cooling_slots=5)
    submitted(pool, lumen, **WORTHLESS)
    castor = make_tenant("castor")
    fund(castor)
    assert isinstance(submit(pool, lumen, slot=1, epochs=2), Submitted)
    assert isinstance(submit(pool, castor, slot=1), Submitted)
    assert isinstance(submit(pool, lumen, slot=1, lane="batch"), Submitted)


def test_a_job_that_was_admitted_may_be_sent_again() -> None:
    pool, lumen = market(instant_cooling_slots=5)
    assert submitted(pool, lumen).award is not None
    assert submitted(pool, lumen, slot=1).award is not None


# --- at once, or else at the next interval


def test_what_the_instant_lane_takes_stays_there() -> None:
    pool, lumen = market()
    answer = either(pool, lumen)
    assert (answer.job.lane, answer.award is not None) == ("instant", True)


def test_what_it_refuses_waits_for_the_next_interval_and_both_answers_are_known() -> None:
    pool, lumen = market()
    answer = either(pool, lumen, slot=0.5, **WORTHLESS)
    assert isinstance(answer, Submitted)
    job = only_job()
    assert (job.lane, job.state, job.reason_code) == ("batch", "queued", "waiting_for_interval")
    assert job.reason_numbers == {"slot": 1, "closes_at": moment(1).isoformat(), "instant": "not_worth_it"}
    (refused,), (queued,) = events("job_refused"), events("job_queued")
    assert refused.data["reason"] == queued.data["instant"]["reason"] == "not_worth_it"
    assert queued.data["instant"]["numbers"] == refused.data["numbers"]


def test_sent_twice_it_is_one_job() -> None:
    pool, lumen = market()
    first, second = either(pool, lumen, **WORTHLESS), either(pool, lumen, slot=3, **WORTHLESS)
    assert (second.repeated, second.job.pk) == (True, first.job.pk)
    assert (only_job().arrival, len(events("job_queued"))) == (0.0, 1)


def test_the_key_belongs_to_the_whole_wish() -> None:
    pool, lumen = market()
    either(pool, lumen)
    answer = submit(pool, lumen, key="a-key")
    assert isinstance(answer, Refused)
    assert answer.code == "key_reused"


def test_sent_again_after_a_crash_between_the_two_answers_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, lumen = market()

    def dies(**_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(jobs, "job_queue", dies)
        with pytest.raises(KeyboardInterrupt):
            either(pool, lumen, **WORTHLESS)
    assert only_job().state == "rejected"
    assert either(pool, lumen, slot=1, **WORTHLESS).repeated
    assert (only_job().lane, only_job().state) == ("batch", "queued")


@pytest.mark.parametrize("code", ["lane_closed", "market_held", "cooling"])
def test_where_the_instant_lane_does_not_even_look_the_batch_lane_takes_it(code: str) -> None:
    pool, lumen = market(instant_cooling_slots=9, **({"instant_policy": None} if code == "lane_closed" else {}))
    if code == "market_held":
        for lane in ("batch", "instant"):
            LaneClock.objects.update_or_create(pool=pool, lane=lane, defaults={"held": True})
    if code == "cooling":
        submitted(pool, lumen, **WORTHLESS)
    answer = either(pool, lumen, slot=0.5)
    assert isinstance(answer, Submitted)
    job = again(answer.job)
    assert (job.lane, job.state, job.reason_numbers["instant"]) == ("batch", "queued", code)
    data = events("job_submitted")[-1].data
    assert {name: data[name] for name in ("name", "lane", "instant")} == {
        "name": "train",
        "lane": "batch",
        "instant": code,
    }
    with scope_disabled("the test looks for awards"):
        assert not Award.objects.exists()


def test_what_is_wrong_with_the_job_itself_is_refused_for_both_lanes() -> None:
    pool, lumen = market()
    assert isinstance(either(pool, lumen, epochs=0), InvalidJob)
    wrong = job_submit(
        pool=pool, name="train", spec=SPEC, lane="batch", otherwise="instant", by=member(lumen), at=moment(0)
    )
    assert isinstance(wrong, InvalidJob)
    assert wrong.field == "otherwise"
