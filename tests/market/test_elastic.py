"""An elastic pool, live: every slot decided anew, paid as used, once, whoever ticks and whatever breaks."""

from __future__ import annotations

import pytest

from scheduling.audit.verification import charge_verify
from scheduling.core.policies.dl2 import guard
from scheduling.jobs.cancel_preview import cancel_preview
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.read_life import happenings
from scheduling.jobs.read_list import row_view, with_awards
from scheduling.jobs.read_rows import job_rows
from scheduling.market.reads.explain import jobs_explain
from scheduling.models import Budget, Event, PriceTick, Server, TrainingJob
from scheduling.operator.holds import pool_hold
from scheduling.runs.failures import server_lose
from tenants.access import Refused, access_of_system
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.ledger.builders import grant
from tests.scheduling.clocks import advance, everything, moment
from tests.scheduling.elastic_world import all_is_sound, make_elastic, make_elastic_job, run, set_prices, slots_of
from tests.scheduling.live import events, explained, member, money, operator_money
from tests.scheduling.markets import MICRO, again
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db


OPERATOR = access_of_system("the tests")


def test_a_job_runs_slot_by_slot_and_pays_each_slot_to_the_owners_of_its_units() -> None:
    pool, owner, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    run(pool, 0, 3)
    slots = slots_of(job)
    assert [(award.start, award.end, award.workers, award.ps, award.state) for award in slots] == [
        (slot, slot + 1, 4, 4, "done") for slot in range(3)
    ]
    assert [award.work_left for award in slots] == [16.0, 8.0, 0.0]
    assert [award.paid_before for award in slots] == [0, 3 * MICRO, 6 * MICRO]
    assert again(job).state == "finished"
    # Each server has two workers of it, at 0.5; half of the first server's workers are the owner's.
    assert (money(renter)[:2], money(owner)[2], operator_money()) == ((991 * MICRO, 0), 1_500_000, 7_500_000)
    assert [event.kind for event in events("job_started") + events("job_resized") + events("job_finished")] == [
        "job_started",
        "job_finished",
    ]
    all_is_sound(pool)


def test_a_job_says_with_which_slot_it_began_and_not_which_is_its_newest() -> None:
    pool, _, renter = make_elastic(credits=7)
    job = make_elastic_job(pool, renter, slots=4, min_workers=4)
    for slot, start, end in ((1, 0, 2), (2, None, None), (4, 0, 5)):  # runs, cannot pay any more, runs again
        run(pool, slot - 1, slot)
        with scope(renter):
            program = job_rows([again(job)])[0]
            on_page = row_view(with_awards(TrainingJob.objects.select_related("pool", "tenant")).get())
            (on_market,) = jobs_explain(pool, [TrainingJob.objects.select_related("tenant").get()])
        assert (program.start_slot, program.end_slot) == (start, end)
        for view in (program.view, on_page, on_market):
            assert view.starts_at == (None if start is None else pool.slot_start(start)), slot
            assert view.ends_at == (None if end is None else pool.slot_start(end)), slot
        if start is None:
            give_more(renter, 10)


def test_optimus_changes_the_numbers_of_a_running_job_when_others_come() -> None:
    pool, _, renter = make_elastic({"name": "optimus", "restart": 0})
    first = make_elastic_job(pool, renter, slots=6, chunks=8, max_workers=8)
    others = [make_elastic_job(pool, renter, 1.5, slots=2) for _ in range(3)]
    run(pool, 0, 12)
    sizes = [(award.workers, award.ps) for award in slots_of(first)]
    assert len(set(sizes)) > 1
    assert len(events("job_resized")) >= 1
    with scope(renter):
        sentences = [each.sentence for each in happenings(pool, renter.pk, first.pk) if each.kind == "job_resized"]
    assert "4 jobs have units in that slot, 1 had in the one before." in sentences[0], sentences
    assert all(again(job).state == "finished" for job in (first, *others))
    all_is_sound(pool)


