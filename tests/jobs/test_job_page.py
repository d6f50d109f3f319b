"""One job's page: who sees it, that its figures are those of the book, and what a cancellation really does."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.template.loader import get_template
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.jobs.cancel_preview import CancelPreview, cancel_preview
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.pages.bars import slot_bars
from scheduling.jobs.read_life import happenings
from scheduling.jobs.read_page import JobPage, job_page, where
from scheduling.jobs.read_slots import HELD, RETURNED, RUNNING, SETTLED, SlotRow, SlotTable, slot_table
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.models import Award, Event, Lane, TrainingJob
from scheduling.reasons import reason_sentence
from scheduling.runs.failures import server_lose
from tenants.access import Refused, access_of_system
from tenants.ledger.amounts import micro, rounded
from tenants.ledger.selectors import transactions_about
from tenants.models import Tenant
from tenants.roles import BILLING, OWNER, ROLES_ALLOWED, STAFF_ROLES, SUBMITTER, TENANT_ROLES, VIEWER, Permission
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser, overwrite
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.clocks import noon
from tests.scheduling.live import (
    INSTANT,
    SPEC,
    enter,
    fund,
    make_award,
    make_live_pool,
    member,
    moment,
    money,
    publish,
    settle,
)
from tests.scheduling.pages import NOW, Story, client_as, story, text_of, told_now, traded
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

built = built_once(traded)


@pytest.fixture
def scene(built: Story) -> Iterator[Story]:
    with noon():  # of a moment yesterday the page says the day, too
        yield told_now(copy.deepcopy(built))


def page_of(job: TrainingJob, tenant: Tenant):
    with scope(tenant):
        row = TrainingJob.objects.select_related("pool", "tenant", "submitted_by").get(pk=job.pk)
        return job_page(row, at=timezone.now(), money=True)


def settled_in_book(job: TrainingJob, tenant: Tenant) -> int:
    """What the book says went from this tenant's held credits to owners for the job."""
    with scope(tenant):
        lines = [
            line
            for each in transactions_about(subject=f"job:{job.pk}")
            if each.kind == "settle"
            for line in each.entries
        ]
    return -sum(amount for account, amount in lines if account.kind == "held")


def submit_job(scene: Story, tenant: Tenant, lane: str, **spec: Any) -> TrainingJob:
    """Submitted now."""
    answer = job_submit(
        pool=scene.pool, name="now", spec=SPEC | spec, lane=lane, by=member(tenant), at=timezone.now(), client_key=None
    )
    assert isinstance(answer, Submitted), answer
    return answer.job


def address(scene: Story, job: TrainingJob, what: str = "") -> str:
    return f"/t/{scene.renter.slug}/jobs/{job.pk}/{what}"


@pytest.mark.parametrize("role", [*TENANT_ROLES, *STAFF_ROLES])
def test_opens_for_each_role_that_may_see_jobs(role: str, scene: Story) -> None:
    client = client_as(role, scene.renter)
    sees = 200 if role in ROLES_ALLOWED[Permission.JOBS_VIEW] else 403
    cancels = role in ROLES_ALLOWED[Permission.JOBS_CANCEL]
    assert client.get(address(scene, scene.running), secure=True).status_code == sees
    assert client.get(address(scene, scene.running, "cancel/"), secure=True).status_code == (200 if cancels else 403)
    assert client.post(address(scene, scene.waiting, "cancel/"), secure=True).status_code == (302 if cancels else 403)
    with scope_disabled("the test looks at the job"):
        state = TrainingJob.objects.get(pk=scene.waiting.pk).state
    assert state == ("cancelled" if cancels else "queued")


@pytest.mark.parametrize("what", ["", "cancel/", "queue/"])
def test_another_tenants_job_is_not_there(what: str, scene: Story) -> None:
    client = client_as(OWNER, scene.owner)
    foreign = f"/t/{scene.owner.slug}/jobs/{scene.running.pk}/{what}"
    assert client.get(address(scene, scene.running, what), secure=True).status_code == 404
    assert client.post(foreign, secure=True).status_code in (404, 405)
    assert client.get(foreign, secure=True, follow=True).status_code == 404


def test_page_without_right_says_why(scene: Story) -> None:
    page = client_as(BILLING, scene.renter).get(address(scene, scene.running), secure=True)
    assert page.status_code == 403
    assert "billing" in text_of(page.content.decode())


