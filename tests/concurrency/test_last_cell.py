"""Fifty submissions at once for the last free cell: one wins, the others learn why not, and one price is paid."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections

from scheduling.models import Award, CalendarCell, Pool, TrainingJob
from scheduling.services import instant, jobs
from scheduling.services.jobs import Submitted
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import BOUNDS, book_is_sound, fund, make_live_pool, money, submit

pytestmark = pytest.mark.django_db(transaction=True)

DEADLINE = 60.0
SUBMISSIONS, WORKERS = 50, 2
# Worth something in its first slot only, and in it all of the server.
NOW_OR_NEVER = {"value": {"kind": "deadline", "base": 100.0, "deadline": 0.5}}


def last_cell() -> tuple[Pool, list[Tenant]]:
    """One server of the operator, room for one job in one slot, and five tenants who can all pay."""
    pool = make_live_pool(instant_policy={"name": "oasis", "worker_price": BOUNDS, "ps_price": BOUNDS})
    make_server(pool, worker=4, ps=1)
    tenants = [make_tenant(f"tenant-{number}") for number in range(5)]
    for tenant in tenants:
        fund(tenant)
    return pool, tenants


def ask(pool: Pool, tenant: Tenant, key: str) -> str:
    """What became of one submission: its job's state and reason, or the name of the error."""
    try:
        answer = submit(pool, tenant, key=key, **NOW_OR_NEVER)
    except Exception as error:  # the unlocked variant must be seen to fail, however it does
        return type(error).__name__
    finally:
        connection.close()
    assert isinstance(answer, Submitted), answer
    return f"{answer.job.state} {answer.job.reason_code}".strip()


def submit_all(pool: Pool, tenants: list[Tenant], numbers: range, start: Callable[[], object]) -> list[str]:
    """One thread for each submission, let go together."""

    def one(number: int) -> str:
        start()
        return ask(pool, tenants[number % len(tenants)], f"key-{number}")

    with ThreadPoolExecutor(max_workers=len(numbers)) as threads:
        return [future.result(DEADLINE) for future in [threads.submit(one, number) for number in numbers]]


def _worker(pool: Pool, tenants: list[Tenant], numbers: range, start: Any, answers: Any) -> None:
    answers.put(submit_all(pool, tenants, numbers, lambda: start.wait(DEADLINE)))


def test_of_fifty_submissions_by_two_workers_one_wins_and_the_others_get_the_reason() -> None:
    pool, tenants = last_cell()
    connections.close_all()  # children must not inherit a connection
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(SUBMISSIONS), context.Queue()
    share = SUBMISSIONS // WORKERS
    workers = [
        context.Process(target=_worker, args=(pool, tenants, range(n * share, (n + 1) * share), start, answers))
        for n in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    found = Counter(answer for _ in workers for answer in answers.get(timeout=DEADLINE))
    for worker in workers:
        worker.join(DEADLINE)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert found == {"running": 1, "rejected no_room": SUBMISSIONS - 1}
    _one_is_sold(pool, tenants)


def _one_is_sold(pool: Pool, tenants: list[Tenant]) -> None:
    with scope_disabled("the test looks at all tenants"):
        assert TrainingJob.objects.count() == SUBMISSIONS
        (award,) = Award.objects.all()
    assert sum(money(tenant)[1] for tenant in tenants) == award.paid > 0
    assert all(cell.instant <= cell.capacity for cell in CalendarCell.objects.filter(pool=pool))
    assert book_is_sound()


def test_without_the_lanes_lock_buyers_meet_in_the_calendar_and_fail_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten decide on one state of the calendar. Its constraint still sells the cell once; the rest get no answer."""
    pool, tenants = last_cell()
    together = threading.Barrier(10)
    decide = instant.instant_answer

    def decide_together(*arguments: Any) -> Any:
        answer = decide(*arguments)
        together.wait(DEADLINE)
        return answer

    monkeypatch.setattr(jobs, "lane_lock", lambda **_: None)
    monkeypatch.setattr(instant, "instant_answer", decide_together)
    found = Counter(submit_all(pool, tenants, range(10), lambda: None))
    assert found == {"running": 1, IntegrityError.__name__: 9}


def test_the_same_key_from_many_at_once_is_one_job() -> None:
    pool, (tenant, *_) = last_cell()
    ready = threading.Barrier(8)

    def one(_: int) -> tuple[int, bool]:
        ready.wait(DEADLINE)
        try:
            answer = submit(pool, tenant, key="k1")
        finally:
            connection.close()
        assert isinstance(answer, Submitted), answer
        return answer.job.pk, answer.repeated

    with ThreadPoolExecutor(max_workers=8) as threads:
        answers = [future.result(DEADLINE) for future in [threads.submit(one, number) for number in range(8)]]
    assert len({number for number, _ in answers}) == 1
    assert Counter(repeated for _, repeated in answers) == {False: 1, True: 7}
    assert book_is_sound()