def test_a_job_that_cannot_pay_its_next_slot_is_paused_and_goes_on_once_it_can() -> None:
    pool, _, renter = make_elastic(credits=7)
    job = make_elastic_job(pool, renter, slots=4, min_workers=4)
    run(pool, 0, 3)
    paused = again(job)
    assert (paused.state, paused.reason_code) == ("queued", "low_balance")
    assert paused.reason_numbers == {"price": 3.0, "left": 0.999999, "least_price": 2.25}
    assert [award.start for award in slots_of(job)] == [0, 1]
    give_more(renter, 10)
    run(pool, 4, 6)
    assert [award.start for award in slots_of(job)] == [0, 1, 4, 5]
    assert again(job).state == "finished"
    assert [event.data["start"] for event in events("job_started")] == [0, 4]
    assert [event.data["reason"] for event in events("job_waiting")] == ["low_balance"]
    all_is_sound(pool)


def test_a_job_that_can_pay_less_than_its_size_runs_smaller_and_says_so_with_the_numbers() -> None:
    pool, _, renter = make_elastic(credits=7)
    job = make_elastic_job(pool, renter, slots=3)
    run(pool, 0, 2)
    assert [(award.workers, award.ps, award.paid) for award in slots_of(job)] == [
        (4, 4, 3 * MICRO),
        (4, 4, 3 * MICRO),
        (1, 1, 750_000),
    ]
    numbers = {"workers": 1, "ps": 1, "price": 0.75, "asked": 4, "asked_ps": 4, "asked_price": 3.0}
    numbers |= {"left": 0.999999, "limit": "low_balance"}
    assert (again(job).state, again(job).reason_code, again(job).reason_numbers) == ("running", "smaller_size", numbers)
    why = "Smaller than it could be: 4 workers and 4 parameter servers cost 3.00 in this slot, and 1.00 are available."
    with scope(renter):
        sentence = explained(again(job)).reason.sentence
        sentences = [each.sentence for each in happenings(pool, renter.pk, job.pk) if each.kind == "job_resized"]
    assert sentence == f"Runs on 1 worker and 1 parameter server; its size is decided again at 2 Mar, 12:00:30. {why}"
    assert sentences == [
        f"From 4 workers and 4 parameter servers to 1 worker and 1 parameter server, from slot 2 on. {why}"
    ]
    give_more(renter, 10)
    run(pool, 3, 3)
    assert (again(job).reason_code, slots_of(job)[-1].workers) == ("", 4)
    run(pool, 4, 4)
    assert (again(job).state, again(job).reason_code) == ("finished", "")
    all_is_sound(pool)


def test_a_budget_that_made_a_job_smaller_is_named_as_such() -> None:
    pool, _, renter = make_elastic()
    with scope(renter):
        Budget.objects.create(period="day", hard_limit=4 * MICRO, tenant=renter)
    job = make_elastic_job(pool, renter)
    run(pool, 0, 1)
    assert [award.workers for award in slots_of(job)] == [4, 1]
    assert (again(job).reason_code, again(job).reason_numbers["limit"]) == ("smaller_size", "over_budget")
    member_of = make_member(renter, "submitter").user
    with scope(renter):
        Budget.objects.all().delete()
        Budget.objects.create(period="day", hard_limit=5 * MICRO, tenant=renter, member=member_of)
    with scope_disabled("the test says who submitted"), as_superuser():
        TrainingJob.objects.filter(pk=job.pk).update(submitted_by=member_of)
    run(pool, 2, 2)
    assert [award.workers for award in slots_of(job)] == [4, 1, 1]
    assert again(job).reason_numbers["limit"] == "over_budget"


def give_more(tenant, credits: int) -> None:
    with scope_disabled("credits come from outside"):
        grant(tenant.pk, credits * MICRO, key=f"more:{tenant.slug}")


def test_a_budget_and_a_limit_pause_with_their_numbers() -> None:
    pool, owner, renter = make_elastic()
    with scope(renter):
        Budget.objects.create(period="day", hard_limit=4 * MICRO, tenant=renter)
    budgeted = make_elastic_job(pool, renter, min_workers=4)
    limited = make_elastic_job(pool, owner, max_price=5.0, slots=9, min_workers=4)
    run(pool, 0, 2)
    assert (again(budgeted).reason_code, again(budgeted).reason_numbers["left"]) == ("over_budget", 0.999999)
    assert again(limited).reason_code == "over_max_price"
    numbers = again(limited).reason_numbers
    assert numbers["max_price"] == 5.0
    assert numbers["spent"] + numbers["price"] > 5.0
    all_is_sound(pool)


