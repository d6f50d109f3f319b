"""What pages and programs say that a job in pieces pays, has set aside and would get back is what the book says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest
from django.test import Client
from django.urls import reverse

from scheduling.books import charge_account
from scheduling.books.read_statements import statement_view
from scheduling.cluster import pool_overview
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.fairness.read_accounts import CertificateRow
from scheduling.fairness.read_interval import interval_account
from scheduling.feed import EventKind, kind_of, message_text
from scheduling.jobs.cancel_preview import CancelPreview, cancel_preview
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.read_arrays import array_sums
from scheduling.jobs.read_estimates import estimates_record
from scheduling.jobs.read_list import row_view, with_awards
from scheduling.jobs.read_page import JobPage, job_page
from scheduling.jobs.read_rows import job_rows
from scheduling.market.reads import awards_seen
from scheduling.market.reads.awards import award_rows
from scheduling.market.reads.share import MoneyNow, share_view
from scheduling.models import Interval, JobArray, JobState, Pool, Server, StartEstimate, TrainingJob
from scheduling.operator.loss_preview import server_loss_preview
from scheduling.runs.failures import ServerLost, award_fail, server_lose
from tenants.access import access_of_system
from tenants.ledger.amounts import MICRO, shown
from tenants.ledger.postings import available, held
from tenants.ledger.selectors import transactions_about
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.market.test_parts_worth_nothing import SOON, World, fail, world_of
from tests.market.test_pieces import World as Prorated
from tests.market.test_pieces import pieces_market
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import events, member
from tests.scheduling.pages import client_as, text_of
from tests.scheduling.renewing import renewing

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """Parts are worth nothing, and all that is bought stays held until the job is done."""
    return world_of(clock_restart=False)


@pytest.fixture
def prorated() -> Prorated:
    return pieces_market()


@dataclass(frozen=True)
class Book:
    """What all postings about a job come to, in micro-credits. Everything that it ever set aside is one of the rest."""

    set_aside: int
    settled: int
    owners_part: int
    back: int
    held: int

    @property
    def paid(self) -> int:
        return self.set_aside - self.back


def book_of(job: TrainingJob) -> Book:
    sums = {"hold": 0, "settle": 0, "cancel": 0, "back": 0, "held": 0}
    mine, hold = available(job.tenant_id), held(job.tenant_id)
    with scope_disabled("the test looks at the book"):
        for posting in transactions_about(subject=f"job:{job.pk}"):
            for account, amount in posting.entries:
                sums["held"] += amount if account == hold else 0
                sums["back"] += amount if account == mine and posting.kind != "hold" else 0
                sums["hold"] -= amount if account == mine and posting.kind == "hold" else 0
                sums["settle"] -= amount if account == hold and posting.kind == "settle" else 0
                sums["cancel"] -= amount if account in (mine, hold) and posting.kind == "cancel" else 0
    return Book(sums["hold"], sums["settle"], sums["cancel"], sums["back"], sums["held"])


def agrees(world: World | Prorated, job: TrainingJob, slot: float) -> JobPage:
    """The list, the row for programs, the job's page and its charge against the book; the page."""
    book, at = book_of(job), moment(world.pool, slot)
    with scope(job.tenant):
        row = TrainingJob.objects.select_related("pool", "tenant", "submitted_by").get(pk=job.pk)
        [program] = job_rows([row])
        [list_row] = with_awards(TrainingJob.objects.select_related("pool", "tenant").filter(pk=job.pk))
        page, charge = job_page(row, at=at, money=True), charge_account(row)
    assert (program.held, program.view.price, row_view(list_row).price) == (book.held, book.paid, book.paid)
    assert page.view.price == book.paid
    assert page.slots is not None
    slots = (page.slots.paid, page.slots.settled, page.slots.kept, page.slots.returned, page.slots.held)
    assert slots == (book.set_aside, book.settled, book.owners_part, book.back, book.held)
    sums = dict.fromkeys(("settled", "held", "returned"), 0)
    for slot_account in (one for account in charge for one in account.slots):
        sums[slot_account.state] += slot_account.paid
    assert (sums["settled"], sums["held"]) == (book.settled, book.held)
    assert [account.difference for account in charge] == [0] * len(charge)
    return page


def preview(world: World | Prorated, job: TrainingJob, slot: float) -> CancelPreview:
    with scope(job.tenant):
        row = TrainingJob.objects.select_related("pool").get(pk=job.pk)
        return cancel_preview(row, moment(world.pool, slot))


