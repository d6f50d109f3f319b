"""A job that no interval will ever serve is told so as it is submitted or quoted, with what would help."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.core.policies.astraea.policy import Astraea
from scheduling.jobs.fitting import NeverFits
from scheduling.jobs.intake import OverBudget
from scheduling.jobs.second_chance import job_queue
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.market.reads import interval_view
from scheduling.models import Budget, Lane, Pool, StartEstimate, TrainingJob
from scheduling.operator.holds import pool_drain, pool_resume
from scheduling.quotes.quotes import Quote, job_quote
from scheduling.reasons import reason_sentence, slot_clock
from tenants.access import Refused, access_of_system
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope, scope_disabled
from tests.api.builders import problem, program_of
from tests.quotes.test_submit_page import FIELDS
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.live import SPEC, again, events, fund, make_live_pool, member, moment, submit, submitted
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db

LONG: dict[str, Any] = {"epochs": 50, "chunks": 4}  # fifty slots on four workers
SENTENCE = (
    "Needs 50 slots; the longest interval has 8. None of your own cells could end it in time. "
    "What would help: at most 8 epochs, running in 7 pieces or more or intervals of 50 slots, which an operator sets."
)


def market(**fields: Any) -> tuple[Pool, Tenant, Tenant]:
    """Castor owns the only server; lumen has credits. The longest interval has eight slots."""
    pool = make_pool(**fields)
    castor, lumen = make_tenant("castor"), make_tenant("lumen")
    make_cells(make_server(pool, worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    for tenant in (castor, lumen):
        fund(tenant)
    return pool, castor, lumen


def quoted(pool: Pool, tenant: Tenant, lane: str = "batch", **spec: Any) -> Quote:
    quote = job_quote(pool=pool, name="q", spec=SPEC | spec, lane=lane, by=member(tenant), at=moment(0.5))
    assert isinstance(quote, Quote), quote
    return quote


def nothing_is_stored() -> bool:
    with scope_disabled("the test looks at all jobs"):
        return not TrainingJob.objects.exists() and not StartEstimate.objects.exists()


def test_a_submission_is_refused_with_what_would_help() -> None:
    pool, _, lumen = market()
    answer = submit(pool, lumen, lane="batch", slot=0.5, **LONG)
    assert answer == NeverFits("larger_than_window", SENTENCE, 50, 8, None, 8, None, 7)
    assert nothing_is_stored()
    helped = submitted(pool, lumen, lane="batch", slot=0.5, **LONG | {"epochs": 8})
    assert again(helped.job).state == "queued"


def test_more_workers_are_named_where_they_would_do() -> None:
    pool, _, lumen = market()
    answer = submit(pool, lumen, lane="batch", slot=0.5, epochs=8, chunks=4, max_workers=2)
    assert isinstance(answer, NeverFits)
    assert (answer.needs_slots, answer.enough_workers, answer.epochs_that_fit) == (16, 4, 4)
    assert "What would help: at least 4 workers, at most 4 epochs, running in 2 pieces or more or" in answer.sentence


@pytest.mark.parametrize(
    ("spec", "shortest", "helps"),
    [
        ({"save_slots": 8}, 9, "at most 8 epochs, saving and loading in at most 7 slots or intervals of 9 slots"),
        ({"minibatch_seconds": 400.0}, 10, "intervals of 10 slots"),  # four workers do a mini-batch in ten slots
        ({"minibatch_seconds": 400.0, "save_slots": 0.5}, 11, "intervals of 11 slots"),
        ({"minibatch_seconds": 100.0, "max_workers": 1}, 10, "at least 2 workers or intervals of 10 slots"),
    ],
)
def test_a_job_no_piece_of_which_fits_is_told_what_lets_one_fit(
    spec: dict[str, Any], shortest: int, helps: str
) -> None:
    pool, _, lumen = market()
    wanted = LONG | {"divisible": True} | spec
    answer = submit(pool, lumen, lane="batch", slot=0.5, **wanted)
    assert isinstance(answer, NeverFits)
    whole = answer.needs_slots
    assert answer.sentence == (
        f"Needs {whole} slots as a whole, and {shortest} slots for its shortest piece; the longest interval has 8. "
        f"None of your own cells could end it in time. What would help: {helps}, which an operator sets."
    )
    if answer.most_save_slots:
        assert isinstance(submit(pool, lumen, lane="batch", slot=0.5, **wanted | {"save_slots": 7}), Submitted)
    if answer.enough_workers:
        assert isinstance(submit(pool, lumen, lane="batch", slot=0.5, **wanted | {"max_workers": 2}), Submitted)
    pool.clock_cap = shortest - 1
    assert isinstance(submit(pool, lumen, lane="batch", slot=0.5, **wanted), NeverFits)
    pool.clock_cap = shortest
    assert isinstance(submit(pool, lumen, lane="batch", slot=0.5, **wanted), Submitted)


def test_who_asks_for_the_same_is_not_looked_at_again_until_the_pool_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What fits a window does so whenever it comes and whatever it is worth. What fits none is looked at each time."""
    pool, castor, lumen = market()
    looks, fits = [], Astraea.fits_a_window

    def look(*words: Any) -> bool:
        looks.append(words)
        return fits(*words)

    monkeypatch.setattr(Astraea, "fits_a_window", look)

    def looked_at(tenant: Tenant = lumen, slot: float = 0.5, **spec: Any) -> bool:
        before = len(looks)
        submit(pool, tenant, lane="batch", slot=slot, **spec)
        return len(looks) > before

    assert looked_at()
    assert not looked_at(slot=2.5, value={"kind": "linear", "slope": -2.0, "base": 50.0})
    assert looked_at(epochs=2)
    assert looked_at(castor)
    assert [looked_at(**LONG), looked_at(**LONG)] == [True, True]
    pool.clock_cap = 2  # as an operator would have made it
    assert looked_at()
    assert isinstance(submit(pool, lumen, lane="batch", slot=0.5, epochs=8, chunks=4), NeverFits)
    pool.clock_cap = 8
    assert not looked_at()  # as it was before
    make_server(pool, name="s02", worker=1, ps=1)
    assert looked_at()