def test_a_new_price_holds_from_its_slot_on_and_old_slots_are_verified_at_theirs() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    set_prices(pool, {"worker": 1.0, "ps": 0.0}, slot=2)
    run(pool, 0, 3)
    assert [award.paid for award in slots_of(job)] == [3 * MICRO, 3 * MICRO, 4 * MICRO]
    ticks = PriceTick.objects.filter(pool=pool, resource__name="worker").order_by("slot")
    assert list(ticks.values_list("slot", "price", "offered", "sold")) == [
        (0, 0.5, 8.0, 4.0),
        (1, 0.5, 8.0, 4.0),
        (2, 1.0, 8.0, 4.0),
    ]
    all_is_sound(pool)
    with scope_disabled("the test looks at a charge"):
        verified = charge_verify(job_id=job.pk)
    assert verified.findings == ()
    assert len(verified.awards) == 3


def test_a_lost_server_refunds_the_slot_and_the_job_goes_on_with_what_it_has_done() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    run(pool, 0, 1)
    server_lose(server=Server.objects.get(name="s01"), by=OPERATOR, reason="smoke", at=moment(pool, 1.5))
    assert (again(job).state, again(job).reason_code, again(job).attempt) == ("queued", "server_lost", 0)
    assert money(renter)[:2] == (997 * MICRO, 0)
    run(pool, 2, 4)
    assert [(award.start, award.state, award.work_left) for award in slots_of(job)] == [
        (0, "done", 16.0),
        (1, "void", 8.0),
        (2, "done", 8.0),
        (3, "done", 0.0),
    ]
    assert again(job).state == "finished"
    assert money(renter)[:2] == (991 * MICRO, 0)
    all_is_sound(pool)


def test_a_cancelled_job_pays_the_running_slot_and_no_more() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    run(pool, 0, 0)
    assert not hasattr(job_cancel(job_id=job.pk, by=member(renter), at=moment(pool, 0.5)), "sentence")
    run(pool, 1, 2)
    assert [award.state for award in slots_of(job)] == ["done"]
    assert (again(job).state, money(renter)[:2]) == ("cancelled", (997 * MICRO, 0))
    all_is_sound(pool)


def test_a_job_whose_next_slot_costs_more_than_its_page_showed_can_be_cancelled() -> None:
    """The slot that runs is paid in any case; to refuse would let it buy the next one, too."""
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    with scope(renter):
        shown_costs = cancel_preview(TrainingJob.objects.select_related("pool").get(pk=job.pk), moment(pool, 0)).costs
    run(pool, 0, 0)
    outcome = job_cancel(job_id=job.pk, by=member(renter), at=moment(pool, 0.5), most=shown_costs)
    assert not isinstance(outcome, Refused)
    run(pool, 1, 2)
    assert (again(job).state, money(renter)[:2]) == ("cancelled", (997 * MICRO, 0))


def test_a_hold_pauses_whoever_ran() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    run(pool, 0, 0)
    pool_hold(pool=pool, by=OPERATOR, reason="power", at=moment(pool, 0.5))
    run(pool, 1, 2)
    assert (again(job).state, again(job).reason_code) == ("queued", "market_held")
    assert len(slots_of(job)) == 1
    all_is_sound(pool)


def test_a_slot_that_has_passed_is_not_sold() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    run(pool, 0, 0)
    advance(pool, 3.2)  # slots 1 and 2 passed before their boundaries were done
    assert [award.start for award in slots_of(job)] == [0, 3]
    assert again(job).state == "running"
    all_is_sound(pool)


def test_a_second_tick_changes_nothing() -> None:
    pool, _, renter = make_elastic()
    make_elastic_job(pool, renter)
    run(pool, 0, 1)
    before = everything()
    run(pool, 0, 1)
    assert everything() == before


def test_a_learned_policy_that_falls_behind_is_taken_over_and_that_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "POOR", 1e9)  # so that the network always falls behind
    pool, _, renter = make_elastic({"name": "dl2"})
    make_elastic_job(pool, renter, slots=6)
    run(pool, 0, 4)
    [event] = Event.objects.filter(kind="policy_taken_over")
    assert (event.pool_id, event.tenant_id) == (pool.pk, None)
    assert (event.data["policy"], event.data["code"]) == ("dl2", "reward_poor")
    assert event.data["reward"] < 1e9 * event.data["teacher_reward"]
