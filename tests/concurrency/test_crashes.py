"""A worker killed at each step of the market's work: afterwards nothing is lost and nothing is paid twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from django.db import transaction

from scheduling.audit.verification import intervals_verify
from scheduling.models import Award, Interval, LaneClock, Pool, TrainingJob, VerificationRun
from tenants.ledger import audit
from tenants.scoping import scope_disabled
from tests.audit.auditors import everything_asked, work_off
from tests.concurrency.beside import Beside, beside
from tests.database import as_superuser, serving_addresses
from tests.kept import built_or_put_back
from tests.scheduling.builders import make_cells, make_server, make_tenant, tell_history
from tests.scheduling.clocks import advance, contested, everything
from tests.scheduling.live import fund, make_live_pool, money, submitted
from tests.scheduling.renewing import renewing

pytestmark = pytest.mark.django_db(transaction=True)


INTERVAL_STEPS = [
    ("interval", "lane_lock", "after"),
    ("interval", "batch_view", "after"),
    ("interval", "batch_policy", "after"),
    ("interval", "_interval_store", "after"),
    ("plans", "jobs_refuse", "after"),
    ("plans", "floors_store", "after"),
    ("plans", "awards_store", "after"),
    ("plans", "jobs_award", "after"),
    ("interval", "batch_reserve", "after"),
    ("interval", "prices_post", "after"),
    ("interval", "events_append", "after"),
    ("interval", "post_many", "before"),
    ("interval", "post_many", "after"),
    ("clock", "interval_run", "after"),
    ("clock", "prices_refresh", "before"),
]
SETTLE_STEPS = [
    ("clock", "slot_settle", "before"),
    ("slots", "lane_lock", "after"),
    ("slots", "_charges", "after"),
    ("slots", "awards_move", "after"),
    ("slots", "post_batches", "before"),
    ("slots", "post_batches", "after"),
    ("slots", "_tell", "after"),
    ("clock", "slot_settle", "after"),
]
INSTANT_STEPS = [
    ("submission", "lane_lock", "after"),
    ("instant", "purse_of", "after"),
    ("instant", "instant_answer", "after"),
    ("instant", "units_take", "after"),
    ("instant", "prices_after", "after"),
    ("instant", "events_append", "after"),
    ("instant", "hold", "before"),
    ("instant", "hold", "after"),
    ("submission", "instant_admit", "after"),
    ("submission", "_take", "after"),
]
OUTAGE_STEPS = [
    ("clock", "pulse", "before"),
    ("clock", "pulse", "after"),
    ("clock", "slot_settle", "after"),
    ("outages", "lane_lock", "after"),
    ("outages", "awards_void", "after"),
    ("outages", "awards_move", "after"),
    ("outages", "events_append", "after"),
    ("outages", "refunds_post", "before"),
    ("outages", "refunds_post", "after"),
    ("clock", "outage_pass", "after"),
    ("clock", "interval_run", "before"),
]
# Of a boundary that settles an open rent: 12 in the market of `renewing`.
RENT_STEPS = [
    ("plans", "rents_settled", "after"),
    ("interval", "rents_close", "after"),
    ("interval", "post_many", "before"),
    ("interval", "post_many", "after"),
    ("clock", "interval_run", "after"),
]
COMMITTED = ("live", "job_submit", "after")  # all is done, and the reply is lost
PLACES = {
    "clock": "scheduling.app.clock",
    "instant": "scheduling.market.decide.instant",
    "interval": "scheduling.market.decide.interval",
    "live": "tests.scheduling.live",
    "outages": "scheduling.market.settle.outages",
    "pieces": "scheduling.audit.verification.pieces",
    "plans": "scheduling.market.decide.plans",
    "slots": "scheduling.market.settle.slots",
    "submission": "scheduling.jobs.submission",
}


def some_wide(steps: Sequence[tuple[str, str, str]]) -> list[Any]:
    """Each third is enough while one works, and `make test-wide` has the others."""
    return [pytest.param(step, marks=pytest.mark.wide if n % 3 else ()) for n, step in enumerate(steps)]


@pytest.fixture(scope="module")
def other(django_db_setup: None) -> Iterator[Beside]:
    """Another process at the same database."""
    with beside(os.environ | serving_addresses()) as process:
        yield process


def kill_at(other: Beside, work: str, step: tuple[str, str, str]) -> None:
    """Another process does the work and is killed at the step."""
    module, function, when = step
    ended = other.work(work, PLACES[module], function, when)
    assert ended.status == -signal.SIGKILL, ended.errors
    # The database ends the dead process's session a moment later. Until then its locks are busy: whoever comes waits.
    with transaction.atomic(), scope_disabled("the test waits for the lanes of all pools"):
        list(LaneClock.objects.select_for_update().order_by("pk"))


def contested_world() -> Pool:
    """The same for each test, with the same numbers of rows."""
    built_or_put_back("contested", contested)
    return contested_pool()


@cache
def undisturbed(slots: int) -> tuple[dict[str, Any], int, int]:
    """All that the contested world says after so many slots, a boundary at which it sells, and one at which it
    settles."""
    with transaction.atomic(), scope_disabled("the test looks at all tenants"):
        pool = contested_pool()
        advance(pool, slots)
        sold = Interval.objects.filter(paid__gt=0).order_by("slot").values_list("slot", flat=True)[0]
        award = Award.objects.filter(paid__gt=0).order_by("start")[0]
        state = everything()
        transaction.set_rollback(True)
    return state, sold, award.start + 1


def contested_pool() -> Pool:
    return Pool.objects.get(slug="main")


def books_are_right() -> None:
    verdict = audit.verify()
    assert verdict.is_clean, verdict.findings
    verified = intervals_verify(pool_ids=[contested_pool().pk])
    assert verified.is_clean, verified.findings


@pytest.mark.one_case
@pytest.mark.parametrize("step", some_wide(INTERVAL_STEPS), ids="-".join)
def test_interval_survives_its_workers_death(step: tuple[str, str, str], other: Beside) -> None:
    pool = contested_world()
    expected, sold, _ = undisturbed(25)
    advance(pool, sold - 1)
    kill_at(other, f"advance main {sold}", step)
    advance(pool, 25)
    assert everything() == expected
    books_are_right()


@pytest.mark.one_case
@pytest.mark.parametrize("step", some_wide(SETTLE_STEPS), ids="-".join)
def test_settlement_survives_its_workers_death(step: tuple[str, str, str], other: Beside) -> None:
    pool = contested_world()
    expected, _, settled = undisturbed(25)
    advance(pool, settled - 1)
    kill_at(other, f"advance main {settled}", step)
    advance(pool, 25)
    assert everything() == expected
    books_are_right()


@pytest.mark.one_case
@pytest.mark.parametrize("step", some_wide(RENT_STEPS), ids="-".join)
def test_end_of_an_open_rent_survives_its_workers_death(step: tuple[str, str, str], other: Beside) -> None:
    """Its owners are paid once, and what comes back comes once."""
    world = renewing()
    advance(world.pool, 11)
    assert (world.award.rent, world.income) == ("open", 0)
    kill_at(other, "advance main 12", step)
    advance(world.pool, 12)
    award = world.award
    assert (award.rent, award.adjusted, world.income, world.held) == ("closed", 3_000_000, 10_000_000, 0)
    books_are_right()


@pytest.mark.one_case
@pytest.mark.parametrize("step", some_wide(OUTAGE_STEPS), ids="-".join)
def test_refunds_of_an_outage_survive_their_workers_death(step: tuple[str, str, str], other: Beside) -> None:
    """The market stops in the middle of what was sold; whoever comes back first dies at it."""
    pool = contested_world()
    _, sold, _ = undisturbed(25)
    with as_superuser():
        Pool.objects.update(outage_grace_seconds=10)
    stopped, back = sold + 1, sold + 6
    for slot in range(stopped):
        advance(pool, slot)
    with transaction.atomic():
        advance(pool, back)
        expected = everything()
        transaction.set_rollback(True)
    assert any(state == "void" and paid for _, _, state, paid, _ in expected["awards"])
    kill_at(other, f"advance main {back}", step)
    advance(pool, back)
    assert everything() == expected
    books_are_right()


@pytest.mark.parametrize("step", [*some_wide(INSTANT_STEPS), COMMITTED], ids="-".join)
def test_instant_answer_survives_its_workers_death(step: tuple[str, str, str], other: Beside) -> None:
    """The client heard nothing and asks again with its key."""
    pool, tenant = make_live_pool(), make_tenant("lumen")
    make_cells(make_server(pool, worker=8, ps=2), tenant, {"worker": 2, "ps": 1})
    fund(tenant)
    kill_at(other, "submit main lumen a-key", step)
    answer = submitted(pool, tenant, key="a-key")
    assert answer.repeated == (step == COMMITTED)
    with scope_disabled("the test looks at all tenants"):
        assert TrainingJob.objects.count() == 1
        award = Award.objects.get()
    assert award.paid > 0
    assert money(tenant) == (1_000_000_000 - award.paid, award.paid, 0)
    advance(pool, 12)
    assert money(tenant)[1] == 0
    books_are_right()


@pytest.mark.one_case
@pytest.mark.parametrize("when", ["before", "after"])
def test_everything_is_verified_from_where_its_process_was_killed(when: str, other: Beside) -> None:
    pool = contested_world()
    tell_history(pool)
    advance(pool, 12)
    run = everything_asked()
    kill_at(other, "audit", ("pieces", "_keep", when))
    walk = VerificationRun.objects.get(pool=pool)
    looked_at = Interval.objects.count() if when == "after" else 0
    assert (walk.number, walk.tries) == (looked_at, int(when == "before"))
    work_off()
    run.refresh_from_db()
    walk.refresh_from_db()
    assert (run.state, run.is_clean, walk.intervals) == ("done", True, Interval.objects.count())
