"""A gang that is lost while the settlement lags: what was delivered is paid for, whoever is late with what."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command

from scheduling.app.clock import pool_advance
from scheduling.audit.verification.money import money_verify
from scheduling.jobs.cancel_preview import cancel_preview
from scheduling.jobs.cancellation import job_cancel
from scheduling.market.settle.stuck import stuck_awards
from scheduling.models import Award, FreedUnits, JobState
from scheduling.runs.failures import AwardFailed, ServerLost, award_fail, server_lose
from tenants import history
from tenants.access import access_of_system
from tenants.ledger import audit
from tenants.models import AuditEntry
from tenants.scoping import scope_disabled
from tests.ledger.builders import tamper
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import (
    again,
    book_is_sound,
    enter,
    events,
    fund,
    holdings,
    make_award,
    make_live_pool,
    member,
    moment,
    money,
    settle,
    submitted,
)

pytestmark = pytest.mark.django_db

SLOTS = 6


def market(**fields):
    """Lumen rents castor's server for six slots at ten micro-credits each; slot 0 is settled, and then nobody ticks."""
    pool, lumen, castor = make_live_pool(**fields), make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, "s01", worker=8, ps=2)
    make_cells(server, castor, {"worker": 8, "ps": 2})
    fund(lumen)
    allocation = [[server.pk, 0, SLOTS, 4, 1]]
    award = make_award(pool, lumen, slots=SLOTS, charges=[[(castor, 10)]] * SLOTS, allocation=allocation)
    enter(award)
    settle(pool, 0)
    return pool, lumen, castor, server, award


def fail(award: Award, slot: int, now: float) -> AwardFailed:
    answer = award_fail(award_id=award.pk, slot=slot, detail="smoke", at=moment(now))
    assert isinstance(answer, AwardFailed), answer
    return answer


def money_is_right(award: Award, settled: int) -> bool:
    with scope_disabled("the test looks at the book"):
        faults = money_verify([again(award)], settled)
    return not faults and not stuck_awards() and book_is_sound()


def test_slots_that_were_delivered_before_a_loss_are_settled_when_their_turn_comes() -> None:
    pool, lumen, castor, _, award = market()
    failed = fail(award, slot=3, now=3.5)
    assert (failed.slot, failed.refunded) == (3, 30)
    assert money(lumen) == (1_000_000_000 - 30, 20, 0)
    assert money_is_right(award, 0)
    settle(pool, 1, 2, 3)
    assert (money(lumen), money(castor)) == ((1_000_000_000 - 30, 0, 0), (0, 0, 30))
    assert money_is_right(award, 3)


def test_a_lost_server_delivered_the_slots_before_the_one_that_runs() -> None:
    pool, lumen, castor, server, award = market()
    lost = server_lose(server=server, by=access_of_system("the tests"), reason="smoke", at=moment(3.2))
    assert isinstance(lost, ServerLost)
    assert lost.refunded == 30
    settle(pool, 1, 2, 3)
    assert (money(lumen)[1], money(castor)) == (0, (0, 0, 30))
    assert money_is_right(award, 3)


def test_an_engine_that_tells_of_an_earlier_loss_returns_more() -> None:
    pool, lumen, castor, _, award = market()
    fail(award, slot=4, now=4.5)
    earlier = fail(award, slot=2, now=4.6)
    assert (earlier.slot, earlier.refunded, earlier.waits, earlier.repeated) == (2, 40, False, False)
    assert fail(award, slot=3, now=4.7).repeated
    refunds = [event.data["refunded"] for kind in ("job_requeued", "award_cut") for event in events(kind)]
    assert refunds == [20, 20]  # each what came back with it
    assert again(award.job).attempt == 1
    settle(pool, 1, 2, 3)
    assert (money(lumen), money(castor)) == ((1_000_000_000 - 20, 0, 0), (0, 0, 20))
    assert money_is_right(award, 3)


def test_a_market_that_stood_still_refunds_what_was_said_to_be_delivered() -> None:
    """The engine told of a loss in slot 4 while the clock was silent; the silence is an outage from slot 1 on."""
    pool, _, castor, _, award = market(outage_grace_seconds=20)
    pool_advance(pool_id=pool.pk, at=moment(1.1))
    fail(award, slot=5, now=5.5)
    pool_advance(pool_id=pool.pk, at=moment(9.1))
    row = again(award)
    assert (row.state, row.cut_at, row.returned) == ("void", 2, 40)
    assert money(castor) == (0, 0, 20)
    assert money_is_right(award, 8)  # the job was awarded other slots since