def test_its_owners_cells_hold_it_whatever_its_length() -> None:
    pool, castor, _ = market()
    assert isinstance(submit(pool, castor, lane="batch", slot=0.5, **LONG), Submitted)


def test_at_home_it_must_still_be_worth_something() -> None:
    pool, castor, _ = market()
    falling = {"value": {"kind": "linear", "slope": -3.0, "base": 100.0}}
    answer = submit(pool, castor, lane="batch", slot=0.5, **LONG, **falling)
    assert isinstance(answer, NeverFits)
    end = 1 + 50  # it begins with slot 1 at the earliest
    assert answer.home_end == end
    assert answer.sentence == (
        f"Needs 50 slots; the longest interval has 8. Your own cells would end it at {slot_clock(pool, end)} at the "
        "earliest, and then it is worth nothing. What would help: a worth that lasts longer, at most 8 epochs, running "
        "in 7 pieces or more or intervals of 50 slots, which an operator sets."
    )


@pytest.mark.parametrize("restart", [True, False])
def test_a_quote_says_it_with_no_start_to_estimate_and_with_the_change_that_wins(restart: bool) -> None:
    pool, _, lumen = market(clock_restart=restart)
    pool_advance(pool_id=pool.pk, at=moment(0))
    quote = quoted(pool, lumen, **LONG)
    assert (quote.terms.admitted, quote.estimate) == (False, None)
    assert quote.terms.reason is not None
    numbers = quote.terms.reason.numbers
    assert (numbers["needs_slots"], numbers["window_slots"], numbers["epochs_that_fit"]) == (50, 8, 8)
    assert reason_sentence(pool, quote.terms.reason.code, numbers) == SENTENCE


def test_the_cheapest_change_of_a_quote_makes_it_short_enough() -> None:
    pool, _, lumen = market(clock_first=8, clock_restart=False)
    quote = quoted(pool, lumen, **LONG)
    assert quote.change is not None
    assert (quote.change.what, quote.change.before, quote.change.after) == ("fewer_epochs", 50, 8)
    assert quote.change.fields == {"epochs": 8}
    assert quote.change.terms is not None
    assert quote.change.terms.admitted
    quote = quoted(pool, lumen, epochs=8, chunks=4, max_workers=2, value={"kind": "linear", "slope": 0.0, "base": 100})
    assert quote.change is not None
    assert quote.change.what in ("more_workers", "fewer_epochs")


