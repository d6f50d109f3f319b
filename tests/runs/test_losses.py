"""A job that the platform loses again and again: it rests longer each time, and is given up in the end."""

from __future__ import annotations

import numpy as np
import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.audit.verification.lives import JobEvent, life_of
from scheduling.market.settle.refunds import Next
from scheduling.market.view.batch import batch_view, glance
from scheduling.models import JobFloor, LaneClock, Pool, Server
from scheduling.operator.server_states import server_return
from scheduling.reasons import reason_sentence
from scheduling.runs.failures import AwardFailed, ServerLost, after_losses, award_fail, server_lose
from tenants.access import Refused, access_of_system
from tenants.scoping import scope, scope_disabled
from tests.market.test_outages import at, market, money_is_right
from tests.scheduling.builders import make_cells, make_server
from tests.scheduling.clocks import advance
from tests.scheduling.live import again, events, money
from tests.scheduling.markets import award_of, make_market, make_waiting, run_slots

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("losses", "following"),
    [
        (0, Next()),
        (1, Next()),
        (2, Next(not_before=12)),
        (4, Next(not_before=18)),
        (5, Next(given_up=True)),
        (9, Next(given_up=True)),
    ],
)
def test_a_job_rests_longer_after_each_loss_and_is_given_up_in_the_end(losses: int, following: Next) -> None:
    assert after_losses(losses, 10) == following


def test_a_job_that_rests_keeps_its_arrival_and_is_not_looked_at_before_its_slot() -> None:
    pool, _, _, award = market()
    advance(pool, 2.2)
    failed = award_fail(award_id=award.pk, slot=2, detail="out of disk", at=at(2.5), losses=2)
    assert isinstance(failed, AwardFailed)
    assert failed.waits
    job = again(award.job)
    assert (job.state, job.reason_code, job.arrival, job.not_before) == ("queued", "engine_error", 0.0, 4)
    assert job.reason_numbers == {"detail": "out of disk", "refunded": 40, "losses": 2, "next_slot": 4}
    with scope_disabled("the test asks what the lane sees"):
        clock = LaneClock.objects.get(pool=pool, lane="batch")
        assert [list(batch_view(pool, slot, clock, at(slot)).waiting) for slot in (3, 4)] == [[], [job.pk]]
        assert [list(glance(pool, slot, clock).waiting) for slot in (3, 4)] == [[], [job.pk]]
    assert money_is_right(pool)


def test_a_job_that_is_given_up_has_failed_with_its_refund_and_waits_no_more() -> None:
    pool, lumen, castor, award = market()
    advance(pool, 2.2)
    failed = award_fail(award_id=award.pk, slot=2, detail="out of disk", at=at(2.5), losses=5)
    assert isinstance(failed, AwardFailed)
    assert (failed.refunded, failed.waits) == (40, False)
    job = again(award.job)
    assert (job.state, job.reason_code, job.ended_at) == ("failed", "given_up", at(2.5))
    assert job.reason_numbers == {"detail": "out of disk", "refunded": 40, "losses": 5}
    assert (money(lumen), money(castor)) == ((1_000_000_000 - 20, 0, 0), (0, 0, 20))
    assert [event.data["reason"] for event in events("job_failed")] == ["given_up"]
    assert events("job_requeued") == []
    assert "5 times in a row" in reason_sentence(pool, job.reason_code, job.reason_numbers)
    advance(pool, 9)
    assert again(award.job).state == "failed"
    assert money_is_right(pool)


# --- floors of a lost server


def overlaps(pool: Pool, slot: int) -> list[str]:
    """Where the floors that a decision before `slot` would see take more of a tenant's cells than it has."""
    clock = LaneClock.objects.get(pool=pool, lane="batch")
    with scope_disabled("the test looks at what is promised to all"):
        view = batch_view(pool, slot, clock, pool.slot_start(slot)).view
    cells = view.cluster.cells
    assert cells is not None
    used: dict[tuple[int, int], np.ndarray] = {}
    for floor in view.floors.values():
        job = view.jobs[floor.job]
        worker, ps = job.worker_types[floor.worker_type].demand, job.ps_types[floor.ps_type].demand
        for row in floor.allocation:
            for at_slot in range(max(row.start, slot), row.end):
                units = used.setdefault((job.tenant, at_slot), np.zeros((len(worker), cells.shape[2])))
                units[:, row.server] += row.workers * worker + row.ps * ps
    return [
        f"tenant {tenant}, slot {at_slot}"
        for (tenant, at_slot), units in sorted(used.items())
        if (units > cells[:, tenant] + 1e-9).any()
    ]


def test_a_floor_on_a_lost_server_stays_void_when_the_server_comes_back() -> None:
    """Its job was served otherwise; the cells on its other server were promised to another job meanwhile."""
    pool, (lumen, castor) = make_market("lumen", "castor", clock_first=8, clock_cap=8, clock_restart=False)
    for number, tenant in enumerate((lumen, castor), 3):
        server = make_server(pool, f"s{number:02}", worker=4, ps=2)
        make_cells(server, tenant, {"worker": 4, "ps": 2})
    both = {"chunks": 8, "max_workers": 8, "min_workers": 8, "worker_mbps": 1.0, "ps_mbps": 8.0}  # on two servers
    make_waiting(pool, lumen, epochs=7, **both)
    served = make_waiting(pool, lumen, epochs=2, **both)
    run_slots(pool, 0, 8)
    award = award_of(served)
    assert (award.phase, award.start, award.end) == ("shared", 8, 12)
    with scope(lumen):
        floor = JobFloor.objects.get(job=served)
    assert (floor.start, floor.end, len(floor.allocation)) == (22, 26, 2)
    run_slots(pool, 9, 14)
    server = Server.objects.get(name="s01")
    change = {"by": access_of_system("test"), "reason": "it burns"}
    lost = server_lose(server=server, at=pool.slot_start(14), **change)
    assert not isinstance(lost, Refused)
    waiting = make_waiting(pool, lumen, arrival=15.5, epochs=6)
    run_slots(pool, 15, 19)
    with scope(lumen):
        again_promised = JobFloor.objects.get(job=waiting)
    assert (again_promised.start, again_promised.end) == (16, 28)
    assert server_return(server=server, at=pool.slot_start(20), **change) is None
    run_slots(pool, 20, 23)
    assert overlaps(pool, 24) == []
    run_slots(pool, 24, 24)
    assert not intervals_verify(pool_ids=[pool.pk]).findings


