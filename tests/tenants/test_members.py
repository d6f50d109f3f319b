"""Tenants, members and staff: what the services allow, refuse and remember."""

from __future__ import annotations

import threading

import pytest
from django.db import IntegrityError, connection, transaction

from tenants import services
from tenants.access import Refused
from tenants.models import AuditEntry, Membership, StaffGrant, Tenant, User
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, TENANT_ROLES, VIEWER
from tenants.scoping import scope
from tenants.selectors import access_of, staff_roles, user_tenants
from tests.patience import PATIENCE
from tests.tenants.builders import NOW, SYSTEM, WHY, access, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db


def refusal(outcome: object) -> str:
    assert isinstance(outcome, Refused), outcome
    return outcome.code


def roles_of(tenant: Tenant) -> list[str]:
    with scope(tenant):
        return sorted(Membership.objects.values_list("role", flat=True))


def last_entry() -> AuditEntry:
    return AuditEntry.objects.latest("sequence")


def test_tenant_is_made_once_per_short_name() -> None:
    make_tenant("lumen")
    assert (
        refusal(services.tenant_create(slug="lumen", name="Other", by=SYSTEM, reason=WHY, at=NOW)) == "invalid_tenant"
    )


@pytest.mark.parametrize("slug", ["", "Upper", "two--hyphens", "-start", "slash/in", "ünder", "a" * 41])
def test_tenant_with_an_unreadable_short_name_is_refused(slug: str) -> None:
    assert refusal(services.tenant_create(slug=slug, name="Name", by=SYSTEM, reason=WHY, at=NOW)) == "invalid_tenant"


def test_only_an_operator_makes_tenants_and_says_why() -> None:
    owner = access(make_member(make_tenant(), OWNER))
    auditor = access_of(make_staff(AUDITOR).user, None)
    for nobody in (owner, auditor):
        assert refusal(services.tenant_create(slug="new", name="New", by=nobody, reason=WHY, at=NOW)) == "not_allowed"
    operator = access_of(make_staff(OPERATOR).user, None)
    assert refusal(services.tenant_create(slug="new", name="New", by=operator, reason=" ", at=NOW)) == "reason_missing"
    endless = "why " * 100
    assert (
        refusal(services.tenant_create(slug="new", name="New", by=operator, reason=endless, at=NOW))
        == "reason_too_long"
    )


def test_no_tenant_may_bear_the_name_of_the_operators_share() -> None:
    assert (
        refusal(services.tenant_create(slug="operator", name="Us", by=SYSTEM, reason=WHY, at=NOW)) == "invalid_tenant"
    )
    assert not Tenant.objects.exists()


def test_person_belongs_to_a_tenant_once() -> None:
    member = make_member(make_tenant(), VIEWER)
    again = services.member_add(tenant=member.tenant, user=member.user, role=OWNER, by=SYSTEM, reason=WHY, at=NOW)
    assert refusal(again) == "already_member"
    with scope(member.tenant), pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=member.user, role=OWNER)


def test_database_refuses_a_role_that_does_not_exist() -> None:
    tenant = make_tenant()
    with scope(tenant), pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=make_person(), role="emperor")


def test_person_has_another_role_in_each_tenant() -> None:
    person = make_person()
    make_member(make_tenant("one", "One"), VIEWER, person)
    make_member(make_tenant("two", "Two"), OWNER, person)
    assert [(own.slug, own.role) for own in user_tenants(person)] == [("one", VIEWER), ("two", OWNER)]
    assert access_of(person, Tenant.objects.get(slug="one")).roles == {VIEWER}


def test_role_change_stands_in_the_history_with_before_and_after() -> None:
    tenant = make_tenant()
    owner, member = make_member(tenant, OWNER), make_member(tenant, VIEWER)
    services.member_role_change(membership=member, role=BILLING, by=access(owner), at=NOW, reason="does the books")
    entry = last_entry()
    assert (entry.action, entry.tenant, entry.actor, entry.reason, entry.at) == (
        "member_role_change",
        tenant,
        owner.user,
        "does the books",
        NOW,
    )
    assert (entry.before, entry.after) == ({"role": VIEWER}, {"role": BILLING})
    assert roles_of(tenant) == [BILLING, OWNER]