def test_a_quote_of_a_job_whose_home_is_worthless_names_the_longest_interval_too() -> None:
    """Its one worker at home could run it, too late to be worth anything; at first intervals are short."""
    pool = make_pool()
    castor, lumen = make_tenant("castor"), make_tenant("lumen")
    make_cells(make_server(pool, "s01", worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    make_cells(make_server(pool, "s02", worker=1, ps=1), lumen, {"worker": 1, "ps": 1})
    fund(lumen)
    quote = quoted(pool, lumen, **LONG)
    assert quote.terms.reason is not None
    assert (quote.terms.reason.numbers["needs_slots"], quote.terms.reason.numbers["window_slots"]) == (50, 8)
    assert isinstance(submit(pool, lumen, lane="batch", slot=0.5, **LONG), NeverFits)


def test_who_waits_for_a_longer_interval_is_told_the_longest() -> None:
    pool, _, lumen = market(clock_restart=True)
    job = submitted(pool, lumen, lane="batch", slot=0.5, epochs=6, chunks=4).job
    quote = quoted(pool, lumen, epochs=6, chunks=4)
    assert quote.terms.reason is not None
    assert dict(quote.terms.reason.numbers) == {"needs_slots": 6, "window_slots": 8}
    pool_advance(pool_id=pool.pk, at=moment(2))  # an interval of one slot
    waiting = again(job)
    assert (waiting.state, waiting.reason_code) == ("queued", "larger_than_window")
    assert waiting.reason_numbers == {"needs_slots": 6, "window_slots": 8}
    assert events("job_waiting")[-1].data["numbers"] == waiting.reason_numbers
    assert reason_sentence(pool, waiting.reason_code, waiting.reason_numbers) == (
        "Needs 6 slots and waits for an interval that is as long; the longest has 8."
    )


def test_what_the_instant_lane_refuses_is_not_queued_for_intervals_that_are_all_too_short() -> None:
    pool = make_live_pool(clock_cap=8)
    castor, lumen = make_tenant("castor"), make_tenant("lumen")
    make_cells(make_server(pool, worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    fund(lumen)
    answer = job_submit(
        pool=pool, name="q", spec=SPEC | LONG, lane="instant", otherwise="batch", by=member(lumen), at=moment(0.5)
    )
    assert isinstance(answer, Submitted)
    assert (again(answer.job).state, again(answer.job).lane) == ("rejected", Lane.INSTANT)
    refused = job_queue(job_id=answer.job.pk, by=member(lumen), at=moment(0.6))
    assert isinstance(refused, NeverFits)
    assert again(answer.job).arrival == answer.job.arrival


def test_the_interface_answers_with_code_numbers_and_sentence() -> None:
    pool, _, lumen = market(epoch_at=timezone.now())
    caller = program_of(SUBMITTER, lumen)
    body = {"pool": pool.slug, "name": "long", "lane": "batch", "spec": SPEC | LONG}
    document = problem(caller.post("tenants/lumen/jobs/", body), 409, "larger_than_window")
    assert document["detail"] == SENTENCE
    numbers = {"needs_slots": 50, "window_slots": 8, "enough_workers": None, "epochs_that_fit": 8}
    assert document["numbers"] == numbers | {
        "home_end": None,
        "fewest_pieces": 7,
        "piece_slots": None,
        "most_save_slots": None,
    }
    assert nothing_is_stored()
    quote = caller.post("tenants/lumen/quotes/", body).json()
    assert (quote["terms"]["admitted"], quote["estimate"]) == (False, None)
    assert quote["terms"]["reason"]["sentence"] == SENTENCE
    assert quote["terms"]["reason"]["numbers"]["window_slots"] == 8


def test_the_page_says_it_in_the_quote_and_at_the_form() -> None:
    pool, _, lumen = market(epoch_at=timezone.now())
    client = client_as(SUBMITTER, lumen)
    long = FIELDS | {"pool": pool.slug, "epochs": "50"}
    words = text_of(client.post(f"/t/{lumen.slug}/submit/quote/", long, secure=True).content.decode())
    assert SENTENCE in words
    assert "Train at most 8 epochs" in words or "No single change" in words
    reply = client.post(f"/t/{lumen.slug}/submit/", long, secure=True)
    assert reply.status_code == 422
    assert SENTENCE in text_of(reply.content.decode())
    assert nothing_is_stored()


def test_interval_names_the_longest_interval_of_the_pool_and_not_its_own() -> None:
    pool, _, lumen = market()
    submitted(pool, lumen, lane="batch", slot=0.5, epochs=4, chunks=4)  # longer than the first ones
    for slot in range(1, 5):
        pool_advance(pool_id=pool.pk, at=moment(slot + 0.5))
    with scope(lumen):
        views = [interval_view(tenant=lumen, pool=pool, number=n, money=False, jobs=True) for n in range(1, 5)]
    texts = {bid.text for view in views if view for bid in view.bids if "longest" in bid.text}
    assert texts == {"Needs 4 slots and waits for an interval that is as long; the longest has 8."}


def test_a_refused_job_does_not_wait_in_a_pool_that_comes_to_rest_or_when_its_budget_is_used_up() -> None:
    pool = make_live_pool()
    castor, lumen = make_tenant("castor"), make_tenant("lumen")
    make_cells(make_server(pool, worker=4, ps=1), castor, {"worker": 4, "ps": 1})
    fund(lumen)
    value = {"kind": "linear", "slope": -1.0, "base": 0.0001}
    job, by = submitted(pool, lumen, slot=0.1, value=value).job, member(lumen)
    assert again(job).state == "rejected"
    with scope(lumen):
        budget = Budget.objects.create(tenant=lumen, period="month", hard_limit=0)
    assert isinstance(job_queue(job_id=job.pk, by=by, at=moment(0.3)), OverBudget)
    with scope(lumen):
        budget.delete()
    operator = access_of_system("the tests")
    assert not isinstance(pool_drain(pool=pool, by=operator, reason="rest", at=moment(0.4)), Refused)
    refused = job_queue(job_id=job.pk, by=by, at=moment(0.5))
    assert isinstance(refused, Refused)
    assert refused.code == "pool_draining"
    assert again(job).state == "rejected"
    assert not isinstance(pool_resume(pool=pool, by=operator, reason="on", at=moment(0.6)), Refused)
    assert isinstance(job_queue(job_id=job.pk, by=by, at=moment(0.7)), TrainingJob)
