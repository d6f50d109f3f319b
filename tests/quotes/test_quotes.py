"""Quotes: the same answer as a submission, nothing written, and what to change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.core.types import Reason
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.describing import JobWording, Understood, job_understood
from scheduling.jobs.submission import Submitted
from scheduling.models import Award, Pool, StartEstimate
from scheduling.operator.holds import pool_drain, pool_hold, pool_resume
from scheduling.quotes.quotes import Quote, job_quote
from tenants.access import Refused, access_of_system
from tenants.common.patience import DeadlinePassed
from tenants.models import Tenant
from tenants.roles import BILLING, OWNER
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import SPEC, fund, make_live_pool, member, moment, submit, submitted
from tests.tenants.builders import done

pytestmark = pytest.mark.django_db


@contextmanager
def nothing_written() -> Iterator[None]:
    """The database itself refuses every write inside."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL transaction_read_only = on")
        yield
        transaction.set_rollback(True)  # the only way back to writing


def quote(pool: Pool, tenant: Tenant, *, lane: str = "instant", slot: float = 0.0, **spec: Any) -> Quote:
    with nothing_written():
        answer = job_quote(pool=pool, name="train", spec=SPEC | spec, lane=lane, by=member(tenant), at=moment(slot))
    assert isinstance(answer, Quote), answer
    return answer


def market() -> tuple[Pool, Tenant, Tenant]:
    """Castor has four workers, the operator eight, Lumen none; both have credits."""
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    make_cells(make_server(pool, "s01", worker=4, ps=2), castor, {"worker": 4, "ps": 2})
    make_server(pool, "s02", worker=8, ps=2)
    for tenant in (lumen, castor):
        fund(tenant)
    return pool, lumen, castor


@pytest.mark.parametrize("slot", [0.0, 1.5, 4.2])
def test_instant_quote_is_what_a_submission_at_that_moment_pays(slot: float) -> None:
    pool, lumen, castor = market()
    submitted(pool, castor, epochs=6)
    pool_advance(pool_id=pool.pk, at=moment(slot))
    terms = quote(pool, lumen, slot=slot, epochs=3).terms
    award = submitted(pool, lumen, slot=slot, epochs=3).award
    assert award is not None
    assert (terms.price, terms.start, terms.end) == (award.paid, award.start, award.end)
    assert award.paid > 0
    paid: dict[int, int] = {}
    for owner, amount in (part for parts in award.charges for part in parts):
        paid[owner] = paid.get(owner, 0) + amount
    assert terms.payees == paid