def test_a_floor_given_once_the_server_is_back_stands_however_late_the_clock_is() -> None:
    """The clock stood still as the server went and came: slots that had begun by then are decided afterwards."""
    pool, (lumen,) = make_market("lumen", clock_first=4, clock_cap=4, clock_restart=False)
    run_slots(pool, 0, 3)
    jobs = [make_waiting(pool, lumen, epochs=8) for _ in range(2)]
    server, change = Server.objects.get(name="s01"), {"by": access_of_system("test"), "reason": "a cable"}
    lost = server_lose(server=server, at=pool.slot_start(9), **change)
    assert not isinstance(lost, Refused)
    assert server_return(server=server, at=pool.slot_start(9), **change) is None
    run_slots(pool, 4, 12)  # late: the boundaries at 4 and 8 are before the loss
    with scope(lumen):
        floors = {floor.job_id: floor for floor in JobFloor.objects.all()}
    assert {job.pk for job in jobs} == set(floors)
    assert overlaps(pool, 13) == []
    assert not intervals_verify(pool_ids=[pool.pk]).findings


@pytest.mark.parametrize(("elastic", "attempt"), [(False, 2), (True, 0)])
def test_the_verification_counts_the_attempt_that_ended_with_giving_up(elastic: bool, attempt: int) -> None:
    """Every loss ends an attempt, the last one too; where slots are awarded one by one there are none."""
    rows = [
        ("job_submitted", {"lane": "batch"}),
        ("job_requeued", {"cause": "engine_error", "cut_at": 3}),
        ("job_failed", {"reason": "given_up", "numbers": {"losses": 5, "refunded": 40}}),
    ]
    life = life_of([JobEvent(kind, at(2.5), data) for kind, data in rows], elastic=elastic)
    assert life is not None
    assert (life.state, life.attempt) == ("failed", attempt)


@pytest.mark.parametrize(
    ("facts", "not_before"), [({}, 11), ({"from_slot": 1}, 1), ({"from_slot": 1, "next_slot": 4}, 4)]
)
def test_the_verification_lets_a_job_wait_for_its_old_slots_only_where_an_older_version_did(
    facts: dict[str, int], not_before: int
) -> None:
    requeued = {"cause": "server_lost", "cut_at": 11, **facts}
    events = [JobEvent("job_submitted", at(0), {"lane": "instant"}), JobEvent("job_requeued", at(1), requeued)]
    life = life_of(events, elastic=False)
    assert life is not None
    assert life.not_before == not_before


def test_cells_that_a_lost_gang_still_pays_for_are_promised_to_nobody_by_a_late_clock() -> None:
    """The gang is lost in slot 7 while the clock still has boundary 5 to decide: there its cells are in use until 7."""
    pool, (lumen,) = make_market("lumen")
    first = make_waiting(pool, lumen, epochs=16)
    advance(pool, 3.5)
    award = award_of(first)
    assert (award.phase, award.start) == ("own", 1)
    assert award.end > 8
    second = make_waiting(pool, lumen, 2.5)
    failed = award_fail(award_id=award.pk, slot=7, detail="out of disk", at=at(7.5))
    assert isinstance(failed, AwardFailed)
    advance(pool, 7.5)
    with scope_disabled("the test looks at what was promised"):
        floor = JobFloor.objects.get(job=second)
    assert floor.start == 7
    advance(pool, 30.5)
    assert [again(job).state for job in (first, second)] == ["running", "finished"]
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    assert money_is_right(pool)


def test_cells_of_a_gang_on_a_server_that_was_lost_after_its_end_are_in_use_until_then_by_a_late_clock() -> None:
    """The gang had ended when one of its two servers was lost; the clock has boundaries before its end to decide."""
    pool, (lumen,) = make_market("lumen")
    lost = make_server(pool, "s02", worker=4, ps=2)
    make_cells(lost, lumen, {"worker": 4, "ps": 2})
    first = make_waiting(pool, lumen, chunks=6, minibatches=4, min_workers=6, max_workers=6, epochs=4)
    advance(pool, 1.5)
    award = award_of(first)
    assert (award.phase, award.start, award.end) == ("own", 1, 9)
    assert {row[0] for row in award.allocation} == {server.pk for server in pool.servers.all()}
    second = make_waiting(pool, lumen, 2.5)
    change = {"by": access_of_system("the engine"), "reason": "a fire"}
    assert isinstance(server_lose(server=lost, at=at(9.5), **change), ServerLost)
    advance(pool, 9.5)
    with scope_disabled("the test looks at what was promised"):
        floor = JobFloor.objects.get(job=second)
    assert floor.start == 9
    advance(pool, 30.5)
    assert [again(job).state for job in (first, second)] == ["finished", "finished"]
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    assert money_is_right(pool)