@pytest.mark.parametrize(
    ("state", "award", "by_use", "kind"),
    [
        ("running", True, True, "by_use"),
        ("cancelled", True, True, "by_use"),
        ("awarded", True, False, "awarded"),
        ("running", True, False, "running"),
        ("finished", True, False, "finished"),
        ("finished", False, False, "reason"),
        ("cancelled", True, False, "cancelled"),
        ("cancelled", False, False, "cancelled"),
        ("queued", False, False, "reason"),
        ("queued", True, False, "reason"),
        ("rejected", False, False, "reason"),
        ("expired", False, False, "reason"),
        ("failed", True, False, "reason"),
        ("stopped", True, False, "reason"),
    ],
)
def test_page_begins_with_the_sentences_of_its_state(state: str, award: bool, by_use: bool, kind: str) -> None:
    page = SimpleNamespace(job=TrainingJob(state=state), award=award or None, by_use=by_use or None, pieces=None)
    assert JobPage.lead.fget(page) == f"jobs/leads/{kind}.html"
    get_template(JobPage.lead.fget(page))


def test_running_job_tells_where_it_is_until_when_and_for_how_much(scene: Story) -> None:
    html = client_as(VIEWER, scene.renter).get(address(scene, scene.running), secure=True).content.decode()
    words = text_of(html)
    assert "Runs on 4 rented workers since" in words
    assert "Price, slot by slot" in words
    assert scene.owner.name in words
    assert "Entries in the ledger" not in words  # a viewer sees no ledger
    assert 'data-live="job:' in html


def test_owner_sees_the_books_lines_too(scene: Story) -> None:
    html = client_as(OWNER, scene.renter).get(address(scene, scene.running), secure=True).content.decode()
    assert "Entries in the ledger" in html


def test_waiting_job_says_why_and_leaves_out_what_is_not_there_yet(scene: Story) -> None:
    words = text_of(client_as(VIEWER, scene.renter).get(address(scene, scene.waiting), secure=True).content.decode())
    assert "Waits for" in words or "Waiting for interval" in words
    assert "Price, slot by slot" not in words
    assert "Who is paid" not in words


def test_live_part_comes_alone_and_asks_for_itself_again(scene: Story) -> None:
    client = client_as(VIEWER, scene.renter)
    html = client.get(address(scene, scene.running, "?part=job"), secure=True).content.decode()
    assert "<html" not in html
    assert f'hx-get="{address(scene, scene.running)}?part=job"' in html
    assert client.get(address(scene, scene.running, "?part=nothing"), secure=True).status_code == 404


def test_settled_and_held_are_what_the_book_says(scene: Story) -> None:
    page = page_of(scene.running, scene.renter)
    assert page.slots is not None
    assert page.award is not None
    assert 0 < page.slots.settled < page.slots.paid
    assert page.slots.settled == settled_in_book(scene.running, scene.renter)
    assert page.slots.settled + page.slots.held == page.award.paid
    assert sum(payee.amount for payee in page.payees) == page.award.paid
    assert sum(payee.settled for payee in page.payees) == page.slots.settled
    with scope(scene.renter):
        others = Award.objects.filter(job__in=[scene.ahead.pk, scene.waiting.pk]).exclude(state="void")
        rest = sum(award.paid for award in others) - settled_in_book(scene.ahead, scene.renter)
    assert page.slots.held + rest == money(scene.renter)[1]


def test_finished_job_has_paid_everything(scene: Story) -> None:
    page = page_of(scene.running, scene.renter)
    assert page.award is not None
    pool_advance(pool_id=scene.pool.pk, at=scene.pool.slot_start(page.award.end + 1))
    after = page_of(scene.running, scene.renter)
    assert after.job.state == "finished"
    assert after.slots is not None
    assert (after.slots.settled, after.slots.held) == (after.slots.paid, 0)
    assert {row.state for row in after.slots.rows} == {SETTLED}


def test_finished_job_says_when_it_was_done_where_that_was_before_its_end(scene: Story) -> None:
    award = page_of(scene.running, scene.renter).award
    assert award is not None
    pool_advance(pool_id=scene.pool.pk, at=scene.pool.slot_start(award.end + 1))
    client = client_as(OWNER, scene.renter)
    page = text_of(client.get(address(scene, scene.running), secure=True).content.decode())
    assert "Ran on" in page
    assert "was done at" not in page
    assert page_of(scene.running, scene.renter).view.reason.sentence.startswith("Ran on rented units until ")
    done_at = scene.pool.slot_start(award.start) + timedelta(seconds=1)
    with scope(scene.renter), as_superuser():
        TrainingJob.objects.filter(pk=scene.running.pk).update(ended_at=done_at)
    page = text_of(client.get(address(scene, scene.running), secure=True).content.decode())
    done, end = (f"{timezone.localtime(moment):%H:%M:%S}" for moment in (done_at, scene.pool.slot_start(award.end)))
    assert f"and was done at {done} ; reserved until {end}." in page
    sentence = page_of(scene.running, scene.renter).view.reason.sentence
    assert sentence.startswith(f"Ran 1 s on rented units, done at {done}; reserved until {end}, on ")