def test_quote_of_a_job_in_hours_asks_the_database_no_more_than_one_in_detail() -> None:
    pool, lumen, _ = market()
    by, at = member(lumen), moment(0.0)
    worth = {"within_seconds": 3600, "credits": "10", "later": "half"}
    wording = JobWording(worth=worth, hours={"hours": "0.01", "most": 2, "worker": {"worker": 1}})

    def described(spec: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The specification of the quote: that of the description, where none is given."""
        read = None
        if spec is None:
            understood = job_understood(pool=pool, wording=wording, by=by, at=at)
            assert isinstance(understood, Understood), understood
            spec, read = understood.spec, understood.read
        outcome = job_quote(pool=pool, name="train", spec=spec, lane="batch", by=by, at=at, read=read)
        assert isinstance(outcome, Quote), outcome
        return spec

    spec = described(None)  # what is read once and kept is there from now on
    with CaptureQueriesContext(connection) as in_hours:
        described(None)
    with CaptureQueriesContext(connection) as in_detail:
        described(spec)
    assert len(in_hours) <= len(in_detail), [query["sql"][:90] for query in in_hours]


@pytest.mark.parametrize("lane", ["instant", "batch"])
def test_quote_asks_for_the_time_between_the_forms_that_it_tries(lane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are computed without a statement of the database, before which a request looks at its clock."""
    pool, lumen, _ = market()
    looks = itertools.count()

    def look() -> None:
        if next(looks) == 2:
            raise DeadlinePassed

    monkeypatch.setattr("scheduling.quotes.desks.in_time", look)
    monkeypatch.setattr("scheduling.quotes.desks.give_way", look)
    with pytest.raises(DeadlinePassed):
        quote(pool, lumen, lane=lane, chunks=64, min_workers=50, max_workers=64)


def test_instant_quote_refuses_for_the_reason_of_a_submission() -> None:
    pool, lumen, _ = market()
    cheap = {"value": {"kind": "linear", "slope": -0.001, "base": 0.02}}
    answer = quote(pool, lumen, **cheap)
    job = submitted(pool, lumen, **cheap).job
    assert answer.terms.reason is not None
    assert (answer.terms.reason.code, dict(answer.terms.reason.numbers)) == (job.reason_code, job.reason_numbers)


def test_change_that_is_proposed_wins() -> None:
    pool, lumen, _ = market()
    answer = quote(pool, lumen, max_price=0.01)
    assert answer.change is not None
    assert answer.change.terms is not None
    assert answer.change.what == "higher_max_price"
    award = submitted(pool, lumen, max_price=answer.change.after).award
    assert award is not None
    assert award.paid == answer.change.terms.price


def test_a_worth_that_has_all_but_gone_is_not_raised_beyond_what_a_job_may_say() -> None:
    """A sigmoid long past its moment: to be worth its price again it would need a priority of 100 digits."""
    pool, lumen, _ = market()
    faded = {"kind": "sigmoid", "priority": 40.0, "decay": 100.0, "target": 0.5}
    answer = quote(pool, lumen, epochs=6, value=faded)
    assert not answer.terms.admitted
    assert answer.change is None or answer.change.what not in ("higher_value", "higher_max_price")


def test_change_may_be_a_higher_value() -> None:
    pool, lumen, _ = market()
    low = {"kind": "linear", "slope": -0.001, "base": 0.045}
    answer = quote(pool, lumen, value=low)
    assert answer.terms.reason is not None
    assert answer.terms.reason.code == "outbid"
    assert answer.change is not None
    assert answer.change.terms is not None
    assert answer.change.terms.admitted


LOW = {"kind": "linear", "slope": -0.00001, "base": 0.002}  # far below the least that anything costs
LATE = {"kind": "linear", "slope": -1.0, "base": 0.5}  # worth nothing when its second slot is over
CLIFF = {"kind": "deadline", "base": 0.001, "deadline": 8.0}
ENDED = LOW | {"kind": "linear_until", "until": 8.0}
FADING = {"kind": "sigmoid_until", "priority": 0.002, "decay": 0.5, "target": 6.0, "until": 8.0}
GANG = {"chunks": 8, "min_workers": 8, "max_workers": 8, "ps_mbps": 8.0, "epochs": 2}


def lane_of_its_own(lane: str) -> tuple[Pool, Tenant]:
    """Eight workers of the operator's, sold by this lane alone, in windows of four slots; Lumen has credits."""
    closed = {"instant_policy": None} if lane == "batch" else {}
    pool, lumen = make_live_pool(clock_first=4, clock_cap=4, **closed), make_tenant("lumen")
    make_server(pool, "s01", worker=8, ps=2)
    make_server(pool, "s02", worker=1, ps=1)
    fund(lumen)
    return pool, lumen


@pytest.mark.parametrize("lane", ["instant", "batch"])
@pytest.mark.parametrize(
    ("value", "limit", "code"),
    [
        (LOW, None, "outbid"),
        (LOW, 0.003, "outbid"),
        (LATE, None, "not_worth_it"),
        (CLIFF, None, "outbid"),
        (ENDED, None, "outbid"),
        (FADING, None, "outbid"),
        (SPEC["value"], 0.003, "over_max_price"),
    ],
)
def test_a_job_refused_for_its_price_is_told_what_would_win(
    lane: str, value: dict[str, Any], limit: float | None, code: str
) -> None:
    pool, lumen = lane_of_its_own(lane)
    wish = GANG | {"value": value} | ({} if limit is None else {"max_price": limit})
    answer = quote(pool, lumen, lane=lane, slot=0.5, **wish)
    assert answer.terms.reason is not None
    assert answer.terms.reason.code == code
    assert answer.change is not None
    assert answer.change.terms is not None
    assert answer.change.what in ("higher_value", "higher_max_price")
    assert answer.change.after > answer.change.before
    job = submitted(pool, lumen, lane=lane, slot=0.5, **wish | dict(answer.change.fields)).job
    pool_advance(pool_id=pool.pk, at=moment(5))
    with scope_disabled("the test looks at an award"):
        award = Award.objects.get(job=job)
    assert (award.start, award.paid) == (answer.change.terms.start, answer.change.terms.price)


@pytest.mark.parametrize("lane", ["instant", "batch"])
def test_a_gang_that_nothing_could_hold_is_told_to_be_smaller(lane: str) -> None:
    pool, lumen = lane_of_its_own(lane)
    answer = quote(pool, lumen, lane=lane, slot=0.5, chunks=16, min_workers=16, max_workers=16, ps_mbps=16.0)
    assert answer.terms.reason is not None
    assert answer.terms.reason.code in ("no_room", "larger_than_window")
    assert answer.change is not None
    assert (answer.change.what, answer.change.fields["min_workers"]) == ("fewer_workers", answer.change.after)


def test_change_may_be_to_come_later() -> None:
    """All twelve workers are taken in the next two slots, and nothing else is asked for differently."""
    pool, lumen, castor = market()
    submitted(pool, castor, lane="instant", chunks=8, max_workers=8, epochs=2, ps_mbps=8.0)
    gang = {"chunks": 8, "min_workers": 8, "max_workers": 8, "ps_mbps": 8.0}
    hasty = {"kind": "deadline", "base": 100.0, "deadline": 1.5}
    answer = quote(pool, lumen, **gang, value=hasty)
    assert not answer.terms.admitted
    assert answer.change is not None
    assert answer.change.terms is not None
    assert (answer.change.what, answer.change.terms.start) == ("later", 2)
    later = submitted(pool, lumen, slot=answer.change.after, **gang, value=hasty).award
    assert later is not None
    assert (later.start, later.paid) == (2, answer.change.terms.price)


def test_batch_job_that_gets_nothing_now_is_told_of_the_interval_that_serves_it() -> None:
    """The first window is one slot long, and the job needs two; the next one is long enough."""
    pool, lumen, _ = market()
    long = {"chunks": 4, "max_workers": 4, "min_workers": 4, "epochs": 2}
    answer = quote(pool, lumen, lane="batch", slot=0.5, **long)
    assert not answer.terms.admitted
    assert answer.change is not None
    assert answer.change.terms is not None
    assert answer.change.what == "later"
    job = submitted(pool, lumen, lane="batch", slot=0.5, **long).job
    pool_advance(pool_id=pool.pk, at=moment(8))
    with scope_disabled("the test looks at an award"):
        award = Award.objects.get(job=job)
    assert (answer.change.terms.start, answer.change.terms.price) == (award.start, award.paid)


def test_tenant_without_credits_is_told_how_many_are_missing() -> None:
    pool, _, _ = market()
    poor = make_tenant("orrin")
    answer = quote(pool, poor)
    assert answer.terms.reason is not None
    assert answer.terms.reason.code == "low_balance"
    assert answer.change is not None
    assert (answer.change.what, answer.change.before) == ("more_budget", 0.0)


def test_batch_quote_is_what_the_next_boundary_decides_if_nobody_else_comes() -> None:
    pool, lumen, castor = market()
    submitted(pool, castor, lane="batch", max_workers=2, chunks=2, epochs=2)
    pool_advance(pool_id=pool.pk, at=moment(0.3))
    small = {"chunks": 2, "max_workers": 2}
    answer = quote(pool, lumen, lane="batch", slot=0.5, **small)
    assert answer.estimate is not None
    job = submitted(pool, lumen, lane="batch", slot=0.5, **small).job
    pool_advance(pool_id=pool.pk, at=moment(4))
    with scope_disabled("the test looks at an award"):
        award = Award.objects.get(job=job)
    assert answer.terms.admitted
    assert (answer.terms.start, answer.terms.end, answer.terms.price) == (award.start, award.end, award.paid)
    assert answer.estimate.earliest <= award.start <= answer.estimate.latest


def test_batch_quote_at_home_is_free() -> None:
    pool, _, castor = market()
    terms = quote(pool, castor, lane="batch", slot=0.5).terms
    assert (terms.admitted, terms.phase, terms.price) == (True, "own", 0)


def test_batch_quote_at_home_counts_workers_on_all_servers_and_its_range_has_its_start() -> None:
    pool, castor = make_live_pool(), make_tenant("castor")
    for name in ("s01", "s02"):
        make_cells(make_server(pool, name, worker=2, ps=1), castor, {"worker": 2, "ps": 1})
    fund(castor)
    whole = {"chunks": 4, "min_workers": 4, "max_workers": 4, "value": {"kind": "linear", "slope": -0.1, "base": 100.0}}
    for _ in range(30):  # its own cells are busy beyond two windows
        submitted(pool, castor, lane="batch", slot=0.2, epochs=4, **whole)
    answer = quote(pool, castor, lane="batch", slot=0.5, **whole)
    assert (answer.terms.admitted, answer.terms.phase, answer.terms.workers) == (True, "own", 4)
    assert answer.estimate is not None
    assert answer.terms.start is not None
    assert answer.estimate.earliest <= answer.terms.start <= answer.estimate.latest


def test_estimate_is_kept_with_a_submission_and_told_when_the_job_began() -> None:
    pool, _, castor = market()
    job = submitted(pool, castor, lane="batch", slot=0.5).job
    pool_advance(pool_id=pool.pk, at=moment(6))
    with scope_disabled("the test looks at an estimate"):
        estimate, award = StartEstimate.objects.get(job=job), Award.objects.get(job=job)
    assert estimate.started == award.start
    assert estimate.earliest <= award.start <= estimate.latest


def test_estimate_of_a_job_that_is_cancelled_before_the_late_clock_starts_it_never_comes_true() -> None:
    pool, _, castor = market()
    jobs = [submitted(pool, castor, lane="batch", slot=0.5, epochs=2).job for _ in range(2)]
    with scope_disabled("the test looks at all awards"):
        clock = 1
        while (award := Award.objects.filter(job__in=jobs, state="booked").first()) is None:
            pool_advance(pool_id=pool.pk, at=moment(clock))
            clock += 1
        # By the time its first slot runs, but the clock has not come so far: all of it is paid, and it never begins.
        done(job_cancel(job_id=award.job_id, by=member(castor, OWNER), at=moment(award.start + 0.5)))
        pool_advance(pool_id=pool.pk, at=moment(award.end + 2))
        assert StartEstimate.objects.get(job=award.job_id).started is None
        assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_quote_in_a_held_market_says_so() -> None:
    pool, lumen, _ = market()
    pool_hold(pool=pool, by=access_of_system("test"), reason="a look", at=moment(0))
    reason = quote(pool, lumen).terms.reason
    assert reason is not None
    assert reason.code == "market_held"


def test_quote_of_the_batch_lane_in_a_held_market_says_its_terms_and_that_it_holds() -> None:
    pool, lumen, _ = market()
    before = job_quote(pool=pool, name="train", spec=SPEC, lane="batch", by=member(lumen), at=moment(0))
    pool_hold(pool=pool, by=access_of_system("test"), reason="a look", at=moment(0))
    held = job_quote(pool=pool, name="train", spec=SPEC, lane="batch", by=member(lumen), at=moment(0))
    assert isinstance(before, Quote)
    assert isinstance(held, Quote)
    assert held.terms == replace(before.terms, reason=Reason("market_held"))
    assert (held.terms.admitted, isinstance(submit(pool, lumen, lane="batch"), Submitted)) == (True, True)
    pool_resume(pool=pool, by=access_of_system("test"), reason="looked", at=moment(0))
    again = job_quote(pool=pool, name="train", spec=SPEC, lane="batch", by=member(lumen), at=moment(0))
    assert isinstance(again, Quote)
    assert again.terms.reason is None or again.terms.reason.code != "market_held"


def test_draining_pool_neither_quotes_nor_accepts() -> None:
    pool, lumen, _ = market()
    pool_drain(pool=pool, by=access_of_system("test"), reason="a move", at=moment(0))
    answers = [
        job_quote(pool=pool, name="train", spec=SPEC, lane="batch", by=member(lumen), at=moment(1)),
        submit(pool, lumen, lane="batch", slot=1.0),
    ]
    assert [answer.code for answer in answers if isinstance(answer, Refused)] == ["pool_draining"] * 2
    assert not any(isinstance(answer, Submitted) for answer in answers)


def test_only_who_may_ask_for_quotes_gets_one() -> None:
    pool, lumen, _ = market()
    answer = job_quote(pool=pool, name="x", spec=SPEC, lane="instant", by=member(lumen, BILLING), at=moment(0))
    assert isinstance(answer, Refused)


def test_worth_that_names_a_moment_stays_there_however_late_the_job_is_tried() -> None:
    """It is wanted within eight slots from noon on, and there is room for its three slots from the sixth on: a slot
    later it would have as little time."""
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    make_server(pool, "s01", worker=4, ps=1)
    for tenant in (lumen, castor):
        fund(tenant)
    submitted(pool, castor, epochs=6)
    wanted: dict[str, Any] = {"epochs": 3, "value": {"kind": "deadline", "base": 50.0, "deadline": 8.0}}
    order: dict[str, Any] = {"pool": pool, "name": "train", "spec": SPEC | wanted, "by": member(lumen)}
    for lane, slot in (("instant", 0), ("instant", 1)):
        answer = job_quote(lane=lane, at=moment(slot), worth_from=moment(0), **order)
        assert isinstance(answer, Quote), answer
        assert not answer.terms.admitted, slot
        assert answer.change is None or answer.change.what != "later", answer.change
    within = job_quote(lane="instant", at=moment(1), **order)  # a time that counts from the submission on
    assert isinstance(within, Quote)
    assert (within.terms.admitted, within.terms.end) == (True, 9)


def test_quote_of_a_batch_that_charges_gross_says_what_comes_back() -> None:
    """In the paper's mode a payer is one of the owners who are paid: Lumen sells half of its units and rents others."""
    paper = {"name": "astraea", "mode": "paper", "theta": {"worker": 16, "ps": 16}}
    pool = make_live_pool(instant_policy=None, batch_policy=paper, clock_first=4, clock_cap=4, clock_restart=False)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    for number, tenant in enumerate((lumen, castor)):
        make_cells(make_server(pool, f"s{number}", worker=4, ps=2), tenant, {"worker": 4, "ps": 2})
        fund(tenant)
    submitted(pool, lumen, lane="batch", slot=0.2, epochs=4, chunks=2, max_workers=2, min_workers=2)
    wanted: dict[str, Any] = {"epochs": 2, "min_workers": 4}
    terms = quote(pool, lumen, lane="batch", slot=0.4, **wanted).terms
    job = submitted(pool, lumen, lane="batch", slot=0.4, **wanted).job
    for slot in range(5):
        pool_advance(pool_id=pool.pk, at=moment(slot))
    with scope_disabled("the test looks at an award"):
        award = Award.objects.get(job=job)
    assert (terms.phase, terms.start, terms.end, terms.price) == ("shared", award.start, award.end, award.paid)
    assert award.own_part > 0
    assert (terms.own_part, terms.net) == (award.own_part, award.paid - award.own_part)