def test_same_role_again_changes_and_remembers_nothing() -> None:
    tenant = make_tenant()
    owner, member = make_member(tenant, OWNER), make_member(tenant, VIEWER)
    before = AuditEntry.objects.count()
    services.member_role_change(membership=member, role=VIEWER, by=access(owner), at=NOW)
    assert AuditEntry.objects.count() == before


def test_operator_must_say_why_and_owner_need_not() -> None:
    tenant = make_tenant()
    owner, member = make_member(tenant, OWNER), make_member(tenant, VIEWER)
    operator = access_of(make_staff(OPERATOR).user, tenant)
    silent = services.member_role_change(membership=member, role=SUBMITTER, by=operator, at=NOW)
    assert refusal(silent) == "reason_missing"
    assert not isinstance(
        services.member_role_change(membership=member, role=SUBMITTER, by=access(owner), at=NOW), Refused
    )


@pytest.mark.parametrize("role", [role for role in TENANT_ROLES if role != OWNER])
def test_only_an_owner_of_this_tenant_changes_its_members(role: str) -> None:
    tenant = make_tenant()
    member = make_member(tenant, VIEWER)
    for by in (access(make_member(tenant, role)), access(make_member(make_tenant(), OWNER))):
        changed = services.member_role_change(membership=member, role=OWNER, by=by, at=NOW, reason=WHY)
        assert refusal(changed) == "not_allowed"
        assert refusal(services.member_remove(membership=member, by=by, at=NOW, reason=WHY)) == "not_allowed"


def test_last_owner_stays_owner_and_member() -> None:
    owner = make_member(make_tenant(), OWNER)
    changed = services.member_role_change(membership=owner, role=VIEWER, by=access(owner), at=NOW)
    assert refusal(changed) == "last_owner"
    assert refusal(services.member_remove(membership=owner, by=access(owner), at=NOW)) == "last_owner"
    by_staff = services.member_remove(membership=owner, by=SYSTEM, at=NOW, reason=WHY)
    assert refusal(by_staff) == "last_owner"
    assert roles_of(owner.tenant) == [OWNER]


def test_owner_may_go_when_another_stays() -> None:
    tenant = make_tenant()
    first, second = make_member(tenant, OWNER), make_member(tenant, OWNER)
    assert services.member_remove(membership=first, by=access(first), at=NOW) is None
    assert refusal(services.member_remove(membership=second, by=access(second), at=NOW)) == "last_owner"


def test_member_may_leave_whatever_the_role() -> None:
    tenant = make_tenant()
    make_member(tenant, OWNER)
    viewer = make_member(tenant, VIEWER)
    assert services.member_remove(membership=viewer, by=access(viewer), at=NOW) is None
    assert last_entry().before == {"role": VIEWER}


def test_old_copy_of_a_membership_changes_nothing_that_is_gone() -> None:
    tenant = make_tenant()
    owner, member = make_member(tenant, OWNER), make_member(tenant, VIEWER)
    services.member_remove(membership=member, by=access(owner), at=NOW)
    member.pk = member.pk or 0
    assert refusal(services.member_remove(membership=member, by=access(owner), at=NOW)) == "not_member"


def in_threads(*actions) -> list[object]:
    """All actions at once, each on its own connection."""
    outcomes: list[object] = [None] * len(actions)
    together = threading.Barrier(len(actions), timeout=PATIENCE)

    def run(number: int) -> None:
        try:
            together.wait()
            outcomes[number] = actions[number]()
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    return outcomes


@pytest.mark.django_db(transaction=True)
def test_of_tenants_that_are_made_at_once_under_one_name_there_is_one() -> None:
    """All find the name free; whoever comes second waits for the first, and learns that it is taken."""
    for slug in ("lumen", "castor", "orrin"):

        def make(slug: str = slug) -> object:
            return services.tenant_create(slug=slug, name="Lumen", by=SYSTEM, reason=WHY, at=NOW)

        outcomes = in_threads(*[make] * 4)
        assert sum(isinstance(each, Tenant) for each in outcomes) == 1
        sentences = [each.sentence for each in outcomes if isinstance(each, Refused)]
        assert sentences == ["There is such a tenant already."] * 3


