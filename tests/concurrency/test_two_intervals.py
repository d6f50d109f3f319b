"""Two workers at one boundary, and money that moves while a plan is being made: decided once, paid once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from scheduling.audit.verification import intervals_verify
from scheduling.core.types import Plan, View
from scheduling.market.calendar.lanes import Busy
from scheduling.market.decide import interval as intervals
from scheduling.market.decide.interval import FundsMoved, interval_run
from scheduling.market.decide.plans import paid_by
from scheduling.models import Award, Budget, Interval, JobState, LaneClock, Pool
from tenants.ledger.audit import verify
from tenants.ledger.postings import OUTSIDE, available
from tenants.ledger.selectors import balances_of_tenant
from tenants.ledger.services import post
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.ledger.builders import accepted
from tests.patience import PATIENCE
from tests.scheduling.builders import NOON
from tests.scheduling.elastic_world import make_elastic, make_elastic_job, run
from tests.scheduling.live import make_award, make_live_pool
from tests.scheduling.markets import MICRO, again, at, make_market, make_renting, make_waiting, run_slots

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def another_worker() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=2) as workers:
        yield workers


def elsewhere(workers: ThreadPoolExecutor, work: Callable[[], Any]) -> Future[Any]:
    """In a thread, with a database connection of its own."""

    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    return workers.submit(run)


@pytest.fixture
def while_deciding(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Plan], object]], None]:
    """Have something happen each time a plan has been made and is not stored yet."""
    build = intervals.batch_policy

    class Interrupted:
        def __init__(self, policy: Any, happens: Callable[[Plan], object]) -> None:
            self.policy, self.happens = policy, happens

        def decide(self, view: View) -> Plan:
            plan: Plan = self.policy.decide(view)
            self.happens(plan)
            return plan

        def __getattr__(self, name: str) -> Any:
            return getattr(self.policy, name)

    def put(happens: Callable[[Plan], object]) -> None:
        monkeypatch.setattr(intervals, "batch_policy", lambda *about: Interrupted(build(*about), happens))
        monkeypatch.setattr(intervals, "policy_bytes", lambda policy: original(policy.policy))

    original = intervals.policy_bytes
    return put


def test_second_worker_leaves_while_the_first_decides(while_deciding: Any) -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    run_slots(pool, 0, 0)
    with another_worker() as workers:
        answers: list[Any] = []

        def come_second(_: Plan) -> None:
            second = elsewhere(workers, lambda: interval_run(pool_id=pool.pk, slot=1, at=at(pool, 1)))
            answers.append(second.result(PATIENCE))

        while_deciding(come_second)
        first = interval_run(pool_id=pool.pk, slot=1, at=at(pool, 1))
    assert isinstance(first, Interval)
    assert answers == [Busy()]
    assert Interval.objects.filter(slot=1).count() == 1


def test_without_the_lock_both_decide_and_only_the_database_stops_the_second(
    while_deciding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, (lumen,) = make_market("lumen")
    make_waiting(pool, lumen)
    run_slots(pool, 0, 0)
    monkeypatch.setattr(intervals, "lane_lock", lambda **_: LaneClock.objects.get(pool=pool, lane="batch"))
    both_have_a_plan = threading.Barrier(2, timeout=PATIENCE)
    while_deciding(lambda _: both_have_a_plan.wait())
    with another_worker() as workers:
        runs = [elsewhere(workers, lambda: interval_run(pool_id=pool.pk, slot=1, at=at(pool, 1))) for _ in range(2)]
        failures = [run.exception(PATIENCE) for run in runs]
    assert sorted(type(failure) for failure in failures if failure) == [IntegrityError]
    assert Interval.objects.filter(slot=1).count() == 1


def test_two_workers_at_every_boundary_decide_each_once() -> None:
    pool, owner, renter = make_renting()
    for arrival in range(12):
        make_waiting(pool, renter if arrival % 2 else owner, arrival=float(arrival) / 2)
    together = threading.Barrier(2, timeout=PATIENCE)

    def tick() -> None:
        for slot in range(16):
            together.wait()
            interval_run(pool_id=pool.pk, slot=slot, at=at(pool, slot))
            together.wait()

    with another_worker() as workers:
        for run in [elsewhere(workers, tick) for _ in range(2)]:
            run.result(PATIENCE)
    assert LaneClock.objects.get(pool=pool, lane="batch").decided_slot == 15
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    assert verify().is_clean


def spend(tenant_id: int, amount: int, key: str) -> None:
    with scope(tenant_id):
        entries = [(available(tenant_id), -amount), (OUTSIDE, amount)]
        accepted(post(key=key, kind="withdraw", entries=entries, at=NOON))


def test_plan_is_made_again_when_a_balance_fell_meanwhile(while_deciding: Any) -> None:
    pool, _, renter = make_renting(credits=1_000)
    job = make_waiting(pool, renter)
    run_slots(pool, 0, 1)
    with another_worker() as workers:
        spent: list[int] = []

        def spend_all_once(_: Plan) -> None:
            if not spent:
                spent.append(1_000 * MICRO)
                elsewhere(workers, lambda: spend(renter.pk, spent[0], "elsewhere")).result(PATIENCE)

        while_deciding(spend_all_once)
        run_slots(pool, 2, 2)
    assert (again(job).state, again(job).reason_code) == (JobState.QUEUED, "low_balance")
    with scope_disabled("the test looks at everything"):
        assert not Award.objects.exists()
        assert balances_of_tenant(tenant_id=renter.pk).available == 0
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def spend_of_budget(pool: Pool, tenant: Tenant, amount: int) -> None:
    """In another pool, an award is made and its price is held."""
    make_award(pool, tenant, slots=1, charges=[[(None, amount)]])


@pytest.mark.parametrize("hard", [None, 120_000])
def test_plan_is_made_again_when_a_hard_limit_was_spent_meanwhile(while_deciding: Any, hard: int | None) -> None:
    pool, _, renter = make_renting(credits=1_000)
    elsewhere_too = make_live_pool(slug="other")
    job = make_waiting(pool, renter)
    if hard is not None:
        with scope(renter):
            Budget.objects.create(tenant=renter, period="month", member=None, hard_limit=hard)
    run_slots(pool, 0, 1)
    with another_worker() as workers:
        planned: list[int] = []

        def spend_once(plan: Plan) -> None:
            planned.append(paid_by(plan.bookings))
            if len(planned) == 1:
                elsewhere(workers, lambda: spend_of_budget(elsewhere_too, renter, 100_000)).result(PATIENCE)

        while_deciding(spend_once)
        run_slots(pool, 2, 2)
    assert 20_000 < planned[0] <= 120_000
    with scope_disabled("the test looks at everything"):
        spent = sum(Award.objects.filter(tenant=renter).values_list("paid", flat=True))
    if hard is None:
        assert (len(planned), spent) == (1, 100_000 + planned[0])
    else:
        assert (len(planned), spent) == (2, 100_000)
        assert (again(job).state, again(job).reason_code) == (JobState.QUEUED, "over_budget")
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_last_attempt_waits_with_a_hard_limit_until_it_is_over(while_deciding: Any) -> None:
    """Whoever spends of the same limit meanwhile waits for the balances, and sees afterwards what was awarded."""
    pool, _, renter = make_renting(credits=1_000, clock_first=8)
    elsewhere_too, hard = make_live_pool(slug="other"), 10 * MICRO
    for _ in range(8):
        make_waiting(pool, renter)
    with scope(renter):
        Budget.objects.create(tenant=renter, period="month", member=None, hard_limit=hard)
    run_slots(pool, 0, 7)
    with another_worker() as workers:
        tried: list[BaseException | None] = []
        planned, spent = list[int](), [0]

        def leave_too_little(plan: Plan) -> None:
            """So little that the plan just made is beyond the limit, and a smaller one is not."""
            planned.append(paid_by(plan.bookings))
            amount = hard - sum(spent) - planned[-1] * 2 // 3

            def work() -> None:
                with connection.cursor() as cursor:
                    cursor.execute("SET lock_timeout = '200ms'")
                with transaction.atomic():
                    spend_of_budget(elsewhere_too, renter, amount)
                spent.append(amount)

            tried.append(elsewhere(workers, work).exception(PATIENCE))

        while_deciding(leave_too_little)
        run_slots(pool, 8, 8)
    assert tried[:2] == [None, None]
    assert isinstance(tried[2], OperationalError)
    assert planned[0] > planned[1] > planned[2] > 0
    with scope_disabled("the test looks at every award"):
        total = sum(Award.objects.filter(tenant=renter).values_list("paid", flat=True))
    assert total == sum(spent) + planned[2] <= hard
    assert verify().is_clean


class Spender:
    """Spends so much each time a plan was made that it cannot be paid, and a smaller one can."""

    def __init__(self, renter: Tenant, workers: ThreadPoolExecutor) -> None:
        self.renter, self.workers = renter, workers
        self.errors: list[BaseException | None] = []
        self.planned: list[int] = []

    def __call__(self, plan: Plan) -> None:
        self.planned.append(paid_by(plan.bookings))
        rest, number = self.planned[-1] * 2 // 3, len(self.planned)

        def work() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '200ms'")
            with scope(self.renter.pk):
                amount = balances_of_tenant(tenant_id=self.renter.pk).available - rest
            spend(self.renter.pk, amount, f"elsewhere:{number}")

        self.errors.append(elsewhere(self.workers, work).exception(PATIENCE))


def test_last_attempt_holds_the_balances_so_that_it_must_succeed(while_deciding: Any) -> None:
    pool, _, renter = make_renting(credits=1_000, clock_first=8)
    jobs = [make_waiting(pool, renter) for _ in range(8)]
    run_slots(pool, 0, 7)
    with another_worker() as workers:
        while_deciding(spender := Spender(renter, workers))
        run_slots(pool, 8, 8)
    assert spender.errors[:2] == [None, None]
    assert isinstance(spender.errors[2], OperationalError)
    assert spender.planned[0] > spender.planned[1] > spender.planned[2] > 0
    with scope_disabled("the test looks at every award"):
        assert sum(Award.objects.filter(job__in=jobs).values_list("paid", flat=True)) == spender.planned[2]
    assert verify().is_clean


def test_last_attempt_holds_the_balances_of_running_jobs_too_where_each_slot_is_paid_anew(while_deciding: Any) -> None:
    pool, _, renter = make_elastic()
    jobs = [make_elastic_job(pool, renter, slots=9) for _ in range(2)]
    run(pool, 0, 1)
    assert {again(job).state for job in jobs} == {JobState.RUNNING}
    with another_worker() as workers:
        while_deciding(spender := Spender(renter, workers))
        run(pool, 2, 2)
    assert spender.errors[:2] == [None, None]
    assert isinstance(spender.errors[2], OperationalError)
    assert verify().is_clean


def test_step_is_undone_whole_when_it_cannot_be_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _, renter = make_renting()
    job = make_waiting(pool, renter)
    run_slots(pool, 0, 1)
    before = Interval.objects.count(), LaneClock.objects.get(pool=pool, lane="batch").decided_slot

    def fail(**_: Any) -> None:
        raise FundsMoved

    with monkeypatch.context() as patch:
        patch.setattr(intervals, "post_many", fail)
        with pytest.raises(FundsMoved):
            run_slots(pool, 2, 2)
    assert (Interval.objects.count(), LaneClock.objects.get(pool=pool, lane="batch").decided_slot) == before
    assert again(job).state == JobState.QUEUED
    run_slots(pool, 2, 2)
    assert again(job).state == JobState.RUNNING
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
