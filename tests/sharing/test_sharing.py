"""A tenant says what may be rented and lent in its name."""

from __future__ import annotations

import pytest

from scheduling.market.view.frame import pool_frame
from scheduling.models import TenantPolicy
from scheduling.sharing.read_sharing import sharing_of
from scheduling.sharing.sharing import Sharing, sharing_change
from tenants.access import Refused
from tenants.models import AuditEntry
from tenants.roles import OWNER, SUBMITTER
from tenants.scoping import scope
from tests.scheduling.builders import NOON, make_pool
from tests.tenants.builders import access, make_member, make_tenant

pytestmark = pytest.mark.django_db


def owner_of(tenant):
    return access(make_member(tenant, OWNER))


def changed(outcome) -> TenantPolicy:
    assert isinstance(outcome, TenantPolicy), outcome
    return outcome


def test_changes_what_the_next_snapshot_reads_and_remembers_it() -> None:
    pool, tenant = make_pool(), make_tenant("lumen")
    sharing = Sharing(rent="budget", budget=3_000_000, lend="keep", reserve_price={"worker": 0.25})
    changed(sharing_change(pool=pool, sharing=sharing, by=owner_of(tenant), at=NOON))
    (owner,) = pool_frame(pool, also=[tenant.pk]).cluster.tenants
    assert (owner.rent, owner.budget, owner.lend) == ("budget", 3.0, "keep")
    assert owner.reserve_price.tolist() == [0.25, 0.0]
    entry = AuditEntry.objects.get(action="sharing_change")
    assert (entry.before["rent"], entry.after["rent"], entry.tenant) == ("auto", "budget", tenant)


def test_same_instructions_again_leave_no_line() -> None:
    pool, by = make_pool(), owner_of(make_tenant())
    for _ in range(2):
        changed(sharing_change(pool=pool, sharing=Sharing(rent="never"), by=by, at=NOON))
    assert AuditEntry.objects.filter(action="sharing_change").count() == 1


def test_pools_have_instructions_of_their_own() -> None:
    tenant = make_tenant()
    by = owner_of(tenant)
    for slug, rent in (("main", "never"), ("spare", "auto")):
        changed(sharing_change(pool=make_pool(slug), sharing=Sharing(rent=rent), by=by, at=NOON))
    with scope(tenant):
        assert dict(TenantPolicy.objects.values_list("pool__slug", "rent")) == {"main": "never", "spare": "auto"}


def test_a_tenant_that_says_nothing_has_the_usual_plan_of_its_pool_and_one_that_spoke_keeps_what_was_written() -> None:
    old, new, tenant = make_pool("old"), make_pool("new", usual_plan="renew"), make_tenant()
    plans = [pool_frame(pool, also=[tenant.pk]).cluster.tenants[0].plan for pool in (old, new)]
    assert plans == ["keep", "renew"]
    with scope(tenant):
        assert [sharing_of(tenant, pool).plan for pool in (old, new)] == ["keep", "renew"]
    row = changed(sharing_change(pool=new, sharing=Sharing(rent="never"), by=owner_of(tenant), at=NOON))
    entry = AuditEntry.objects.get(action="sharing_change")
    assert (row.plan, entry.before["plan"], entry.after["plan"]) == ("renew", "renew", "renew")


def test_only_an_owner_may() -> None:
    by = access(make_member(make_tenant(), SUBMITTER))
    outcome = sharing_change(pool=make_pool(), sharing=Sharing(rent="never"), by=by, at=NOON)
    assert isinstance(outcome, Refused)
    assert outcome.code == "not_allowed"


@pytest.mark.parametrize(
    "sharing",
    [
        Sharing(rent="sometimes"),
        Sharing(lend="give"),
        Sharing(budget_period="year"),
        Sharing(rent="budget"),
        Sharing(budget=-1),
        Sharing(reserve_price={"gpu": 1.0}),
        Sharing(reserve_price={"worker": -1.0}),
        Sharing(reserve_price={"worker": float("inf")}),
    ],
    ids=str,
)
def test_refuses_impossible_instructions(sharing: Sharing) -> None:
    outcome = sharing_change(pool=make_pool(), sharing=sharing, by=owner_of(make_tenant()), at=NOON)
    assert isinstance(outcome, Refused)
    assert outcome.code == "invalid_sharing"
