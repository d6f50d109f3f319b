"""What a tenant gave up and has paid for is sold again for its account, and only what it gave up."""

from __future__ import annotations

import pytest
from django.db import transaction
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduling.audit.verification import intervals_verify
from scheduling.books import charge_account
from scheduling.cluster import pool_lock
from scheduling.feed import events_append
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.read_slots import slot_table
from scheduling.jobs.submission import Submitted
from scheduling.market.settle.refunds import Cause, awards_void, refunds_post
from scheduling.market.settle.stuck import stuck_awards
from scheduling.models import Award, FreedUnits, Pool
from scheduling.operator.loss_preview import server_loss_preview
from scheduling.runs.failures import AwardFailed, ServerLost, award_fail, server_lose
from tenants.access import access_of_system
from tenants.ledger.postings import earned
from tenants.ledger.selectors import transactions_about
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import (
    again,
    book_is_sound,
    enter,
    fund,
    holdings,
    make_award,
    make_live_pool,
    member,
    moment,
    money,
    operator_money,
    publish,
    settle,
    submit,
    submitted,
)
from tests.soak.invariants import violations

pytestmark = pytest.mark.django_db


def given_up(worker: int = 4, ps: int = 1, workers: int = 4, servers: int = 1, **award):
    """Lumen gives up units on castor's server from slot 1 on; pictor comes to buy."""
    pool = make_live_pool()
    lumen, castor, pictor = (make_tenant(slug) for slug in ("lumen", "castor", "pictor"))
    server = make_server(pool, worker=worker, ps=ps)
    make_cells(server, castor, {"worker": worker, "ps": ps})
    for tenant in (lumen, pictor):
        fund(tenant)
    publish(pool, frontier=3)
    allocation = [[server.pk, 0, 3, workers, servers]]
    row = make_award(pool, lumen, slots=3, charges=[[(castor, 10)]] * 3, allocation=allocation, **award)
    enter(row)
    settle_start(row)
    job_cancel(job_id=row.job_id, by=member(lumen), at=moment(0.5))
    return pool, lumen, castor, pictor


def settle_start(award) -> None:
    """The award runs, as a decision at the boundary of its first slot leaves it."""
    with scope_disabled("the test starts an award"):
        type(award).objects.filter(pk=award.pk).update(state="running")
        type(award.job).objects.filter(pk=award.job_id).update(state="running")


def sold() -> list[float]:
    with scope_disabled("the test looks at freed units"):
        return list(FreedUnits.objects.order_by("slot", "resource").values_list("sold", flat=True))


def test_units_sold_again_pay_who_gave_them_up() -> None:
    pool, lumen, castor, pictor = given_up()
    award = again(submitted(pool, pictor, slot=0.6).award)
    assert (award.start, award.charges) == (1, [[[lumen.pk, 50_000]]])
    assert sold() == [4.0, 1.0, 0.0, 0.0]
    settle(pool, 0, 1, 2)
    assert (money(lumen), money(castor)) == ((999_999_970, 0, 50_000), (0, 0, 30))
    assert book_is_sound()


def test_beside_idle_units_each_is_paid_for_its_part() -> None:
    # Eight workers and two parameter servers are for sale in slot 1, half of them given up.
    pool, lumen, castor, pictor = given_up(worker=8, ps=2)
    award = again(submitted(pool, pictor, slot=0.6).award)
    assert award.start == 1
    (parts,) = award.charges
    assert dict(parts) == {lumen.pk: award.paid / 2, castor.pk: award.paid / 2}
    assert sold()[:2] == [2.0, 0.5]


def test_what_was_sold_again_once_is_not_sold_again_twice() -> None:
    pool, lumen, _, pictor = given_up()
    awards = [again(submitted(pool, pictor, slot=0.6).award) for _ in range(2)]
    assert [award.start for award in awards] == [1, 2]
    assert sold() == [4.0, 1.0, 4.0, 1.0]
    settle(pool, 0, 1, 2)
    assert money(lumen)[2] == 100_000


def test_the_operators_units_are_sold_again_for_who_gave_them_up_too() -> None:
    pool, lumen, pictor = make_live_pool(), make_tenant("lumen"), make_tenant("pictor")
    make_server(pool, worker=4, ps=1)
    for tenant in (lumen, pictor):
        fund(tenant)
    slow = {"chunks": 4, "epochs": 3}  # three slots
    job = submitted(pool, lumen, **slow).job
    job_cancel(job_id=job.pk, by=member(lumen), at=moment(0.5))
    submitted(pool, pictor, slot=0.6)
    settle(pool, 0, 1, 2)
    assert money(lumen) == (999_850_000, 0, 50_000)
    assert operator_money() == 150_000
    assert book_is_sound()