def test_slots_have_the_states_of_their_time_and_a_bar_each(scene: Story) -> None:
    page = page_of(scene.running, scene.renter)
    assert page.slots is not None
    states = [row.state for row in page.slots.rows]
    assert states == sorted(states, key=[SETTLED, RUNNING, HELD].index)
    assert {SETTLED, HELD} <= set(states)
    bars = slot_bars(page.slots)
    assert bars is not None
    assert len(bars.bars) == len(page.slots.rows)
    tallest = max(bars.bars, key=lambda bar: bar.paid)
    assert tallest.height == max(bar.height for bar in bars.bars)
    assert all(bar.y + bar.height == pytest.approx(bars.base) for bar in bars.bars)


def test_a_day_stands_below_its_first_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days and times in one line lay over each other."""
    evening, rest = datetime(2026, 3, 2, 23, tzinfo=UTC), {"held": 0, "returned": 0, "kept": 0}
    rows = [SlotRow(hour, evening + timedelta(hours=hour), 1, 0, 5, SETTLED, (), None, None, 5) for hour in range(4)]

    def days(rows: list[SlotRow], today: date) -> list[str]:
        monkeypatch.setattr(timezone, "localdate", lambda: today)
        bars = slot_bars(SlotTable(tuple(rows), 20, 20, **rest, by_owner={}, settled_by_owner={}))
        assert bars is not None
        assert bars.height - bars.base == (48 if any(bar.day for bar in bars.bars) else 34)
        return [bar.day for bar in bars.bars]

    assert days(rows, date(2026, 3, 4)) == ["2 Mar", "3 Mar", "", ""]
    assert days(rows, date(2026, 3, 3)) == ["2 Mar", "3 Mar", "", ""]
    assert days(rows[1:], date(2026, 3, 3)) == ["", "", ""]


def test_promise_stands_beside_what_was_awarded(scene: Story) -> None:
    """The owner's own job at home: alone it would have had the same."""
    job = submit_job(scene, scene.owner, "batch")
    pool_advance(pool_id=scene.pool.pk, at=scene.pool.slot_start(26))
    page = page_of(job, scene.owner)
    assert page.home is not None
    assert page.in_market is not None
    assert page.gain is not None
    assert page.gain >= 0
    words = text_of(client_as(VIEWER, scene.owner).get(f"/t/owner/jobs/{job.pk}/", secure=True).content.decode())
    assert "At home, alone" in words
    assert "than staying at home alone" in words or "The same as alone" in words


def rented(keep: int, start: int = 3):
    pool, lumen, castor = make_live_pool(cancellation_keep_percent=keep), make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, worker=4, ps=1)
    fund(lumen)
    publish(pool, frontier=20)
    charges = [[(castor, 1_000_003), (None, 500_001)]] * 4
    award = make_award(
        pool, lumen, start=start, slots=4, charges=charges, allocation=[[server.pk, start, start + 4, 4, 1]]
    )
    enter(award)
    return pool, lumen, castor, award


@pytest.mark.usefixtures("nothing_built")
@pytest.mark.parametrize("keep", [0, 7, 100])
def test_cancelling_before_the_start_returns_and_keeps_what_was_said(keep: int) -> None:
    _, lumen, castor, award = rented(keep)
    with scope(lumen):
        forecast = cancel_preview(award.job, moment(0))
    before = money(lumen)
    job = job_cancel(job_id=award.job_id, by=member(lumen), at=moment(0))
    assert not isinstance(job, Refused)
    after = money(lumen)
    assert (forecast.returned, forecast.kept) == (after[0] - before[0], award.paid - forecast.returned)
    assert after[1] == before[1] - award.paid
    assert money(castor)[2] <= forecast.kept
    page = page_of(award.job, lumen)
    assert page.slots is not None
    assert (page.slots.returned, page.slots.kept) == (forecast.returned, forecast.kept)
    assert {row.state for row in page.slots.rows} == {RETURNED}
    assert page.payees == ()


