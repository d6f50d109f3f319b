"""What a job is worth counts once in an elastic pool: in each slot with the part of its work that the slot does."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.fairness import intervals
from scheduling.fairness.intervals import fairness_catch_up, fairness_values
from scheduling.fairness.read_interval import interval_account
from scheduling.models import IntervalFairness, Pool, TenantFairness
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.elastic_world import make_elastic, make_elastic_job, run
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db
SENTENCE = "a version that counted a whole job in each of its slots"


def four_slots() -> tuple[Pool, Tenant]:
    """Let a job of four slots run that is worth 100, less 1 for each slot."""
    pool, _, renter = make_elastic()
    make_elastic_job(pool, renter, slots=4)
    run(pool, 0, 4)
    with scope_disabled("the test works out the fairness"):
        fairness_catch_up(most=10)
    return pool, renter


def values(tenant: Tenant) -> list[float]:
    with scope_disabled("the test looks at the figures"):
        rows = TenantFairness.objects.filter(tenant=tenant).order_by("number")
        return list(rows.values_list("rented_value", flat=True))


def test_a_job_of_four_slots_is_worth_a_quarter_in_each() -> None:
    pool, renter = four_slots()
    assert values(renter) == [99 / 4, 98 / 4, 97 / 4, 96 / 4]
    revenue = IntervalFairness.objects.order_by("number").values_list("revenue", flat=True)
    assert list(revenue) == values(renter)
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    account = interval_account(pool, 2)
    assert account is not None
    assert (account.out_of_sum, len(account.jobs), account.whole_in_each_slot) == (0.0, 0, False)


def test_figures_of_before_stay_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def before(*arguments: Any) -> Any:
        return fairness_values(*arguments, by_part=False)

    monkeypatch.setattr(intervals, "fairness_values", before)
    pool, renter = four_slots()
    monkeypatch.undo()
    assert values(renter) == [99.0, 98.0, 97.0, 96.0]
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    auditor, own = client_as("auditor", None), client_as("owner", renter)
    for client, path in (
        (auditor, f"/fairness/pools/{pool.slug}/intervals/2/"),
        (own, f"/t/renter/fairness/{pool.slug}/intervals/2/"),
    ):
        assert SENTENCE in text_of(client.get(path).content.decode()), path
    with scope_disabled("the test changes a figure"):
        account = interval_account(pool, 2)
    assert account is not None
    assert account.whole_in_each_slot
