"""An interval that locks the book before the calendar, beside an instant admission that does it the other way round.

They cannot wait for each other in a circle, for they never want the same row of the calendar: what the instant lane
sells of the cells ends where a batch plan begins. The variant in which it sells further shows what that prevents.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection

from scheduling.app.clock import pool_advance
from scheduling.core.types import Plan, View
from scheduling.jobs.submission import Submitted
from scheduling.market.decide import instant
from scheduling.market.decide import interval as intervals
from scheduling.market.decide.interval import interval_run
from scheduling.models import Interval, LaneClock, Pool
from tenants.models import Tenant
from tests.patience import PATIENCE
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import book_is_sound, fund, holdings, make_live_pool, moment, submit, submitted

pytestmark = pytest.mark.django_db(transaction=True)


def market() -> tuple[Pool, Tenant]:
    """Windows of two slots on castor's one server. Lumen rents in the first, and waits again when slot 4 is decided."""
    pool, lumen, castor = make_live_pool(clock_first=2, clock_cap=2), make_tenant("lumen"), make_tenant("castor")
    make_cells(make_server(pool, worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    fund(lumen)
    submitted(pool, lumen, lane="batch")
    pool_advance(pool_id=pool.pk, at=moment(2.4))
    submitted(pool, lumen, lane="batch", slot=2.5)
    pool_advance(pool_id=pool.pk, at=moment(3.4))
    assert LaneClock.objects.get(pool=pool, lane="batch").frontier == 4
    return pool, lumen


def race(pool: Pool, lumen: Tenant, monkeypatch: pytest.MonkeyPatch, *, slot: float) -> list[Any]:
    """(the interval, the admission), or what each raised: the interval makes its plan with the book locked, and while
    it does, the admission takes its units and comes to its payment."""
    units_taken, answers = threading.Event(), []
    hold, build, stored = instant.hold, intervals.batch_policy, intervals.policy_bytes

    def holds(**arguments: Any) -> Any:
        units_taken.set()
        return hold(**arguments)

    def admitted() -> Any:
        try:
            return submit(pool, lumen, slot=slot)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as worker:

        class Meanwhile:
            def __init__(self, policy: Any) -> None:
                self.policy, self.name = policy, policy.name

            def decide(self, view: View) -> Plan:
                plan: Plan = self.policy.decide(view)
                answers.append(worker.submit(admitted))
                assert units_taken.wait(PATIENCE)
                return plan

        monkeypatch.setattr(instant, "hold", holds)
        monkeypatch.setattr(intervals, "ATTEMPTS", 1)  # the first attempt is the last one, with the locks
        monkeypatch.setattr(intervals, "batch_policy", lambda *about: Meanwhile(build(*about)))
        monkeypatch.setattr(intervals, "policy_bytes", lambda policy: stored(policy.policy))
        try:
            interval: Any = interval_run(pool_id=pool.pk, slot=4, at=moment(4))
        except OperationalError as error:
            interval = error
        return [interval, _outcome(answers[0])]


def _outcome(answer: Future[Any]) -> Any:
    return answer.exception(PATIENCE) or answer.result()


def test_an_interval_with_the_book_locked_and_an_admission_both_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, lumen = market()
    interval, admission = race(pool, lumen, monkeypatch, slot=3.0)
    assert isinstance(interval, Interval)
    assert interval.jobs_awarded == 1
    assert isinstance(admission, Submitted)
    assert admission.award is not None
    assert holdings(pool)["s01", "worker", "home", 3] == 4.0
    assert holdings(pool, "batch")["s01", "worker", "home", 4] == 4.0
    assert book_is_sound()


def test_were_cells_sold_behind_the_frontier_they_would_block_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, lumen = market()
    LaneClock.objects.filter(pool=pool, lane="batch").update(frontier=6)
    outcomes = race(pool, lumen, monkeypatch, slot=3.5)
    failures = [str(outcome) for outcome in outcomes if isinstance(outcome, OperationalError)]
    assert len(failures) == 1
    assert "deadlock detected" in failures[0]
    assert book_is_sound()