def take_back(world: World | Prorated, job: TrainingJob, slot: float) -> None:
    answer = job_cancel(job_id=job.pk, by=member(job.tenant), at=moment(world.pool, slot))
    assert isinstance(answer, TrainingJob)


# -- what is held ----------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_what_earlier_pieces_hold_is_told_while_another_one_runs(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    agrees(world, job, 18.5)
    assert book_of(job).held == sum(award.paid for award in world.awards(job))
    advance(world.pool, 56.5)
    agrees(world, job, 56.5)
    assert book_of(job).held == 0


@pytest.mark.wide
def test_what_earlier_pieces_hold_is_told_while_the_job_waits_after_a_loss_and_once_it_has_expired(
    world: World,
) -> None:
    job = world.long_job(value={**SOON, "deadline": 66.0})
    advance(world.pool, 17.5)
    world.needs_its_cells(arrival=17.0)
    fail(world, world.awards(job)[1], 18)
    advance(world.pool, 20.5)
    assert (world.row(job).state, world.row(job).attempt) == (JobState.QUEUED, 1)
    page = agrees(world, job, 20.5)
    assert page.pieces is not None
    assert page.pieces.paid == book_of(job).paid
    advance(world.pool, 56.5)
    assert world.row(job).state == JobState.EXPIRED
    page = agrees(world, job, 56.5)
    assert book_of(job).paid > 0  # of the lost piece, what was delivered


def test_the_price_of_an_array_counts_what_its_members_paid_before_a_loss(prorated: Prorated) -> None:
    job = prorated.long_job()
    advance(prorated.pool, 18.5)
    with scope(job.tenant), as_superuser():
        array = JobArray.objects.create(
            tenant=job.tenant, pool=job.pool, name="many", indexes=[0], submitted_at=job.submitted_at
        )
        TrainingJob.objects.filter(pk=job.pk).update(array=array, array_place=0)
    award_fail(award_id=prorated.awards(job)[1].pk, slot=18, detail="power", at=moment(prorated.pool, 18.5))
    for slot in (19.5, 26.5):
        advance(prorated.pool, slot)
        with scope(job.tenant):
            assert array_sums([array.pk])[array.pk].price == book_of(job).paid


def test_a_job_that_is_sold_whole_has_paid_what_was_delivered_before_a_loss_too(prorated: Prorated) -> None:
    """As statements charge it."""
    job = prorated.long_job(epochs=6, divisible=False)
    advance(prorated.pool, 10.5)
    [lost] = prorated.awards(job)
    award_fail(award_id=lost.pk, slot=10, detail="power", at=moment(prorated.pool, 10.5))
    for slot, state in ((11.5, JobState.QUEUED), (30.5, JobState.FINISHED)):
        advance(prorated.pool, slot)
        assert prorated.row(job).state == state
        day = moment(prorated.pool, 0).replace(hour=0, minute=0)
        with scope(job.tenant):
            row = TrainingJob.objects.select_related("pool", "tenant", "submitted_by").get(pk=job.pk)
            [list_row] = with_awards(TrainingJob.objects.select_related("pool", "tenant").filter(pk=job.pk))
            prices = job_rows([row])[0].view.price, row_view(list_row).price
            page = job_page(row, at=moment(prorated.pool, slot), money=True)
            now = moment(prorated.pool, slot)
            charged = statement_view(tenant=job.tenant, start=day, end=now, at=now).spent_sum
        assert prices == (book_of(job).paid, book_of(job).paid) == (page.view.price, charged)
        assert charged > 0


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_what_was_delivered_before_a_loss_is_told_of_a_job_that_never_got_another_place(
    prorated: Prorated, end: str
) -> None:
    job = prorated.long_job(epochs=6, divisible=False, value={**SOON, "deadline": 15.0})
    advance(prorated.pool, 10.5)
    [lost] = prorated.awards(job)
    award_fail(award_id=lost.pk, slot=10, detail="power", at=moment(prorated.pool, 10.5))
    client = client_as(OWNER, job.tenant)
    assert "Price of the whole run not decided" in page_of(client, job)
    if end == "cancelled":
        take_back(prorated, job, 10.7)
    else:
        advance(prorated.pool, 30.5)
    assert prorated.row(job).state == end
    assert book_of(job).paid > 0
    assert f"It paid {shown(book_of(job).paid)}" in page_of(client, job)
    assert "It cost nothing" not in page_of(client, job)
    if end == "expired":
        [event] = events("job_expired")
        kind = kind_of(event.kind)
        assert kind is not None
        assert kind.message is not None
        sentence = "long found no other place as long as it was worth something. Its page says what it paid for."
        assert message_text(kind.message, "long", event.data) == sentence


