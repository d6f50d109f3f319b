"""Jobs without parameter servers in every lane: quoted, taken, decided, charged and verified like all others."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.models import Award
from scheduling.programs import hours, worth
from scheduling.quotes.quotes import Quote
from tenants.scoping import scope_disabled
from tests.market.test_units_for_nothing import ATTACK, LANES, door, quoted, submission
from tests.scheduling.clocks import advance
from tests.scheduling.live import member, moment

pytestmark = pytest.mark.django_db

WITHOUT: dict[str, Any] = {"ps_demand": [], "ps_mbps": None}


@pytest.mark.one_case
@pytest.mark.parametrize("lane", LANES)
def test_is_quoted_taken_and_run_without_any_parameter_server(lane: str) -> None:
    pool, renter = door(lane)
    assert isinstance(quoted(lane, pool, renter, **WITHOUT), Quote)
    submitted = submission(lane, pool, renter, **WITHOUT)
    assert isinstance(submitted, Submitted), submitted
    for slot in range(1, 20):
        advance(pool, slot)
    with scope_disabled("the test looks at all awards"):
        awards = list(Award.objects.filter(job_id=submitted.job.pk))
    assert sum(award.workers for award in awards) >= 4
    for award in awards:
        assert award.ps == 0
        assert all(workers > 0 and ps == 0 for _, _, _, workers, ps in award.allocation)
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


@pytest.mark.parametrize("ask", [submission, quoted])
def test_numbers_of_parameter_servers_and_our_own_trainer_need_them(ask: Any) -> None:
    pool, renter = door("batch")
    answer = ask("batch", pool, renter, ps_demand=[])
    assert isinstance(answer, InvalidJob)
    assert answer.field == "ps_mbps"
    answer = ask(
        "batch",
        pool,
        renter,
        **ATTACK | {"worker_demand": {"worker": 1}, "min_workers": 1, "max_workers": 4, **WITHOUT},
    )
    assert isinstance(answer, InvalidJob)
    assert answer.field == "ps_demand"


def test_a_job_in_hours_runs_for_what_was_said() -> None:
    """Four workers for 35 seconds, in a pool whose slots take ten: four slots, never three."""
    pool, renter = door("batch")
    job = hours.read({"hours": "0.009722", "most": 4, "worker": {"worker": 1}}, ("worker", "ps"))
    answer = worth.read({"within_seconds": 600, "credits": 50, "later": "half"})
    assert isinstance(job, hours.InHours)
    assert isinstance(answer, worth.Worth)
    assert job.seconds == 35
    specification = hours.specification(job, worth.value(answer, 10.0))
    submitted = job_submit(pool=pool, name="hours", spec=specification, lane="batch", by=member(renter), at=moment(0))
    assert isinstance(submitted, Submitted), submitted
    for slot in range(1, 20):
        advance(pool, slot)
    with scope_disabled("the test looks at all awards"):
        (award,) = Award.objects.filter(job_id=submitted.job.pk)
    assert (award.end - award.start, award.workers, award.ps) == (4, 4, 0)
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
