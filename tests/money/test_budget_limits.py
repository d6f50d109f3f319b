"""Setting and lifting budgets: by whom, within which bounds, remembered and told."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from scheduling.models import Budget
from scheduling.money.budget_limits import budget_remove, budget_set
from scheduling.money.view_budgets import left_for, limits
from tenants import history
from tenants.access import Access, Refused
from tenants.models import AuditEntry, Membership, Tenant
from tenants.roles import BILLING, OPERATOR, OWNER, SUBMITTER
from tenants.scoping import scope
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.live import events, fund, make_award, make_live_pool, member
from tests.tenants.builders import make_person

pytestmark = pytest.mark.django_db


def put(tenant: Tenant, role: str = BILLING, **fields: Any) -> Budget | Refused:
    usual: dict[str, Any] = {"member": None, "period": "month", "soft": None, "hard": 100, "at": NOON}
    return budget_set(by=member(tenant, role), **(usual | fields))


def refused(answer: object) -> str:
    assert isinstance(answer, Refused), answer
    return answer.code


def entries() -> list[tuple[Any, Any]]:
    rows = AuditEntry.objects.filter(action__startswith="budget_").order_by("sequence")
    return list(rows.values_list("before", "after"))


def test_a_budget_holds_and_is_remembered_and_told() -> None:
    lumen = make_tenant()
    row = put(lumen, soft=50, reason="the quarter")
    assert isinstance(row, Budget)
    with scope(lumen):
        assert left_for(limits(tenant_ids=[lumen.pk], at=NOON), lumen.pk, None) == 100
    assert entries() == [(None, {"soft_limit": 50, "hard_limit": 100})]
    (event,) = events("budget_changed")
    assert (event.tenant_id, event.data["hard_limit"], event.data["removed"]) == (lumen.pk, 100, False)
    assert isinstance(history.verify(), history.VerifiedHistory)


def test_setting_it_again_changes_the_one_budget_and_the_same_again_changes_nothing() -> None:
    lumen = make_tenant()
    for hard in (100, 200, 200):
        put(lumen, hard=hard)
    with scope(lumen):
        assert list(Budget.objects.values_list("hard_limit", flat=True)) == [200]
    assert len(entries()) == 2


def test_a_member_has_a_budget_of_its_own_beside_the_tenants() -> None:
    lumen, person = make_tenant(), make_person()
    with scope(lumen):
        Membership.objects.create(tenant=lumen, user=person, role=SUBMITTER)
    put(lumen, hard=100)
    put(lumen, member=person, hard=30)
    with scope(lumen):
        budgets = limits(tenant_ids=[lumen.pk], at=NOON)
    assert (left_for(budgets, lumen.pk, person.pk), left_for(budgets, lumen.pk, None)) == (30, 100)


def test_a_stranger_has_no_budget() -> None:
    assert refused(put(make_tenant(), member=make_person())) == "unknown_member"


@pytest.mark.parametrize(
    "change",
    [{"period": "year"}, {"hard": None}, {"hard": -1}, {"soft": 101}, {"hard": 10**19}],
    ids=lambda change: str(change),
)
def test_refuses_what_is_no_budget(change: dict[str, Any]) -> None:
    assert refused(put(make_tenant(), **change)) == "invalid_budget"
    assert not connection.needs_rollback


@pytest.mark.parametrize("role", [SUBMITTER, OPERATOR])
def test_only_those_who_answer_for_the_money_set_budgets(role: str) -> None:
    lumen = make_tenant()
    assert refused(put(lumen, role)) == "not_allowed"
    assert refused(budget_remove(member=None, period="month", by=member(lumen, role), at=NOON)) == "not_allowed"
    nowhere = Access(user=None, tenant=None, roles=frozenset({OWNER}))
    assert refused(budget_remove(member=None, period="month", by=nowhere, at=NOON)) == "not_allowed"


def test_a_budget_that_is_removed_binds_no_more() -> None:
    lumen = make_tenant()
    put(lumen)
    assert budget_remove(member=None, period="month", by=member(lumen, OWNER), at=NOON) is None
    with scope(lumen):
        assert not Budget.objects.exists()
    assert entries()[-1] == ({"soft_limit": None, "hard_limit": 100}, None)
    assert refused(budget_remove(member=None, period="month", by=member(lumen, OWNER), at=NOON)) == "unknown_budget"


def test_a_budget_of_another_tenant_is_out_of_reach() -> None:
    put(make_tenant("lumen"))
    castor = make_tenant("castor")
    assert refused(budget_remove(member=None, period="month", by=member(castor, OWNER), at=NOON)) == "unknown_budget"


def test_an_award_counts_in_the_period_in_which_it_was_made() -> None:
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    put(lumen, hard=100, period="day")
    put(lumen, hard=100, period="month")

    fund(lumen)
    yesterday = NOON.replace(day=1)
    make_award(pool, lumen, charges=[[(castor, 10)]], slots=1)
    make_award(pool, lumen, charges=[[(castor, 7)]], slots=1, awarded_at=yesterday)
    with scope(lumen):
        spent = {limit.period: limit.spent for limit in limits(tenant_ids=[lumen.pk], at=NOON)}
    assert spent == {"day": 10, "month": 17}