# --- a buyer that goes away again


def all_is_right(pool: Pool) -> bool:
    """The book is sound, every answer is decided again, and the rows say what the feed says."""
    findings = intervals_verify(pool_ids=[pool.pk]).findings
    assert not findings, findings
    return book_is_sound()


def of_the_operator(**spec: object) -> tuple[Pool, Tenant, Tenant, Award]:
    """Lumen has paid for slots 0, 1 and 2 of the operator's server, and has given up 1 and 2; pictor comes to buy."""
    pool, lumen, pictor = make_live_pool(), make_tenant("lumen"), make_tenant("pictor")
    make_server(pool, worker=4, ps=1)
    for tenant in (lumen, pictor):
        fund(tenant)
    bought = submitted(pool, lumen, chunks=4, epochs=3, **spec)
    job_cancel(job_id=bought.job.pk, by=member(lumen), at=moment(0.5))
    return pool, lumen, pictor, bought.award


def fail(award: Award, slot: int, at: float) -> None:
    answer = award_fail(award_id=award.pk, slot=slot, detail="out of disk", at=moment(at))
    assert isinstance(answer, AwardFailed), answer


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_units_whose_buyer_goes_away_are_sold_again_for_who_gave_them_up(how: str) -> None:
    pool, lumen, castor, pictor = given_up()
    first, second = (submitted(pool, pictor, slot=0.6) for _ in range(2))
    if how == "cancelled":
        job_cancel(job_id=second.job.pk, by=member(pictor), at=moment(0.7))
    else:
        fail(second.award, slot=2, at=0.7)
    assert sold() == [4.0, 1.0, 0.0, 0.0]
    third = again(submitted(pool, pictor, slot=0.8).award)
    assert (third.start, third.charges) == (2, [[[lumen.pk, 50_000]]])
    assert sold() == [4.0, 1.0, 4.0, 1.0]
    settle(pool, 0, 1, 2)
    assert (money(lumen), money(castor)) == ((999_999_970, 0, 100_000), (0, 0, 30))
    assert again(first.award).state == "done"
    assert book_is_sound()


def test_only_the_slots_that_a_failure_takes_from_a_buyer_are_for_sale_again() -> None:
    pool, _, pictor, _ = of_the_operator()
    bought = submitted(pool, pictor, slot=0.6, epochs=2)
    assert (again(bought.award).start, again(bought.award).end) == (1, 3)
    settle(pool, 0)
    fail(bought.award, slot=2, at=1.5)
    assert sold() == [4.0, 1.0, 0.0, 0.0]
    assert all_is_right(pool)
    fail(bought.award, slot=1, at=1.6)  # slot 2 is not given back twice
    assert sold() == [0.0, 0.0, 0.0, 0.0]
    assert all_is_right(pool)


def test_a_buyer_that_gives_up_while_it_runs_still_pays_and_sells_for_its_own_account() -> None:
    pool, lumen, pictor, _ = of_the_operator()
    bought = submitted(pool, pictor, slot=0.6, epochs=2)
    settle(pool, 0)
    job_cancel(job_id=bought.job.pk, by=member(pictor), at=moment(1.5))
    assert sold() == [4.0, 1.0, *[4.0, 0.0, 1.0, 0.0]]
    last = again(submitted(pool, lumen, slot=1.6).award)
    assert (last.start, last.charges) == (2, [[[pictor.pk, 50_000]]])
    settle(pool, 1, 2)
    assert (money(lumen)[2], money(pictor)[2]) == (100_000, 50_000)
    assert all_is_right(pool)


@pytest.mark.one_case
@pytest.mark.parametrize("slots", [[0], [1], [1, 0]])
def test_who_gave_up_pays_on_after_a_failure_and_gets_back_what_ran_in_no_slot_before(slots: list[int]) -> None:
    """The engine tells late, and nothing is settled: lumen ran in slots 0 and 1, and gave up in the second one."""
    pool, lumen, pictor = make_live_pool(), make_tenant("lumen"), make_tenant("pictor")
    make_server(pool, worker=4, ps=1)
    for tenant in (lumen, pictor):
        fund(tenant)
    award = submitted(pool, lumen, chunks=4, epochs=4).award
    job_cancel(job_id=award.job_id, by=member(lumen), at=moment(1.5))
    first, second = (again(submitted(pool, pictor, slot=1.6).award) for _ in range(2))
    assert [each.charges for each in (first, second)] == [[[[lumen.pk, 50_000]]]] * 2
    for slot in slots:
        fail(award, slot=slot, at=1.8)
        assert again(award).cut_at == slot
        assert all_is_right(pool)
    lost = 2 - min(slots)
    assert (again(award).state, again(award).returned) == ("running", 50_000 * lost)
    assert sold() == [4.0, 1.0, 4.0, 1.0]
    assert {slot for *_, slot in holdings(pool)} == {*range(min(slots)), 2, 3}
    for slot in range(4):
        settle(pool, slot)
        assert all_is_right(pool)
    assert again(award).state == "ended"
    assert money(lumen) == (1_000_000_000 - 50_000 * (4 - lost), 0, 100_000)
    assert operator_money() == 50_000 * (4 - lost)
    assert not stuck_awards()
    assert not violations()
    table = slot_table(pool, again(award), moment(5))
    assert [row.state for row in table.rows] == ["returned" if min(slots) <= n < 2 else "settled" for n in range(4)]
    with scope_disabled("the test looks at what the job pays"):
        (account,) = charge_account(again(award.job))
    assert [slot.slot for slot in account.slots if slot.state == "returned"] == list(range(min(slots), 2))


