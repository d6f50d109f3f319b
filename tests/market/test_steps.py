"""One interval, one settlement and one admission can each be followed in the log by one id."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from scheduling.market.settle.slots import slot_settle
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import fund, make_live_pool, submitted
from tests.scheduling.markets import at, make_renting, run_slots

pytestmark = pytest.mark.django_db


def steps_of(lines: list[EventDict], work: str) -> list[str]:
    return [line["event"] for line in lines if line.get("id") == work]


def test_operator_follows_the_market_in_its_log() -> None:
    pool, _, renter = make_renting()
    with capture_logs() as lines:
        job = submitted(pool, renter, lane="batch").job
        run_slots(pool, 0, 1)
        slot_settle(pool_id=pool.pk, slot=0, at=at(pool, 1))
        slot_settle(pool_id=pool.pk, slot=1, at=at(pool, 2))
    assert steps_of(lines, f"admission job {job.pk}") == ["store", "estimate", "tell"]
    assert steps_of(lines, f"interval {pool.slug}:1") == ["gather", "decide", "store", "refuse", "book", "hold"]
    assert steps_of(lines, f"settlement {pool.slug}:1") == ["gather", "move", "pay", "tell"]
    assert all(line["ms"] >= 0 for line in lines)
    pay = next(line for line in lines if line["id"] == f"settlement {pool.slug}:1" and line["event"] == "pay")
    assert pay["paid"] == pay["owners"] + pay["operator"] > 0


def test_slot_in_which_nothing_happens_is_for_whoever_looks_for_faults() -> None:
    pool, _, _ = make_renting()
    with capture_logs() as lines:
        run_slots(pool, 0, 0)
        slot_settle(pool_id=pool.pk, slot=0, at=at(pool, 1))
    assert {line["log_level"] for line in lines} == {"debug"}


def test_instant_answer_is_followed_by_its_job() -> None:
    pool, renter = make_live_pool(), make_tenant("lumen")
    make_server(pool, worker=4, ps=1)
    fund(renter)
    with capture_logs() as lines:
        job = submitted(pool, renter, lane="instant").job
        poor = submitted(pool, renter, lane="instant", max_price=0.0).job
    assert steps_of(lines, f"admission job {job.pk}") == ["store", "answer", "award"]
    assert steps_of(lines, f"admission job {poor.pk}") == ["store", "answer", "refuse"]