def test_a_late_clock_gives_no_job_a_slot_that_its_lost_award_pays_for() -> None:
    """An instant award of slots 1 and 2 is lost in slot 2, while the batch lane has yet to decide about slot 1."""
    pool, lumen = make_live_pool(clock_first=2), make_tenant("lumen")
    make_server(pool, "s01", worker=8, ps=2)  # the operator's, for the instant lane
    make_cells(make_server(pool, "s02", worker=8, ps=2), make_tenant("castor"), {"worker": 8, "ps": 2})
    fund(lumen)
    pool_advance(pool_id=pool.pk, at=moment(0.1))
    award = submitted(pool, lumen, slot=0.5, epochs=2).award
    assert (award.start, award.end) == (1, 3)
    fail(award, slot=2, now=2.5)
    assert again(award.job).not_before == 2  # the boundary before slot 1 is still to be decided
    for slot in (2.6, *range(3, 16)):
        pool_advance(pool_id=pool.pk, at=moment(slot))
    with scope_disabled("the test looks at all awards of the job"):
        first, second = Award.objects.filter(job=award.job).order_by("pk")
    assert first.paid_until == 2 <= second.start
    assert money_is_right(first, 14)
    assert money_is_right(second, 14)


def test_units_of_a_lost_gang_are_its_own_up_to_the_cut() -> None:
    pool, _, _, _, award = market()
    fail(award, slot=3, now=3.5)
    assert {slot for *_, slot in holdings(pool, "batch")} == {0, 1, 2}


def test_a_run_that_a_late_clock_has_not_started_cannot_be_cancelled_as_if_it_never_began() -> None:
    pool, lumen, castor, server, _ = market()
    rows = [[server.pk, 2, 5, 4, 1]]
    award = make_award(pool, lumen, start=2, slots=3, charges=[[(castor, 7)]] * 3, allocation=rows)
    enter(award)
    with scope_disabled("the test asks before it cancels"):
        preview = cancel_preview(award.job, moment(3.5))
    assert (preview.state, preview.returned, preview.still_paid) == ("running", 0, 21)
    job = job_cancel(job_id=award.job_id, by=member(lumen), at=moment(3.5))
    assert job.state == JobState.CANCELLED
    assert (again(award).state, again(award).cut_at, again(award).returned) == ("booked", 4, 0)
    with scope_disabled("the test looks at what was given up"):
        assert {row.slot for row in FreedUnits.objects.filter(award=award)} == {4}
    settle(pool, 1, 2, 3, 4)
    assert again(award).state == "ended"
    assert money(castor) == (0, 0, 50 + 21)
    assert money_is_right(award, 4)


# --- what an older version left behind


def left_behind():
    """As it was: the award is void from slot 3 on, and slots 1 and 2 were passed over."""
    pool, lumen, castor, _, award = market()
    fail(award, slot=3, now=3.5)
    tamper("UPDATE scheduling_laneclock SET settled_slot = 3 WHERE pool_id = %s AND lane = 'batch'", [pool.pk])
    return pool, lumen, castor, award


def findings() -> list[str]:
    with scope_disabled("the audit reads everybody's entries"):
        return [str(finding) for finding in audit.verify().findings]


def command(*words: str) -> tuple[str, int]:
    out = StringIO()
    try:
        call_command("settle_stuck", *words, stdout=out)
    except SystemExit as end:
        return out.getvalue(), int(end.code or 0)
    return out.getvalue(), 0


def test_the_audit_of_the_book_names_credits_that_are_held_for_what_is_over() -> None:
    _, _, _, award = left_behind()
    assert findings() == [
        f"held: award {award.pk}: award {award.pk} of job {award.job_id} (void): 20 micro-credits are held, "
        "0 are owed for slots to come, slots 1, 2 were delivered and not paid for"
    ]


def test_the_command_shows_them_and_then_pays_the_owners_once() -> None:
    _, lumen, castor, award = left_behind()
    output, code = command()
    assert (f"award {award.pk} of job {award.job_id} (void)" in output, code, money(castor)[2]) == (True, 0, 10)
    assert command("--apply") == (
        "1 awards settled, 0.000020 credits to the owners\nnothing is held for what is over\n",
        0,
    )
    assert (money(lumen), money(castor)) == ((1_000_000_000 - 30, 0, 0), (0, 0, 30))
    entry = AuditEntry.objects.get(action="settle_stuck")
    assert entry.after == {"awards": [award.pk], "amount": 20}
    assert command("--apply")[0].startswith("0 awards settled")
    assert AuditEntry.objects.filter(action="settle_stuck").count() == 1
    assert money_is_right(award, 3)
    assert isinstance(history.verify(), history.VerifiedHistory)


def test_what_no_slot_explains_is_shown_and_stays() -> None:
    _, lumen, _, award = left_behind()
    tamper("UPDATE scheduling_award SET cut_at = 2 WHERE id = %s", [award.pk])
    output, code = command("--apply")
    assert "1 awards settled, 0.000010 credits" in output
    assert "its slots do not explain the difference" in output
    assert (code, money(lumen)[1]) == (1, 10)
