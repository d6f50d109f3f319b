"""The life of an invitation: made, shown once, accepted once, by the invited address, in time."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from django.core import mail
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from tenants import services
from tenants.adapters import AccountAdapter
from tenants.common.zones import COOKIE
from tenants.models import Invitation, Membership, User
from tenants.roles import OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tenants.selectors import access_of, user_tenants
from tenants.services import IssuedInvitation, token_hash
from tests.patience import PATIENCE
from tests.tenants.builders import (
    NOW,
    PASSWORD,
    SYSTEM,
    access,
    client_of,
    done,
    make_member,
    make_person,
    make_staff,
    make_tenant,
)
from tests.tenants.test_members import in_threads, refusal

pytestmark = pytest.mark.django_db

GUEST = "guest@example.org"
LONGER_THAN_ANY = f"{'u' * 60}@{'.'.join(['d' * 60] * 3)}.example.org"  # one letter more than an account can have


@pytest.fixture
def owner(db) -> Membership:
    return make_member(make_tenant("lumen", "Lumen Lab"), OWNER)


def invite(owner: Membership, email: str = GUEST, role: str = SUBMITTER, at=NOW) -> IssuedInvitation:
    return done(services.invitation_create(tenant=owner.tenant, email=email, role=role, by=access(owner), at=at))


def accept(issued: IssuedInvitation, user: User, at=NOW):
    return services.invitation_accept(token_hash=token_hash(issued.token), user=user, at=at)


def test_token_is_stored_as_its_hash_only(owner) -> None:
    issued = invite(owner)
    with scope(owner.tenant):
        (row,) = Invitation.objects.values()
    assert row["token_hash"] == token_hash(issued.token)
    assert issued.token not in str(row)
    assert len(issued.token) >= 43


def test_page_says_that_an_address_is_longer_than_any(owner) -> None:
    page = client_of(owner.user).post("/t/lumen/invitations/", {"email": LONGER_THAN_ANY, "role": VIEWER}, follow=True)
    assert page.status_code == 200
    assert "This is not an e-mail address." in page.content.decode()


def test_invited_person_joins_with_the_role(owner) -> None:
    guest = make_person(GUEST)
    membership = done(accept(invite(owner), guest))
    assert (membership.user, membership.tenant, membership.role) == (guest, owner.tenant, SUBMITTER)
    assert [own.slug for own in user_tenants(guest)] == ["lumen"]


def test_invitation_works_once(owner) -> None:
    guest, issued = make_person(GUEST), invite(owner)
    done(accept(issued, guest))
    with scope(owner.tenant):
        Membership.objects.filter(user=guest).delete()
    assert refusal(accept(issued, guest)) == "invitation_used"


def test_removed_member_does_not_come_back_by_an_invitation_from_before(owner) -> None:
    """It was not needed: the operator had made the person a member meanwhile."""
    guest, issued = make_person(GUEST), invite(owner, role=OWNER)
    other = invite(owner, email="other@example.org")
    member = make_member(owner.tenant, VIEWER, guest)
    done(services.member_remove(membership=member, by=access(owner), at=NOW))
    assert refusal(accept(issued, guest)) == "invitation_revoked"
    done(accept(other, make_person("other@example.org")))
    done(accept(invite(owner), guest))  # whoever is invited anew may come


def test_invitation_works_for_the_invited_address_only(owner) -> None:
    issued = invite(owner)
    assert refusal(accept(issued, make_person("other@example.org"))) == "other_address"


def test_unproved_address_is_not_enough(owner) -> None:
    stranger = User.objects.create_user(GUEST, PASSWORD)
    assert refusal(accept(invite(owner), stranger)) == "other_address"


def test_address_is_the_same_in_capitals(owner) -> None:
    done(accept(invite(owner, email=" Guest@Example.ORG "), make_person(GUEST)))


@pytest.mark.parametrize(
    ("late", "code"), [(timedelta(days=7), "invitation_expired"), (timedelta(days=6, hours=23), None)]
)
def test_invitation_ends_after_a_week(owner, late: timedelta, code: str | None) -> None:
    outcome = accept(invite(owner), make_person(GUEST), at=NOW + late)
    assert isinstance(outcome, Membership) if code is None else refusal(outcome) == code


def test_withdrawn_invitation_does_not_work_and_cannot_be_withdrawn_twice(owner) -> None:
    issued = invite(owner)
    assert services.invitation_revoke(invitation=issued.invitation, by=access(owner), at=NOW) is None
    assert refusal(accept(issued, make_person(GUEST))) == "invitation_revoked"
    again = services.invitation_revoke(invitation=issued.invitation, by=access(owner), at=NOW)
    assert refusal(again) == "invitation_revoked"


def test_second_invitation_replaces_the_first(owner) -> None:
    first, second = invite(owner), invite(owner, role=VIEWER)
    guest = make_person(GUEST)
    assert refusal(accept(first, guest)) == "invitation_revoked"
    assert done(accept(second, guest)).role == VIEWER


def test_database_keeps_one_open_invitation_per_address(owner) -> None:
    issued = invite(owner)
    with scope(owner.tenant), pytest.raises(IntegrityError), transaction.atomic():
        Invitation.objects.create(
            email=GUEST,
            role=VIEWER,
            token_hash="another",
            created_at=NOW,
            expires_at=issued.invitation.expires_at,
            invited_by=owner.user,
        )


def test_same_address_may_be_invited_by_two_tenants(owner) -> None:
    other = make_member(make_tenant("delta"), OWNER)
    first, second = invite(owner), invite(other)
    guest = make_person(GUEST)
    done(accept(first, guest))
    done(accept(second, guest))
    assert len(user_tenants(guest)) == 2


@pytest.mark.parametrize(
    ("email", "role", "code"),
    [
        ("not an address", VIEWER, "invalid_email"),
        (LONGER_THAN_ANY, VIEWER, "invalid_email"),
        (GUEST, "emperor", "unknown_role"),
        (GUEST, OPERATOR, "unknown_role"),
    ],
)
def test_unreadable_invitation_is_refused(owner, email: str, role: str, code: str) -> None:
    outcome = services.invitation_create(tenant=owner.tenant, email=email, role=role, by=access(owner), at=NOW)
    assert refusal(outcome) == code


def test_member_is_not_invited_again(owner) -> None:
    outcome = services.invitation_create(
        tenant=owner.tenant, email=owner.user.email, role=VIEWER, by=access(owner), at=NOW
    )
    assert refusal(outcome) == "already_member"


def test_operator_invites_with_a_reason(owner) -> None:
    operator = access_of(make_staff(OPERATOR).user, owner.tenant)
    invitation = {"tenant": owner.tenant, "email": GUEST, "role": VIEWER, "by": operator, "at": NOW}
    assert refusal(services.invitation_create(**invitation)) == "reason_missing"
    done(services.invitation_create(**invitation, reason="the owner is ill"))
    nobody = services.invitation_create(**{**invitation, "by": SYSTEM}, reason="no person")
    assert refusal(nobody) == "no_inviter"


@pytest.mark.django_db(transaction=True)
def test_invitation_accepted_twice_at_once_makes_one_member() -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    guest, issued = make_person(GUEST), invite(owner)
    outcomes = in_threads(lambda: accept(issued, guest), lambda: accept(issued, guest))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Membership", "Refused"]


# ---- the same story in the browser


def link_from(response) -> str:
    (link,) = re.findall(r'id="link" readonly value="([^"]+)"', response.content.decode())
    return link


def test_link_is_shown_once_and_leaves_the_address_bar(owner) -> None:
    client = client_of(owner.user)
    response = client.post("/t/lumen/invitations/", {"email": GUEST, "role": SUBMITTER})
    link = link_from(response)
    assert "no-store" in response["Cache-Control"]
    assert link not in client.get("/t/lumen/members/").content.decode()
    opened = Client().get(link)
    assert (opened.status_code, opened["Location"]) == (302, "/invitation/")


def test_stranger_signs_up_by_invitation_proves_the_address_and_joins(owner) -> None:
    link = link_from(client_of(owner.user).post("/t/lumen/invitations/", {"email": GUEST, "role": SUBMITTER}))
    browser = Client()
    assert "Join Lumen Lab" in browser.get(link, follow=True).content.decode()
    form = {"name": "Gus Guest", "email": "mallory@example.org", "password1": PASSWORD, "password2": PASSWORD}
    assert browser.post("/accounts/signup/", form)["Location"] == "/accounts/confirm-email/"
    guest = User.objects.get(email=GUEST)  # the invited address, whatever the browser sent
    assert guest.name == "Gus Guest"
    assert (
        browser.post("/accounts/login/", {"login": GUEST, "password": PASSWORD})["Location"]
        == "/accounts/confirm-email/"
    )

    (confirm,) = {
        path for message in mail.outbox for path in re.findall(r"http://testserver(/\S+confirm-email\S+)", message.body)
    }
    browser.post(confirm)
    browser.post("/accounts/login/", {"login": GUEST, "password": PASSWORD})
    joined = browser.post("/invitation/accept/")
    assert joined["Location"] == "/t/lumen/"
    assert "Welcome to Lumen Lab" in browser.get("/t/lumen/", follow=True).content.decode()


@pytest.mark.parametrize("name", [" ", "\u3164", "\u200b \u200b", "Gus \u202etseuG"], ids=ascii)
def test_stranger_does_not_sign_up_with_a_name_that_cannot_be_seen_or_turns_others(owner, name: str) -> None:
    link = link_from(client_of(owner.user).post("/t/lumen/invitations/", {"email": GUEST, "role": SUBMITTER}))
    browser = Client()
    browser.get(link)
    form = {"name": name, "email": GUEST, "password1": PASSWORD, "password2": PASSWORD}
    assert 'class="error"' in browser.post("/accounts/signup/", form).content.decode()
    assert not User.objects.filter(email=GUEST).exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_who_sign_up_at_once_with_one_invitation_one_has_an_account(monkeypatch) -> None:
    """The second is answered as a moment later: as if the account were theirs."""
    issued = invite(make_member(make_tenant("lumen"), OWNER), at=timezone.now())
    barrier, save = threading.Barrier(2, timeout=PATIENCE), DefaultAccountAdapter.save_user

    def save_together(adapter: AccountAdapter, *arguments: Any, **named: Any) -> User:
        barrier.wait()  # both have found the address free
        return save(adapter, *arguments, **named)

    monkeypatch.setattr(DefaultAccountAdapter, "save_user", save_together)
    browsers = Client(), Client()
    for browser in browsers:
        browser.get(f"/invitation/{issued.token}/")
    form = {"name": "Gus Guest", "password1": PASSWORD, "password2": PASSWORD}
    answers = in_threads(*[partial(browser.post, "/accounts/signup/", form) for browser in browsers])
    assert [(each.status_code, each["Location"]) for each in answers] == [(302, "/accounts/confirm-email/")] * 2
    (guest,) = User.objects.filter(email=GUEST)
    assert EmailAddress.objects.get(email=GUEST).user == guest


def test_sign_up_without_an_invitation_is_closed() -> None:
    form = {"name": "M", "email": "mallory@example.org", "password1": PASSWORD, "password2": PASSWORD}
    response = Client().post("/accounts/signup/", form)
    assert "begin with an invitation" in response.content.decode()
    assert not User.objects.exists()


@pytest.mark.parametrize(("days", "status"), [(0, 200), (8, 410)])
def test_page_of_an_invitation_says_whether_it_works(owner, days: int, status: int) -> None:
    issued = invite(owner, at=timezone.now() - timedelta(days=days))
    response = Client().get(f"/invitation/{issued.token}/", follow=True)
    assert response.status_code == status


def test_page_of_an_invitation_names_the_zone_of_its_end(owner) -> None:
    issued = invite(owner, at=timezone.now())
    browser = Client()
    browser.cookies[COOKIE] = "Pacific/Kiritimati"
    page = browser.get(f"/invitation/{issued.token}/", follow=True).content.decode()
    words = " ".join(page.split())
    ends = timezone.localtime(issued.invitation.expires_at, ZoneInfo("Pacific/Kiritimati"))
    assert f"works until {ends.day} {ends:%B, %H:%M} (Pacific/Kiritimati)." in words


def test_wrong_person_is_told_and_does_not_join(owner) -> None:
    issued = invite(owner, at=timezone.now())
    other = make_person()
    client = client_of(other)
    page = client.get(f"/invitation/{issued.token}/", follow=True).content.decode()
    assert f"You are logged in as {other.email}" in page
    assert client.post("/invitation/accept/")["Location"] == "/invitation/"
    assert user_tenants(other) == []