def page_of(client: Client, job: TrainingJob) -> str:
    """Its page."""
    return text_of(client.get(reverse("job", args=[job.tenant.slug, job.pk]), secure=True).content.decode())


# -- what a cancellation would do ------------------------------------------------------------------------------------


def test_taking_back_a_job_that_waits_says_that_what_its_pieces_hold_is_paid(world: World) -> None:
    job = world.long_job()
    world.needs_its_cells(arrival=9.0)
    advance(world.pool, 18.5)
    assert world.row(job).state == JobState.QUEUED
    before = book_of(job)
    forecast = preview(world, job, 18.5)
    assert (forecast.state, forecast.returned, forecast.kept, forecast.still_paid) == ("waiting", 0, 0, before.held)
    assert before.held > 0
    assert "holds nothing" not in forecast.sentence
    page = text_of(client_as(OWNER, job.tenant).get(_cancel(job), secure=True).content.decode())
    assert "none of it comes back" in page
    assert f"Held for earlier slots, and then paid to their owners {shown(before.held)}" in page
    take_back(world, job, 18.5)
    advance(world.pool, 24.5)
    after = book_of(job)
    assert (after.back, after.settled - before.settled, after.held) == (0, forecast.still_paid, 0)


def test_taking_back_a_job_that_runs_says_what_its_pieces_hold_beside_what_it_reserved(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    first, running = world.awards(job)
    forecast = preview(world, job, 18.5)
    assert (forecast.reserved, forecast.earlier, forecast.still_paid) == (
        running.paid,
        first.paid,
        first.paid + running.paid,
    )
    take_back(world, job, 18.5)
    advance(world.pool, 24.5)
    assert (book_of(job).settled, book_of(job).back) == (forecast.still_paid, 0)


def test_a_job_that_holds_nothing_is_taken_back_for_nothing(prorated: Prorated) -> None:
    job = prorated.long_job()
    forecast = preview(prorated, job, 0.5)
    assert (forecast.still_paid, forecast.sentence) == (0, "It waits and holds nothing: cancelling costs nothing.")


# -- what its page adds up -------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_what_came_back_of_a_lost_piece_is_no_part_of_what_the_job_got_for(prorated: Prorated) -> None:
    job = prorated.job_of_two_awards()
    advance(prorated.pool, 9.5)
    running, _ = prorated.awards(job)
    award_fail(award_id=running.pk, slot=9, detail="power", at=moment(prorated.pool, 9.5))
    advance(prorated.pool, 60.5)
    page = agrees(prorated, job, 60.5)
    assert page.in_market is not None
    assert book_of(job).back > 0
    assert page.in_market.pays == book_of(job).paid


@pytest.mark.wide
def test_the_price_of_the_run_is_what_its_parts_add_up_to_also_where_some_came_back(world: World) -> None:
    job = world.long_job(value=SOON)
    world.needs_its_cells(arrival=9.0)
    advance(world.pool, 32.5)
    book = book_of(job)
    assert (book.back, book.held, book.settled) == (book.set_aside, 0, 0)
    agrees(world, job, 32.5)
    client = client_as(OWNER, job.tenant)
    page = text_of(client.get(reverse("job", args=[job.tenant.slug, job.pk]), secure=True).content.decode())
    assert f"Price of the whole run {shown(book.set_aside)}" in page.replace("&nbsp;", " ") or shown(book.back) in page
    charge = text_of(client.get(reverse("job_charge", args=[job.tenant.slug, job.pk]), secure=True).content.decode())
    assert "less what came back at its settlement: 0.00" in charge


def test_a_slot_that_was_refunded_stands_as_returned_in_the_charge(prorated: Prorated) -> None:
    job = prorated.long_job()
    advance(prorated.pool, 18.5)
    lost = prorated.awards(job)[1]
    award_fail(award_id=lost.pk, slot=18, detail="power", at=moment(prorated.pool, 18.5))
    advance(prorated.pool, 23.5)
    with scope(job.tenant):
        account = charge_account(TrainingJob.objects.select_related("pool").get(pk=job.pk))[1]
    assert [slot.state for slot in account.slots] == ["settled"] * 2 + ["returned"] * 6
    assert sum(slot.paid for slot in account.slots if slot.state == "returned") == account.award.returned


@pytest.mark.wide
def test_what_is_set_against_an_estimate_is_the_price_of_all_pieces_once_they_are_over(prorated: Prorated) -> None:
    job, high = prorated.long_job(), 2 * MICRO
    with scope(job.tenant):
        estimate = {"earliest": 8, "latest": 24, "price_low": 0, "price_high": high}
        StartEstimate.objects.create(tenant=job.tenant, job=job, made_at=job.submitted_at, **estimate)
    for slot, expected in ((18.5, (True, None, 0)), (80.5, (False, False, 1))):
        advance(prorated.pool, slot)
        with scope(job.tenant):
            row = TrainingJob.objects.select_related("pool", "tenant").get(pk=job.pk)
            page, record = job_page(row, at=moment(prorated.pool, slot), money=True), estimates_record(prorated.pool)
        assert page.estimate is not None
        assert page.estimate.paid == book_of(job).paid
        assert (page.estimate.so_far, page.estimate.price_held, record.estimates) == expected
        assert record.paid_in_range == 0
    assert prorated.awards(job)[0].paid < high < book_of(job).paid


# -- what statements say ---------------------------------------------------------------------------------------------


def reason_of(world: World | Prorated, job: TrainingJob, slot: float) -> str:
    day = moment(world.pool, 0).replace(hour=0, minute=0)
    with scope(job.tenant):
        now = moment(world.pool, slot)
        view = statement_view(tenant=job.tenant, start=day, end=now, at=now)
    [row] = [row for row in view.jobs if row.job_id == job.pk]
    return row.reason


def test_a_statement_says_why_nothing_was_charged_for_pieces_that_wait_and_for_those_that_came_back(
    world: World,
) -> None:
    job = world.long_job(value=SOON)
    world.needs_its_cells(arrival=9.0)
    advance(world.pool, 31.5)
    assert reason_of(world, job, 31.5).startswith("Payment is set aside until it is known what is due")
    advance(world.pool, 32.5)
    assert reason_of(world, job, 32.5).startswith("All that was set aside came back")


# -- what is told of a loss ------------------------------------------------------------------------------------------


def lose_the_home(world: Prorated) -> tuple[TrainingJob, ServerLost, ServerLost]:
    """The server of the rest at home is lost while a piece runs elsewhere: what that was said to do, and what it
    did."""
    job = world.job_of_two_awards()
    advance(world.pool, 9.5)
    _, planned = world.awards(job)
    with scope_disabled("the test looks for a server"):
        server = Server.objects.get(pk=planned.allocation[0][0])
    at, by = moment(world.pool, 9.5), access_of_system("test")
    forecast = server_loss_preview(server=server, at=at)
    done = server_lose(server=server, by=by, reason="power", at=at)
    assert isinstance(done, ServerLost)
    return job, forecast, done


def test_a_loss_of_the_place_at_home_tells_what_came_back_of_the_piece_that_ran(prorated: Prorated) -> None:
    job, _, _ = lose_the_home(prorated)
    running, planned = prorated.awards(job)
    assert (running.state, planned.state) == ("void", "void")
    assert running.returned > 0
    row = prorated.row(job)
    assert row.reason_numbers["refunded"] == running.returned == book_of(job).back
    assert row.not_before == 9  # from which slot on nothing of it is delivered, and not when its home would have begun
    assert prorated.is_proved


def test_the_preview_of_a_loss_counts_what_ends_with_it_on_other_servers(prorated: Prorated) -> None:
    _, forecast, done = lose_the_home(prorated)
    assert done.refunded > 0
    assert (forecast.awards, forecast.refunded, forecast.jobs) == (done.awards, done.refunded, done.jobs)


def test_a_notice_of_a_job_that_was_never_done_does_not_say_that_alone_was_better() -> None:
    words = EventKind.AWARD_ADJUSTED.message
    assert words is not None
    texts = [words.text("train", {"refunded": 2_000_000, "cause": cause}) for cause in ("not_done", "better_alone")]
    assert texts == [
        "train: it was never done, so 2.00 came back.",
        "train: alone it would have been worth more, so 2.00 came back.",
    ]


def test_the_payees_of_a_rent_add_up_to_its_price_also_where_some_of_it_came_back() -> None:
    world = renewing()
    advance(world.pool, 20.5)
    assert 0 < world.award.adjusted < world.award.paid
    with scope(world.lumen):
        [row] = award_rows([world.award])
    assert sum(payee.amount for payee in row.payees) == row.award.paid


# -- what owners are told --------------------------------------------------------------------------------------------


def money_of(world: World | Prorated, tenant: Tenant, slot: float) -> MoneyNow:
    at = moment(world.pool, slot)
    with scope(tenant):
        share = share_view(tenant=tenant, pool=world.pool, at=at, money=True, overview=pool_overview(world.pool))
    assert share.money is not None
    return share.money


def test_what_was_refunded_is_no_provisional_income(world: World) -> None:
    job = world.long_job()
    advance(world.pool, 18.5)
    assert money_of(world, world.owner, 18.5).provisional == book_of(job).held
    fail(world, world.awards(job)[1], 18)
    assert money_of(world, world.owner, 18.5).provisional == book_of(job).held


def test_who_gave_its_units_up_goes_on_paying_their_owner_and_is_shown(prorated: Prorated) -> None:
    job = prorated.long_job()
    advance(prorated.pool, 10.5)
    take_back(prorated, job, 10.5)
    advance(prorated.pool, 12.5)
    money, book = money_of(prorated, prorated.owner, 12.5), book_of(job)
    assert (money.earned, money.to_come) == (book.settled, book.held)
    assert book.held > 0
    assert money.rate == book.set_aside // 8
    assert [renter.state for renter in money.renters] == ["given up"]


def test_a_refund_makes_neither_what_an_owner_lent_smaller_nor_its_part_of_it() -> None:
    world = renewing()
    advance(world.pool, 20.5)
    award = world.award
    assert 0 < award.adjusted < award.paid
    day = moment(world.pool, 0).replace(hour=0, minute=0)
    with scope(world.castor):
        [award_view] = awards_seen(tenant_id=world.castor.pk, award_ids=[award.pk]).values()
        now = moment(world.pool, 20.5)
        earned = statement_view(tenant=world.castor, start=day, end=now, at=now).earned
    [row] = [row for row in earned if row.amount == world.income]
    assert (award_view.part, row.quantity) == (1.0, 2.0)  # of one worker, in two slots
    assert row.unit_price == world.income // 2


# -- what an interval's page adds up ----------------------------------------------------------------------------------


def rows_of(pool: Pool, job: TrainingJob, at: datetime) -> list[CertificateRow]:
    """What the interval of this moment says of the job."""
    with scope_disabled("the figures of all tenants"):
        interval = Interval.objects.get(pool=pool, decided_at=at)
        fairness_catch_up()
        account = interval_account(pool, interval.number)
    assert account is not None
    return [row for row in account.jobs if row.job == job.pk]


def test_what_a_settled_rent_got_is_its_value_less_what_it_paid_in_the_end() -> None:
    world = renewing()
    advance(world.pool, 12.5)
    [row] = rows_of(world.pool, world.job, moment(world.pool, 12))
    assert (row.value, row.paid, row.got, row.alone) == (56.0, 10.0, 46.0, 46.0)


def test_what_a_job_in_pieces_got_is_its_value_less_what_all_of_them_cost(prorated: Prorated) -> None:
    job = prorated.long_job()
    advance(prorated.pool, 60.5)
    first, *_, last = prorated.awards(job)
    [row] = rows_of(prorated.pool, job, moment(prorated.pool, first.start))
    assert row.value == first.value  # what is done by it is worth, and not the whole job
    [row] = rows_of(prorated.pool, job, moment(prorated.pool, last.start))
    assert row.paid == pytest.approx(book_of(job).paid / MICRO)
    assert row.value - row.paid == pytest.approx(row.got)


def _cancel(job: TrainingJob) -> str:
    return f"/t/{job.tenant.slug}/jobs/{job.pk}/cancel/"


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (1.7, "Of its highest price 0.10 credits are left. A piece that costs more is not rented."),
        (1.6, "Nothing is left of its highest price, so it rents no more."),
    ],
)
def test_the_page_says_what_the_highest_price_leaves_for_the_rest(prorated: Prorated, most: float, words: str) -> None:
    """A piece of eight slots at 0.20 is bought; the next slot costs more than what is left."""
    job = prorated.long_job(max_price=most)
    advance(prorated.pool, 17.5)
    (piece,) = prorated.awards(job)
    assert agrees(prorated, job, 17.5).left_to_pay == round(most * MICRO) - piece.paid
    answer = client_as(OWNER, prorated.guest).get(reverse("job", args=["guest", job.pk]), secure=True)
    assert words in text_of(answer.content.decode())


def test_nothing_is_said_of_a_highest_price_that_a_job_in_pieces_does_not_have(prorated: Prorated) -> None:
    job = prorated.long_job()
    advance(prorated.pool, 17.5)
    assert prorated.awards(job)
    assert agrees(prorated, job, 17.5).left_to_pay is None
