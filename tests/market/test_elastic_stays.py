"""An unbroken job of an elastic pool, live: one gang on its servers, paid slot by slot, verified like any other."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.models import Award, Budget, LaneClock, Pool, Server, TrainingJob
from scheduling.runs.failures import server_lose
from tenants.access import access_of_system
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.scheduling.builders import make_server
from tests.scheduling.clocks import advance, moment
from tests.scheduling.elastic_world import all_is_sound, make_elastic, make_elastic_job, run, slots_of
from tests.scheduling.live import events
from tests.scheduling.markets import MICRO, again
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db
OPERATOR = access_of_system("the tests")
DRF = {"name": "dominant_resource_fairness"}


def place(award: Award) -> list[list[int]]:
    return [[server, workers, ps] for server, _, _, workers, ps in award.allocation]


def memory(pool: Pool) -> dict[str, Any]:
    with scope_disabled("the test looks at what the policy remembers"):
        return dict(LaneClock.objects.get(pool=pool, lane="batch").memory)


def crowd(pool: Pool, tenant: Tenant, arrival: float, jobs: int = 6) -> list[TrainingJob]:
    """So many jobs of one worker and more come, which shrink and move whoever can be moved."""
    return [make_elastic_job(pool, tenant, arrival, slots=2) for _ in range(jobs)]


@pytest.mark.one_case
@pytest.mark.parametrize("policy", [DRF, {"name": "srtf", "workers": 4}, {"name": "optimus", "restart": 0.0}])
def test_it_keeps_its_gang_and_its_price_while_others_come_and_go(policy: dict[str, Any]) -> None:
    pool, _, renter = make_elastic(policy)
    job = make_elastic_job(pool, renter, slots=5, unbroken=True)
    run(pool, 0, 1)
    crowd(pool, renter, 1.5)
    run(pool, 2, 14)
    slots = slots_of(job)
    assert [award.start for award in slots] == list(range(len(slots)))
    assert len(slots) > 2
    assert len({str(place(award)) for award in slots}) == 1
    assert len({award.paid for award in slots}) == 1
    assert again(job).state == "finished"
    assert events("job_resized") == [] or all(each.subject != f"job:{job.pk}" for each in events("job_resized"))
    all_is_sound(pool)
    assert "unbroken" not in memory(pool)


def test_the_like_job_that_can_go_on_elsewhere_is_made_smaller() -> None:
    pool, _, renter = make_elastic(DRF)
    job = make_elastic_job(pool, renter, slots=5)
    run(pool, 0, 1)
    crowd(pool, renter, 1.5)
    run(pool, 2, 14)
    assert len({str(place(award)) for award in slots_of(job)}) > 1
    all_is_sound(pool)


def test_a_new_server_moves_nobody() -> None:
    """The servers of a pool are named in what is remembered, not counted."""
    pool, _, renter = make_elastic({"name": "srtf", "workers": 2})
    blocker = make_elastic_job(pool, renter, slots=1, min_workers=2)
    job = make_elastic_job(pool, renter, slots=6, min_workers=2, unbroken=True)
    run(pool, 0, 1)
    make_server(pool, "s00", worker=4, ps=4)
    run(pool, 2, 4)
    assert again(blocker).state == "finished"
    assert len({str(place(award)) for award in slots_of(job)}) == 1
    all_is_sound(pool)


def test_after_its_server_was_lost_it_begins_on_another_one_and_stays_there() -> None:
    pool, _, renter = make_elastic({"name": "srtf", "workers": 2})
    job = make_elastic_job(pool, renter, slots=6, min_workers=2, unbroken=True)
    run(pool, 0, 1)
    lost = Server.objects.get(pk=place(slots_of(job)[0])[0][0])
    server_lose(server=lost, by=OPERATOR, reason="smoke", at=moment(pool, 1.5))
    run(pool, 2, 4)
    after = [award for award in slots_of(job) if award.start >= 2 and award.state != "void"]
    assert len({str(place(award)) for award in after}) == 1
    assert len(after) == 3
    assert all(server != lost.pk for award in after for server, _, _ in place(award))
    all_is_sound(pool)


def test_what_it_cannot_pay_ends_it_and_its_room_goes_to_others() -> None:
    pool, owner, renter = make_elastic({"name": "srtf", "workers": 4}, credits=7)
    job = make_elastic_job(pool, renter, slots=5, unbroken=True)
    other = make_elastic_job(pool, owner, 0.5, slots=6)
    run(pool, 0, 1)
    assert slots_of(job)[-1].start == 1
    advance(pool, 2)
    assert (again(job).state, again(job).reason_code) == ("queued", "low_balance")
    assert again(job).reason_numbers == {"price": 3.0, "left": 0.999999}
    assert slots_of(other)[-1].start == 2
    all_is_sound(pool)


def test_a_members_other_jobs_do_not_take_the_part_of_its_budget_that_keeps_the_gang() -> None:
    """What is left of a member's budget is divided among the waiting jobs, as all of them may be awarded at once."""
    pool, _, renter = make_elastic()
    ada = make_member(renter, "submitter").user
    with scope(renter):
        Budget.objects.create(period="day", hard_limit=20 * MICRO, tenant=renter, member=ada)
    job = make_elastic_job(pool, renter, slots=5, unbroken=True)
    run(pool, 0, 1)
    others = crowd(pool, renter, 1.5, jobs=6)
    with scope_disabled("the test says who submitted"), as_superuser():
        TrainingJob.objects.update(submitted_by=ada)
    run(pool, 2, 4)
    assert [award.paid for award in slots_of(job)] == [3 * MICRO] * 5
    with scope_disabled("the test adds up what the member spent"):
        spent = sum(award.paid for award in Award.objects.all())
    assert 15 * MICRO < spent <= 20 * MICRO
    run(pool, 5, 5)
    assert again(job).state == "finished"
    assert "over_budget" in {again(other).reason_code for other in others}