@pytest.mark.usefixtures("nothing_built")
def test_cancelling_a_running_job_goes_on_paying_what_was_said() -> None:
    pool, lumen, _, award = rented(10, start=0)
    settle(pool, 0)
    with scope(lumen):
        job = TrainingJob.objects.select_related("pool").get(pk=award.job_id)
        Award.objects.filter(pk=award.pk).update(state="running")
        TrainingJob.objects.filter(pk=job.pk).update(state="running")
        job.refresh_from_db()
        forecast = cancel_preview(job, moment(1.5))
    assert (forecast.returned, forecast.settled + forecast.still_paid) == (0, award.paid)
    assert forecast.settled == settled_in_book(award.job, lumen)
    assert not isinstance(job_cancel(job_id=award.job_id, by=member(lumen), at=moment(1.5)), Refused)
    settle(pool, 1, 2, 3)
    assert settled_in_book(award.job, lumen) == forecast.settled + forecast.still_paid


def test_confirmation_shows_the_figures_and_changes_nothing(scene: Story) -> None:
    client = client_as(SUBMITTER, scene.renter)
    words = text_of(client.get(address(scene, scene.running, "cancel/"), secure=True).content.decode())
    assert "Nothing has happened yet" in words
    assert "Still paid for what is reserved" in words
    assert page_of(scene.running, scene.renter).job.state == "running"


def test_job_that_is_over_cannot_be_cancelled_and_the_page_says_so(scene: Story) -> None:
    client = client_as(SUBMITTER, scene.renter)
    client.post(address(scene, scene.waiting, "cancel/"), secure=True)
    words = text_of(client.get(address(scene, scene.waiting, "cancel/"), secure=True).content.decode())
    assert "nothing to cancel" in words
    assert "cannot be cancelled" in words
    for nonsense in ("Cancel the job", "Nothing has happened yet", "What it would cost"):
        assert nonsense not in words


def test_cancelled_job_that_never_ran_is_told_in_the_past(scene: Story) -> None:
    client = client_as(SUBMITTER, scene.renter)
    text = text_of(client.get(address(scene, scene.waiting, "cancel/"), secure=True).content.decode())
    assert "holds nothing: cancelling costs nothing" in text
    for nonsense in ("What it would cost", "Comes back to you"):
        assert nonsense not in text
    client.post(address(scene, scene.waiting, "cancel/"), secure=True)
    words = text_of(client.get(address(scene, scene.waiting), secure=True).content.decode())
    assert "Price of the whole run nothing: it never ran" in words
    for promise in ("It can only get better", "What it is promised", "not decided", "not yet", "free"):
        assert promise not in words, promise


def test_cancelling_a_free_job_is_told_in_one_sentence(scene: Story) -> None:
    free = CancelPreview(scene.running, possible=True, state="running")
    assert free.is_free
    assert "it is free" in free.sentence
    assert not CancelPreview(scene.running, possible=True, state="running", paid=1).is_free


def test_lost_server_leaves_an_earlier_attempt_with_its_refund(scene: Story) -> None:
    page = page_of(scene.running, scene.renter)
    assert page.award is not None
    server_id = page.award.allocation[0][0]
    server = next(each for each in scene.pool.servers.all() if each.pk == server_id)
    lost = server_lose(server=server, by=access_of_system("test"), reason="smoke", at=timezone.now())
    assert not isinstance(lost, Refused)
    after = page_of(scene.running, scene.renter)
    (attempt,) = after.attempts
    assert attempt.returned > 0
    words = text_of(client_as(OWNER, scene.renter).get(address(scene, scene.running), secure=True).content.decode())
    assert "Earlier attempts" in words
    assert "server was lost" in words


def test_price_of_a_slot_is_units_times_the_price_at_the_award_less_the_own_part(scene: Story) -> None:
    page = page_of(scene.running, scene.renter)
    assert page.slots is not None
    assert page.slots.has_prices
    for row in page.slots.rows:
        factors = [(factor.units, float(rounded(factor.price, row.digits))) for factor in row.factors]
        assert row.price == micro(sum(units * price for units, price in factors))
        assert row.pays == row.price - row.own_part == row.paid
    assert page.slots.pays == page.award.paid
    words = text_of(client_as(OWNER, scene.renter).get(address(scene, scene.running), secure=True).content.decode())
    assert "Own part" not in words  # the renter owns nothing: what differs is rounding
    assert "− Rounding" in words
    with CaptureQueriesContext(connection) as captured:  # the interval, a large row, is read once
        page_of(scene.running, scene.renter)
    assert not any('"scheduling_interval"."view"' in query["sql"] for query in captured)