@pytest.mark.django_db(transaction=True)
def test_of_accounts_that_are_made_at_once_with_one_address_there_is_one() -> None:
    def make() -> object:
        return services.person_create(email="ines@lumen.example", name="", password=None, by=SYSTEM, reason=WHY, at=NOW)

    outcomes = in_threads(*[make] * 4)
    assert sorted(each.code for each in outcomes if isinstance(each, Refused)) == ["address_taken"] * 3
    assert User.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_owners_who_leave_at_once_do_not_leave_the_tenant_without_one() -> None:
    for _ in range(5):
        tenant = make_tenant()
        first, second = make_member(tenant, OWNER), make_member(tenant, OWNER)
        by_first, by_second = access(first), access(second)
        outcomes = in_threads(
            lambda first=first, by=by_first: services.member_remove(membership=first, by=by, at=NOW),
            lambda second=second, by=by_second: services.member_remove(membership=second, by=by, at=NOW),
        )
        assert sum(outcome is None for outcome in outcomes) == 1
        assert roles_of(tenant) == [OWNER]


@pytest.mark.django_db(transaction=True)
def test_two_owners_without_the_lock_leave_the_tenant_without_one(monkeypatch) -> None:
    """The race that the lock on the tenant's row prevents, shown without it."""
    from tenants.services import members

    barrier = threading.Barrier(2, timeout=PATIENCE)
    last_owner_check = members._is_last_owner

    def check_together(membership: Membership) -> bool:
        answer = last_owner_check(membership)
        barrier.wait()  # both have looked before either acts
        return answer

    monkeypatch.setattr(members, "_lock", lambda tenant: None)
    monkeypatch.setattr(members, "_is_last_owner", check_together)
    tenant = make_tenant()
    first, second = make_member(tenant, OWNER), make_member(tenant, OWNER)
    by_first, by_second = access(first), access(second)
    in_threads(
        lambda: services.member_remove(membership=first, by=by_first, at=NOW),
        lambda: services.member_remove(membership=second, by=by_second, at=NOW),
    )
    assert roles_of(tenant) == []


def test_staff_role_is_granted_revoked_and_kept_as_history() -> None:
    make_staff(OPERATOR)
    grant = make_staff(AUDITOR)
    assert staff_roles(grant.user) == {AUDITOR}
    operator = access_of(make_staff(OPERATOR).user, None)
    assert services.staff_revoke(user=grant.user, role=AUDITOR, by=operator, reason="left", at=NOW) is None
    assert staff_roles(grant.user) == frozenset()
    row = StaffGrant.objects.get(pk=grant.pk)
    assert (row.revoked_by, row.revoked_reason, row.revoked_at) == (operator.user, "left", NOW)
    assert (last_entry().action, last_entry().before) == ("staff_revoke", {"role": AUDITOR})
    make_staff(AUDITOR, grant.user)
    assert StaffGrant.objects.filter(user=grant.user).count() == 2


def test_staff_role_is_held_once_at_a_time() -> None:
    grant = make_staff(AUDITOR)
    again = services.staff_grant(user=grant.user, role=AUDITOR, by=SYSTEM, reason=WHY, at=NOW)
    assert refusal(again) == "already_granted"


def test_last_operator_stays() -> None:
    operator = make_staff(OPERATOR).user
    alone = services.staff_revoke(user=operator, role=OPERATOR, by=access_of(operator, None), reason=WHY, at=NOW)
    assert refusal(alone) == "last_operator"


def test_only_an_operator_changes_staff_and_says_why() -> None:
    person = make_person()
    auditor = access_of(make_staff(AUDITOR).user, None)
    owner = access(make_member(make_tenant(), OWNER))
    for by in (auditor, owner):
        assert refusal(services.staff_grant(user=person, role=OPERATOR, by=by, reason=WHY, at=NOW)) == "not_allowed"
    assert refusal(services.staff_grant(user=person, role=OPERATOR, by=SYSTEM, reason="", at=NOW)) == "reason_missing"
    assert refusal(services.staff_grant(user=person, role=OWNER, by=SYSTEM, reason=WHY, at=NOW)) == "unknown_role"


def test_address_is_one_account_however_it_is_written() -> None:
    make_person("Ines@Lumen.example")
    again = services.person_create(email="ines@LUMEN.example", name="", password=None, by=SYSTEM, reason=WHY, at=NOW)
    assert refusal(again) == "address_taken"


def test_refused_change_leaves_no_trace() -> None:
    owner = make_member(make_tenant(), OWNER)
    before = AuditEntry.objects.count()
    services.member_remove(membership=owner, by=access(owner), at=NOW)
    assert AuditEntry.objects.count() == before