def test_who_gave_up_in_the_slot_in_which_a_server_is_lost_gets_that_slot_back_and_pays_on() -> None:
    """Lumen's gang was on two servers; what it gave up is sold again on each of them before one is lost."""
    pool, lumen, pictor = make_live_pool(), make_tenant("lumen"), make_tenant("pictor")
    servers = [make_server(pool, name, worker=2, ps=1) for name in ("s1", "s2")]
    for tenant in (lumen, pictor):
        fund(tenant)
    publish(pool, frontier=3)
    allocation = [[server.pk, 0, 3, 2, 1] for server in servers]
    award = make_award(pool, lumen, slots=3, charges=[[(None, 10)]] * 3, allocation=allocation, on_operator=allocation)
    enter(award)
    settle_start(award)
    job_cancel(job_id=award.job_id, by=member(lumen), at=moment(0.5))
    bought = [again(submitted(pool, pictor, slot=0.6, chunks=2, max_workers=2).award) for _ in range(2)]
    assert {(each.start, each.allocation[0][0]) for each in bought} == {(1, server.pk) for server in servers}
    preview = server_loss_preview(server=servers[0], at=moment(0.8))
    answer = server_lose(server=servers[0], by=access_of_system("the test"), reason="fire", at=moment(0.8))
    assert isinstance(answer, ServerLost)
    assert answer == preview
    assert (again(award).state, again(award).cut_at, again(award).returned) == ("running", 0, 10)
    standing = [each for each in map(again, bought) if each.state != "void"]
    assert [each.allocation[0][0] for each in standing] == [servers[1].pk]
    settle(pool, 0, 1, 2)
    income = sum(each.paid for each in standing)
    assert income > 0
    assert (money(lumen), operator_money()) == ((1_000_000_000 - 20, 0, income), 20)
    assert not violations()
    assert not stuck_awards()


@pytest.mark.parametrize("how", ["server", "engine"])
def test_a_free_award_that_was_given_up_in_the_slot_of_a_failure_has_nothing_to_get_back(how: str) -> None:
    pool, lumen = make_live_pool(), make_tenant("lumen")
    server = make_server(pool, "s1", worker=4, ps=1)
    publish(pool, frontier=3)
    allocation = [[server.pk, 0, 3, 4, 1]]
    award = make_award(pool, lumen, slots=3, phase="own", allocation=allocation, on_operator=allocation)
    enter(award)
    settle_start(award)
    job_cancel(job_id=award.job_id, by=member(lumen), at=moment(0.5))
    if how == "server":
        answer = server_lose(server=server, by=access_of_system("the test"), reason="fire", at=moment(0.8))
        assert isinstance(answer, ServerLost)
    else:
        fail(award, slot=0, at=0.8)
    assert (again(award).state, again(award).cut_at, again(award).returned) == ("running", 0, 0)
    settle(pool, 0, 1, 2)
    assert money(lumen) == (0, 0, 0)
    assert not violations()
    assert not stuck_awards()


def test_what_the_platform_took_before_a_version_is_not_the_givers_to_sell_when_the_buyer_goes() -> None:
    """Older versions made an award void that was given up, so that all its money returned. Such rows stay."""
    pool, lumen, pictor, award = of_the_operator()
    first, second = (submitted(pool, pictor, slot=0.6) for _ in range(2))
    job_cancel(job_id=first.job.pk, by=member(pictor), at=moment(0.7))
    with scope_disabled("the test makes the row of an older version"), transaction.atomic():
        pool_lock(pool)
        voided = awards_void(pool, [again(award)], 0, Cause("engine_error", {"detail": "out of disk"}), moment(0.8))
        events_append(voided.events)
        refunds_post(voided.postings)
    with scope_disabled("the test looks at freed units"):
        assert list(FreedUnits.objects.values_list("slot", "sold").distinct().order_by("sold")) == [(2, 1.0), (2, 4.0)]
    assert all_is_right(pool)
    job_cancel(job_id=second.job.pk, by=member(pictor), at=moment(0.9))
    assert holdings(pool) == {}
    (charges,) = again(submitted(pool, pictor, slot=0.95, epochs=1).award).charges
    assert [owner for owner, _ in charges] == [0]
    assert money(lumen)[2] == 0
    assert all_is_right(pool)