def test_instant_job_pays_its_own_lanes_price_and_its_own_part_comes_back(scene: Story) -> None:
    server = scene.pool.servers.all()[0].pk
    award = Award(
        pool=scene.pool,
        tenant=scene.renter,
        lane=Lane.INSTANT,
        start=NOW,
        end=NOW + 1,
        workers=2,
        allocation=[[server, NOW, NOW + 1, 2, 1]],
        charges=[[[scene.owner.pk, 70], [scene.renter.pk, 30]]],
        paid=100,
    )
    (row,) = slot_table(scene.pool, award, timezone.now()).rows
    assert (row.price, row.own_part, row.pays) == (100, 30, 70)
    assert [(factor.units, factor.price) for factor in row.factors] == [(2, pytest.approx(0.00005))]
    assert row.digits == 5


@pytest.mark.usefixtures("nothing_built")
def test_refused_job_says_why_and_what_would_help_and_nothing_of_prices_and_starts() -> None:
    scene = story(instant_policy=INSTANT)
    job = submit_job(scene, scene.renter, "instant", max_price=0.0001)
    client = client_as(SUBMITTER, scene.renter)
    html = client.get(address(scene, job), secure=True).content.decode()
    assert "What would help" in text_of(html)
    words = text_of(client.get(address(scene, job), {"part": "job"}, secure=True).content.decode())
    assert "Refused" in words
    for never in ("Rejected", "free", "not yet", "estimate", "What it is promised", "Never started", "Ends"):
        assert never not in words, never
    assert "part=help" not in client_as(VIEWER, scene.renter).get(address(scene, job), secure=True).content.decode()
    submit = f"/t/{scene.renter.slug}/submit/"
    page = client.get(submit, {"from": job.pk, "part": "help"}, secure=True).content.decode()
    assert "Pay up to" in page
    (link,) = re.findall(r'class="button-card" href="([^"]+)"', page)
    form = client.get(unescape(link), secure=True).context["form"]
    assert form["source"].value() == "form"
    assert float(form["max_price"].value()) > 0.0001


def test_job_that_should_have_started_is_not_told_of_as_if_that_lay_ahead(scene: Story) -> None:
    server = scene.pool.servers.all()[0].pk
    place = [[server, NOW + 1, NOW + 3, 2, 1]]
    award = make_award(scene.pool, scene.renter, start=NOW + 1, allocation=place)
    due = scene.pool.slot_start(NOW + 1)
    with scope(scene.renter):
        row = TrainingJob.objects.select_related("pool", "tenant", "submitted_by").get(pk=award.job_id)
        before, after = (job_page(row, at=due + timedelta(seconds=late), money=True) for late in (-1, 6400))
    assert before.view.reason.sentence.startswith("Starts ")
    assert after.view.reason.sentence.startswith("Was to start ")
    assert [step.title for step in after.steps][2:] == ["Was to start", "Was to end"]


@pytest.mark.usefixtures("nothing_built")
def test_refused_instant_job_may_wait_for_the_next_interval() -> None:
    scene = story(instant_policy=INSTANT)
    job = submit_job(scene, scene.renter, "instant", max_price=0.0001)
    client = client_as(SUBMITTER, scene.renter)
    page = client.get(address(scene, job), secure=True).content.decode()
    assert job.state == "rejected", job.reason_code
    assert "Wait for the next interval" in text_of(page)
    assert "It cost nothing. Submit it with a higher limit, or ask when there is less demand." in text_of(page)
    client.post(address(scene, job, "queue/"), secure=True)
    assert page_of(job, scene.renter).job.state == "queued"
    words = text_of(client.get(address(scene, job), secure=True).content.decode())
    assert "The instant lane did not take it: over its highest price." in words


