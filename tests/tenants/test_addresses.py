"""Whose an e-mail address is: an account that names it without proof holds it back from nobody."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from allauth.account.models import EmailAddress, EmailConfirmationHMAC
from django.core import mail
from django.db import transaction
from django.test import Client
from django.utils import timezone

from tenants import services
from tenants.access import Refused
from tenants.models import Membership, User
from tenants.roles import OPERATOR, OWNER, VIEWER
from tenants.selectors import access_of
from tests.concurrency.test_limits import on_its_own_connection, wait_until_done_or_waiting
from tests.patience import PATIENCE
from tests.tenants.builders import (
    NOW,
    PASSWORD,
    SYSTEM,
    WHY,
    access,
    client_of,
    done,
    make_member,
    make_person,
    make_staff,
    make_tenant,
)

pytestmark = pytest.mark.django_db

EMAIL = "ines@lumen.example"


def add_without_proof(person: User, email: str = EMAIL) -> EmailAddress:
    return EmailAddress.objects.create(user=person, email=email)


def confirmation_of(address: EmailAddress) -> str:
    """Return where the link in the mail to this address leads."""
    return f"/accounts/confirm-email/{EmailConfirmationHMAC(address).key}/"


def invited(owner: Membership) -> Client:
    """Return the browser of the person with the address, who has opened an invitation's link."""
    issued = done(
        services.invitation_create(tenant=owner.tenant, email=EMAIL, role=VIEWER, by=access(owner), at=timezone.now())
    )
    browser = Client()
    browser.get(f"/invitation/{issued.token}/")
    return browser


def sign_up(browser: Client) -> None:
    browser.post("/accounts/signup/", {"name": "Ines", "password1": PASSWORD, "password2": PASSWORD})


def make_main(browser: Client, email: str) -> None:
    browser.post("/accounts/reauthenticate/", {"password": PASSWORD})
    browser.post("/accounts/email/", {"action_primary": "", "email": email})


@pytest.mark.django_db(transaction=True)
def test_of_two_accounts_that_confirm_one_address_at_once_the_second_is_told_that_it_is_taken() -> None:
    addresses = [add_without_proof(make_person()) for _ in range(2)]
    browsers = [client_of(address.user) for address in addresses]
    calls = [
        partial(browser.post, confirmation_of(address)) for browser, address in zip(browsers, addresses, strict=True)
    ]
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            first = calls[0]()
            second = threads.submit(on_its_own_connection, calls[1])
            wait_until_done_or_waiting(second)
        answers = first, second.result(PATIENCE)
    assert [each.status_code for each in answers] == [302, 302]
    assert EmailAddress.objects.get(email=EMAIL, verified=True) == addresses[0]
    pages = [browser.get("/accounts/email/").content.decode() for browser in browsers]
    assert ["belongs to another account" in page for page in pages] == [False, True]


def test_address_that_another_account_names_without_proof_signs_up_by_invitation() -> None:
    add_without_proof(make_person())
    owner = make_member(make_tenant("lumen"), OWNER)
    browser = invited(owner)
    sign_up(browser)
    person = User.objects.get(email=EMAIL)
    (link,) = {way for each in mail.outbox for way in re.findall(r"http://testserver(/\S+confirm-email\S+)", each.body)}
    browser.post(link)
    assert EmailAddress.objects.filter(user=person, email=EMAIL, verified=True, primary=True).exists()
    browser.post("/accounts/login/", {"login": EMAIL, "password": PASSWORD})
    assert browser.post("/invitation/accept/")["Location"] == "/t/lumen/"


def test_confirmed_address_becomes_the_main_one_though_an_account_that_nobody_confirmed_began_with_it() -> None:
    """Who invites has seen the link, too, and could sign up with it."""
    sign_up(invited(make_member(make_tenant("lumen"), OWNER)))
    beginner = User.objects.get(email=EMAIL)
    person = make_person()
    browser = client_of(person)
    browser.post(confirmation_of(add_without_proof(person)))
    make_main(browser, EMAIL)
    person.refresh_from_db()
    assert person.email == EMAIL
    assert [each.user for each in EmailAddress.objects.filter(email=EMAIL)] == [person]
    beginner.refresh_from_db()
    assert not beginner.is_active


def test_owner_of_a_new_tenant_is_invited_where_the_account_with_the_address_never_proved_it() -> None:
    User.objects.create_user(EMAIL)
    words = {"slug": "lumen", "name": "Lumen", "owner": EMAIL, "reason": WHY, "at": NOW}
    opened = done(services.tenant_open(**words, by=access_of(make_staff(OPERATOR).user, None)))
    assert opened.issued is not None


def test_new_password_is_not_mailed_to_an_address_that_was_never_proved() -> None:
    add_without_proof(make_person())
    Client().post("/accounts/password/reset/", {"email": EMAIL})
    assert not any("/password/reset/key/" in each.body for each in mail.outbox)


def test_account_is_not_made_with_an_address_that_somebody_confirmed_as_a_second_one() -> None:
    address = add_without_proof(make_person())
    address.verified = True
    address.save()
    outcome = services.person_create(email=EMAIL, name="", password=None, by=SYSTEM, reason=WHY, at=NOW)
    assert isinstance(outcome, Refused)
    assert outcome.code == "address_taken"
