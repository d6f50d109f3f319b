"""What an elastic pool says before a job is submitted, and of where it is afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.core.types import Reason
from scheduling.jobs.read_rows import job_rows
from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.models import StartEstimate
from scheduling.quotes.elastic_quotes import ByUse
from scheduling.quotes.quotes import Quote, job_quote
from tenants.scoping import scope
from tests.scheduling.clocks import advance, moment
from tests.scheduling.elastic_world import make_elastic, make_elastic_job, slots_of
from tests.scheduling.live import explained, member
from tests.scheduling.markets import MICRO, SPEC, again

pytestmark = pytest.mark.django_db


def quoted(pool: Any, tenant: Any, slot: float = 0.5, **spec: Any) -> Any:
    wanted = {"pool": pool, "name": "train", "lane": "batch", "by": member(tenant), "at": moment(pool, slot)}
    return job_quote(spec=SPEC | {"minibatches": 6} | spec, **wanted)


def test_a_quote_says_what_a_slot_costs_and_the_sum_as_an_estimate() -> None:
    pool, _, renter = make_elastic()
    quote = quoted(pool, renter)
    assert isinstance(quote, Quote)
    assert quote.terms.admitted
    assert (quote.terms.start, quote.terms.end, quote.terms.workers) == (1, 2, 4)
    assert quote.terms.price == sum((quote.terms.payees or {}).values()) == 3 * MICRO
    # Four workers at 0.5 and, with the bandwidths as they are, four parameter servers at 0.25.
    assert quote.by_use == ByUse(workers=4, ps=4, per_slot=3 * MICRO, slots=3, total=9 * MICRO)
    assert quote.estimate is None


def test_a_quote_of_who_cannot_pay_names_the_numbers_and_what_would_help() -> None:
    pool, _, renter = make_elastic(credits=2)
    quote = quoted(pool, renter, min_workers=4)
    assert quote.terms.reason == Reason("low_balance", {"price": 3.0, "left": 1.999999, "least_price": 2.25})
    assert quote.change is not None
    assert quote.change.what in ("fewer_workers", "more_budget")
    limited = quoted(pool, make_elastic_tenant(), max_price=1.0, min_workers=4)
    assert limited.terms.reason.code == "over_max_price"
    assert limited.terms.reason.numbers == {"price": 3.0, "max_price": 1.0, "spent": 0.0, "least_price": 2.25}


def test_a_quote_of_who_can_pay_less_is_of_the_smaller_size_and_says_why() -> None:
    pool, _, renter = make_elastic(credits=2)
    terms = quoted(pool, renter).terms
    assert (terms.admitted, terms.workers, terms.price) == (True, 2, 1_500_000)
    assert (terms.reason.code, terms.reason.numbers["asked_price"]) == ("smaller_size", 3.0)


def make_elastic_tenant() -> Any:
    from tests.scheduling.builders import make_tenant
    from tests.scheduling.markets import give

    tenant = make_tenant("rich")
    give(tenant, 100)
    return tenant


def test_a_quote_is_what_the_submission_gets() -> None:
    pool, _, renter = make_elastic()
    make_elastic_job(pool, renter)
    advance(pool, 0)
    quote = quoted(pool, renter)
    submitted = job_submit(
        pool=pool,
        name="train",
        spec=SPEC | {"minibatches": 6},
        lane="batch",
        by=member(renter),
        at=moment(pool, 0.5),
    )
    assert isinstance(submitted, Submitted)
    assert submitted.job.reason_code == "waiting_for_interval"
    with scope(renter):
        assert not StartEstimate.objects.exists()
    advance(pool, 1)
    (award,) = slots_of(submitted.job)
    assert (award.start, award.workers, award.paid) == (quote.terms.start, quote.terms.workers, quote.terms.price)


def test_a_speed_that_no_policy_could_use_is_refused_at_the_submission() -> None:
    pool, _, renter = make_elastic()
    refused = quoted(pool, renter, speed=[1.0])
    assert isinstance(refused, InvalidJob)
    assert refused.field == "speed"


def test_a_job_says_its_size_what_it_paid_so_far_and_why_it_waits() -> None:
    pool, _, renter = make_elastic(credits=7)
    job = make_elastic_job(pool, renter, slots=4, min_workers=4)
    advance(pool, 0)
    advance(pool, 1)
    with scope(renter):
        (row,) = job_rows([again(job)])
        running = explained(again(job))
    assert (running.price, running.workers, running.reason.code) == (6 * MICRO, 4, "running")
    assert (
        running.reason.sentence
        == "Runs on 4 workers and 4 parameter servers; its size is decided again at 2 Mar, 12:00:20."
    )
    assert (row.start_slot, row.end_slot, row.held) == (0, 2, 3 * MICRO)
    advance(pool, 2)
    with scope(renter):
        (row,) = job_rows([again(job)])
        waiting = explained(again(job))
    assert (waiting.state, waiting.price, waiting.workers, row.held) == ("queued", 6 * MICRO, 0, 0)
    assert waiting.reason.sentence == "Costs 3.00, its least size 2.25, and 1.00 are available."
