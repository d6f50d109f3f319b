"""Two workers at the end of one slot, and a tenant that cancels meanwhile: paid once, and in one order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from typing import Any

import pytest
from django.db import connection

from scheduling.jobs.cancellation import job_cancel
from scheduling.market.calendar.lanes import Busy
from scheduling.market.settle import slots as settlement
from scheduling.market.settle.slots import Settled, slot_settle
from scheduling.models import Award, Pool
from tenants.models import Tenant
from tests.patience import PATIENCE
from tests.scheduling.builders import make_pool, make_tenant
from tests.scheduling.live import again, book_is_sound, fund, make_award, member, moment, money

pytestmark = pytest.mark.django_db(transaction=True)


def market() -> tuple[Pool, Tenant, Tenant, Award]:
    """Lumen's award begins with slot 1, which castor is paid for."""
    pool, lumen, castor = make_pool(), make_tenant("lumen"), make_tenant("castor")
    fund(lumen, 1)
    return pool, lumen, castor, make_award(pool, lumen, start=1, slots=1, charges=[[(castor, 10)]])


def elsewhere(threads: ThreadPoolExecutor, work: Callable[[], Any]) -> Future[Any]:
    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    return threads.submit(run)


class Halted:
    """A settlement that stops before its money is posted until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived, self.go = threading.Event(), threading.Event()
        post = settlement._post

        def post_later(*arguments: Any) -> None:
            self.arrived.set()
            assert self.go.wait(PATIENCE)
            post(*arguments)

        monkeypatch.setattr(settlement, "_post", post_later)


def settle(pool: Pool, slot: int) -> Settled | Busy | None:
    return slot_settle(pool_id=pool.pk, slot=slot, at=moment(slot + 1))


def test_the_second_worker_leaves_and_the_slot_is_paid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, lumen, castor, _ = market()
    settle(pool, 0)
    halted = Halted(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        first = elsewhere(threads, lambda: settle(pool, 1))
        assert halted.arrived.wait(PATIENCE)
        assert settle(pool, 1) == Busy()
        halted.go.set()
        assert isinstance(first.result(PATIENCE), Settled)
    assert settle(pool, 1) is None
    assert (money(lumen), money(castor)) == ((999_990, 0, 0), (0, 0, 10))
    assert book_is_sound()


def test_without_the_lanes_lock_the_second_worker_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, *_ = market()
    settle(pool, 0)
    clock = pool.clocks.get(lane="batch")
    monkeypatch.setattr(settlement, "lane_lock", lambda **_: clock)
    halted = Halted(monkeypatch)
    with ThreadPoolExecutor(2) as threads:
        first = elsewhere(threads, lambda: settle(pool, 1))
        assert halted.arrived.wait(PATIENCE)
        second = elsewhere(threads, lambda: settle(pool, 1))
        with pytest.raises(StillWaiting):  # it waits deep inside, for rows of the first
            second.result(0.5)
        halted.go.set()
        outcomes = [first.result(PATIENCE), second.result(PATIENCE)]
    assert all(isinstance(outcome, Settled) for outcome in outcomes)  # both say that they paid
    assert book_is_sound()  # the keys of the postings made payment happen once even so


def test_a_cancellation_waits_for_the_settlement_and_finds_its_job_running(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, lumen, castor, award = market()
    halted = Halted(monkeypatch)
    with ThreadPoolExecutor(2) as threads:
        first = elsewhere(threads, lambda: settle(pool, 0))  # which starts the award at its end
        assert halted.arrived.wait(PATIENCE)
        cancelled = elsewhere(threads, lambda: job_cancel(job_id=award.job_id, by=member(lumen), at=moment(1)))
        with pytest.raises(StillWaiting):
            cancelled.result(0.5)
        halted.go.set()
        assert isinstance(first.result(PATIENCE), Settled)
        cancelled.result(PATIENCE)
    assert (again(award).state, again(award.job).state) == ("running", "cancelled")
    monkeypatch.undo()
    settle(pool, 1)
    assert (money(lumen), money(castor)) == ((999_990, 0, 0), (0, 0, 10))  # begun: no more to give back