@pytest.mark.usefixtures("nothing_built")
def test_life_of_a_job_says_why_it_was_queued_again() -> None:
    scene = story()
    job = scene.running
    for data in ({"cause": "server_lost", "server": "s01", "refunded": 5}, {"reason": "floor_missed", "start": 3}):
        event = {"pool": scene.pool, "tenant": scene.renter, "subject": f"job:{job.pk}", "at": timezone.now()}
        Event.objects.create(kind="job_requeued", data={"job": job.pk} | data, **event)
    sentences = [
        each.sentence for each in happenings(scene.pool, scene.renter.pk, job.pk) if each.kind == "job_requeued"
    ]
    assert sentences == [
        reason_sentence(scene.pool, "server_lost", {}),
        reason_sentence(scene.pool, "floor_missed", {}),
    ]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([(1, 4, 8, 3, 1), (2, 4, 8, 2, 0)], "3 on s1, 2 on s2"),
        ([(1, 4, 6, 3, 1), (2, 6, 8, 3, 1), (3, 6, 8, 1, 0)], "4 at a time, moving between s1, s2, s3"),
        ([(1, 4, 6, 3, 1), (1, 6, 8, 2, 1)], "3 on s1"),
        ([(1, 4, 8, 4, 0), (2, 4, 8, 0, 1)], "4 on s1"),
        ([], ""),
    ],
    ids=["side by side", "in turn", "fewer later", "parameter servers elsewhere", "nothing"],
)
def test_workers_are_told_by_server_unless_they_move(rows: list[tuple[int, ...]], sentence: str) -> None:
    assert where(rows, {1: "s1", 2: "s2", 3: "s3"}) == sentence


def test_number_of_queries_does_not_grow_with_the_slots(scene: Story) -> None:
    client = client_as(OWNER, scene.renter)
    counts = []
    for job in (scene.waiting, scene.running):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert client.get(address(scene, job), secure=True).status_code == 200
        counts.append(len(queries))
    assert max(counts) <= 32, [query["sql"][:90] for query in queries]
    pool_advance(pool_id=scene.pool.pk, at=scene.pool.slot_start(page_of(scene.running, scene.renter).award.end + 1))
    with CaptureQueriesContext(connection) as queries:
        client.get(address(scene, scene.running), secure=True)
    assert len(queries) <= counts[1]


def test_every_time_has_its_slot_in_the_tooltip(scene: Story) -> None:
    html = client_as(VIEWER, scene.renter).get(address(scene, scene.running), secure=True).content.decode()
    assert re.search(r'<time datetime="[^"]+" data-slot="\d+" title="slot \d+">', html)


def test_page_and_its_bar_show_the_pool_of_the_job(scene: Story) -> None:
    make_live_pool(slug="first", name="First pool")
    client = client_as(OWNER, scene.renter)
    html = client.get(f"/t/renter/jobs/{scene.waiting.pk}/", secure=True).content.decode()
    assert re.search(rf'<dd class="of-pool">\s*{scene.pool.name}\s*</dd>', html)
    assert f'href="/t/renter/market/?pool={scene.pool.slug}"' in html


def test_pages_of_a_pool_with_slots_of_whole_minutes_show_no_seconds_of_its_slots(scene: Story) -> None:
    """Its slots begin at a second that no moment of these pages has by itself."""
    pool = scene.pool
    pool.slot_seconds = 600
    renter, owner = client_as(SUBMITTER, scene.renter), client_as(OWNER, scene.owner)

    def shown_with(epoch_at: datetime) -> dict[str, str]:
        pool.epoch_at = epoch_at
        overwrite(pool)
        pages = {
            "job": renter.get(f"/t/{scene.renter.slug}/jobs/{scene.ahead.pk}/"),
            "share": owner.get(f"/t/{scene.owner.slug}/share/"),
            "submit": renter.get(f"/t/{scene.renter.slug}/submit/"),
        }
        return {name: answer.content.decode() for name, answer in pages.items()}

    began = (timezone.now() - NOW * timedelta(seconds=600)).replace(microsecond=0) - timedelta(seconds=200)
    moments = set(re.findall(r"\b\d\d:\d\d:(\d\d)\b", "".join(shown_with(began).values())))
    free = (began + timedelta(seconds=ahead) for ahead in range(60))
    pages = shown_with(next(moment for moment in free if f"{moment:%S}" not in moments))
    second = f"{pool.slot_start(NOW):%S}"
    of_slots = re.compile(rf"\b\d\d:\d\d:{second}\b")
    slots = re.compile(r"\b\d\d:\d\d\b(?!:)")
    for name, html in pages.items():
        lead = re.sub(r'<pre class="log">.*?</pre>', "", text_of(html), flags=re.DOTALL)
        assert not of_slots.findall(lead), (name, of_slots.findall(lead))
        assert slots.search(lead), name
    (course,) = re.findall(r'<ol class="life">.*?</ol>', pages["job"], flags=re.DOTALL)
    assert "Submitted" in course
    assert not re.findall(r"\b\d\d:\d\d:\d\d\b", text_of(course))  # also of what happened between two slots