def test_a_verification_names_the_slots_that_came_back_to_who_gave_up() -> None:
    pool, _, _, award = of_the_operator()
    fail(award, slot=0, at=0.8)
    assert all_is_right(pool)
    for tampered in ({"pays_from": 2}, {"cut_at": 1, "pays_from": None}):
        with transaction.atomic():
            with scope_disabled("the test changes a row"):
                Award.objects.filter(pk=award.pk).update(**tampered)
            whats = {finding.what for finding in intervals_verify(pool_ids=[pool.pk]).findings}
            assert any("pays_from" in what for what in whats), whats
            assert any("what is held" in what for what in whats), whats
            transaction.set_rollback(True)
    assert all_is_right(pool)


def test_a_verification_names_units_that_are_sold_again_for_less_than_answers_say() -> None:
    pool, _, pictor, _ = of_the_operator()
    first, second = (submitted(pool, pictor, slot=0.6) for _ in range(2))
    job_cancel(job_id=second.job.pk, by=member(pictor), at=moment(0.7))
    assert all_is_right(pool)
    with scope_disabled("the test changes a row"):
        FreedUnits.objects.filter(slot=again(first.award).start).update(sold=0.5)
    assert len(intervals_verify(pool_ids=[pool.pk]).findings) == 2


# --- nobody earns twice

ACTS = st.lists(st.sampled_from(["buy", "buy", "take back", "fail", "settle"]), min_size=2, max_size=8)


@pytest.mark.wide
@given(passed=st.integers(0, 2), acts=ACTS, back=st.integers(0, 2))
@example(passed=0, acts=["buy", "fail"], back=0)
@example(passed=1, acts=["buy", "fail", "buy", "fail"], back=1)
@settings(max_examples=10)
def test_who_sells_a_slot_again_has_paid_for_it_whatever_fails(passed: int, acts: list[str], back: int) -> None:
    """Lumen rents the operator's server for five slots, and gives it up in the third at the latest. Its engine tells of
    failures late, each of a slot before the last one's; buyers come and go. In a slot in which lumen earned it paid,
    and nothing is left over at the end."""
    with transaction.atomic():
        pool, lumen, pictor = make_live_pool(), make_tenant("lumen"), make_tenant("pictor")
        make_server(pool, worker=4, ps=1)
        for tenant in (lumen, pictor):
            fund(tenant)
        award, settled = submitted(pool, lumen, chunks=4, epochs=5).award, -1
        bought: list[Award] = []
        job_cancel(job_id=award.job_id, by=member(lumen), at=moment(passed + 0.1))
        for number, act in enumerate(acts):
            now = max(passed, settled + 1) + 0.2 + number / 100
            if act == "buy":
                answer = submit(pool, pictor, slot=now)
                bought += [answer.award] if isinstance(answer, Submitted) and answer.award else []
            elif act == "take back" and bought:
                job_cancel(job_id=bought[number % len(bought)].job_id, by=member(pictor), at=moment(now))
            elif act == "fail":
                award_fail(award_id=award.pk, slot=max(passed - back, 0), detail="out of disk", at=moment(now))
                back += 1
            elif act == "settle":
                settled += 1
                settle(pool, settled)
            assert not (flaws := violations()), flaws
        for slot in range(settled + 1, 12):
            settle(pool, slot)
        assert all_is_right(pool)
        assert not stuck_awards()
        assert not (flaws := violations()), flaws
        paid, sold_slots = settled_slots(award), {slot for each in bought for slot in settled_slots(each, lumen)}
        assert sold_slots <= paid
        assert len(paid) * (award.paid // 5) == award.paid - again(award).returned
        transaction.set_rollback(True)


def settled_slots(award: Award, owner: Tenant | None = None) -> set[int]:
    """Return the slots that the book says the award has paid for; with an owner, those that paid it."""
    earner = earned(owner.pk).id if owner else None
    with scope_disabled("the test reads the book"):
        about = transactions_about(subject=f"job:{award.job_id}")
    return {
        row.facts["slot"]
        for row in about
        if row.kind == "settle" and (earner is None or any(account.id == earner for account, _ in row.entries))
    }
