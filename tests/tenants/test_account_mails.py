"""Mails about a person's account: what was asked for, what to do, and what happens if nothing is done."""

from __future__ import annotations

import re

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.test import Client

from tenants.roles import OWNER, SUBMITTER
from tests.tenants.builders import PASSWORD, client_of, make_member, make_person, make_tenant

pytestmark = pytest.mark.django_db

EMAIL = "ines@lumen.example"
LINK = re.compile(r"^http://testserver/accounts/\S+$", re.MULTILINE)


def letter() -> EmailMessage:
    """Return the latest mail, none of which says what the library of the log-in pages says by itself."""
    message = mail.outbox[-1]
    words = LINK.sub("", f"{message.subject}\n{message.body}")
    assert not re.search(r"hello from|thank you|\bemail\b|click|user account", words, re.IGNORECASE)
    return message


def signed_up(email: str) -> None:
    """Somebody comes with an invitation to this address and fills in the form of a new account."""
    owner = client_of(make_member(make_tenant("lumen"), OWNER).user)
    page = owner.post("/t/lumen/invitations/", {"email": email, "role": SUBMITTER}).content.decode()
    browser = Client()
    browser.get(re.findall(r"http://testserver(/invitation/[^\"]+)", page)[0])
    form = {"name": "Ines", "email": email, "password1": PASSWORD, "password2": PASSWORD}
    assert browser.post("/accounts/signup/", form).status_code == 302


def test_mail_for_a_new_password() -> None:
    make_person(EMAIL)
    Client().post("/accounts/password/reset/", {"email": EMAIL})
    message = letter()
    assert message.subject == "[Bourse] A new password"
    assert message.body.startswith(
        "Somebody asked for a new password for your account on Bourse. Set it here:\n\nhttp://"
    )
    assert len(LINK.findall(message.body)) == 1
    assert message.body.rstrip().endswith("If it was not you, do nothing: the password stays as it is.")


def test_mail_to_an_address_without_an_account_leads_to_no_form_that_is_closed() -> None:
    Client().post("/accounts/password/reset/", {"email": EMAIL})
    message = letter()
    assert message.subject == "[Bourse] No account with this address"
    assert "Accounts begin with an invitation" in message.body
    assert LINK.findall(message.body) == []


def test_mail_that_confirms_an_address() -> None:
    signed_up(EMAIL)
    message = letter()
    assert (message.to, message.subject) == ([EMAIL], "[Bourse] Is this address yours?")
    assert message.body.startswith(
        "This address was given for the account of Ines on Bourse. If it is yours, confirm it:\n"
    )
    assert len(LINK.findall(message.body)) == 1


def test_mail_to_somebody_who_has_an_account_and_makes_one() -> None:
    make_person(EMAIL)
    signed_up(EMAIL)
    message = letter()
    assert (message.to, message.subject) == ([EMAIL], "[Bourse] You have an account")
    assert message.body.startswith("Somebody, most likely you, tried to make an account on Bourse with this address")
    assert len(LINK.findall(message.body)) == 1
