"""Logging in: password, limits, second factor, single sign-on."""

from __future__ import annotations

import re
import time

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.conf import settings as django_settings
from django.contrib.auth.hashers import identify_hasher
from django.core import mail
from django.test import Client

from tenants.roles import AUDITOR, OWNER
from tests.tenants.builders import PASSWORD, client_of, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db

EMAIL = "ines@lumen.example"
REFUSED = "are not correct"


def log_in(client: Client, password: str = PASSWORD, email: str = EMAIL, **extra):
    return client.post("/accounts/login/", {"login": email, "password": password}, **extra)


def logged_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_password_is_kept_with_argon2() -> None:
    assert identify_hasher(make_person().password).algorithm == "argon2"


def test_person_logs_in_with_the_address_in_any_case() -> None:
    make_person(EMAIL)
    for email in (EMAIL, EMAIL.upper()):
        client = Client()
        assert log_in(client, email=email).status_code == 302
        assert logged_in(client)


@pytest.mark.parametrize("email", [EMAIL, "nobody@lumen.example"])
def test_wrong_password_and_unknown_address_read_the_same(email: str) -> None:
    make_person(EMAIL)
    response = log_in(Client(), password="wrong", email=email)
    assert response.status_code == 200
    assert REFUSED in response.content.decode()


def test_inactive_person_stays_out() -> None:
    person = make_person(EMAIL)
    person.is_active = False
    person.save()
    client = Client()
    log_in(client)
    assert not logged_in(client)


def test_account_is_closed_for_a_while_after_failures_from_many_addresses() -> None:
    make_person(EMAIL)
    for number in range(5):
        assert REFUSED in log_in(Client(), "wrong", REMOTE_ADDR=f"10.0.0.{number}").content.decode()
    client = Client()
    response = log_in(client, PASSWORD, REMOTE_ADDR="10.0.0.99")
    assert "Too many failed login attempts" in response.content.decode()
    assert not logged_in(client)


def test_address_is_closed_for_a_while_after_failures_at_many_accounts() -> None:
    make_person(EMAIL)
    for number in range(20):
        log_in(Client(), "wrong", email=f"nobody{number}@lumen.example", REMOTE_ADDR="10.0.0.1")
    client = Client()
    assert "Too many failed login attempts" in log_in(client, REMOTE_ADDR="10.0.0.1").content.decode()
    assert not logged_in(client)
    other = Client()
    log_in(other, REMOTE_ADDR="10.9.0.2")
    assert logged_in(other)


def test_forwarded_address_from_a_client_is_not_believed() -> None:
    make_person(EMAIL)
    for number in range(20):
        forged = {"HTTP_X_FORWARDED_FOR": f"10.1.{number}.1"}
        log_in(Client(), "wrong", email=f"nobody{number}@lumen.example", REMOTE_ADDR="10.0.0.1", **forged)
    response = log_in(Client(), REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR="10.1.99.1")
    assert "Too many failed login attempts" in response.content.decode()


def test_too_many_requests_are_told_in_our_look(settings) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"login": "3/h/ip"}  # the usual number a minute would depend on our own speed
    for _ in range(3):
        log_in(Client(), "wrong", email="", REMOTE_ADDR="10.0.0.1")
    response = log_in(Client(), "wrong", email="", REMOTE_ADDR="10.0.0.1")
    assert response.status_code == 429
    assert "Too many attempts" in response.content.decode()


@pytest.mark.parametrize("weak", ["short7", "1qaz2wsx3edc", "123456789012345", "ines@lumen.example"])
def test_weak_password_is_refused(weak: str) -> None:
    client = client_of(make_person(EMAIL))
    response = client.post(
        "/accounts/password/change/", {"oldpassword": PASSWORD, "password1": weak, "password2": weak}
    )
    assert response.status_code == 200
    assert 'class="error"' in response.content.decode()


def test_forgotten_password_is_set_by_mail_and_unknown_address_reads_the_same() -> None:
    make_person(EMAIL)
    answers = [Client().post("/accounts/password/reset/", {"email": email}) for email in (EMAIL, "nobody@x.example")]
    assert len({(answer.status_code, answer["Location"]) for answer in answers}) == 1
    (message,) = [message for message in mail.outbox if message.to == [EMAIL]]
    (path,) = re.findall(r"http://testserver(/accounts/password/reset/key/\S+)", message.body)
    client = Client()
    form = client.get(path, follow=True)
    new = "another good password 9"
    client.post(form.redirect_chain[-1][0], {"password1": new, "password2": new})
    assert log_in(Client(), new).status_code == 302
    assert REFUSED in log_in(Client(), PASSWORD).content.decode()


def test_log_out_needs_a_post() -> None:
    client = client_of(make_person())
    client.get("/accounts/logout/")
    assert logged_in(client)
    client.post("/accounts/logout/")
    assert not logged_in(client)


# ---- second factor


def code(secret: str) -> str:
    return format_hotp_value(hotp_value(secret, next(yield_hotp_counters_from_time())))


def turn_on_second_factor(client: Client) -> tuple[str, list[str]]:
    """The secret and the recovery codes, as the pages show them."""
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    page = client.get("/accounts/2fa/totp/activate/").content.decode()
    (secret,) = re.findall(r'id="authenticator_secret" type="text" value="(\w+)"', page)
    assert client.post("/accounts/2fa/totp/activate/", {"code": code(secret)}).status_code == 302
    shown = client.get("/accounts/2fa/recovery-codes/").content.decode()
    return secret, re.findall(r"^(?:<textarea[^>]*>)?(\w{8})(?:</textarea>)?$", shown, re.MULTILINE)


def test_second_factor_is_asked_for_and_a_recovery_code_works_once() -> None:
    make_person(EMAIL)
    client = Client()
    log_in(client)
    _, recovery_codes = turn_on_second_factor(client)
    assert len(recovery_codes) >= 9
    spare = recovery_codes[1]

    client = Client()
    assert log_in(client)["Location"] == "/accounts/2fa/authenticate/"
    assert not logged_in(client)
    assert client.post("/accounts/2fa/authenticate/", {"code": "000000"}).status_code == 200
    assert not logged_in(client)
    client.post("/accounts/2fa/authenticate/", {"code": spare})
    assert logged_in(client)

    again = Client()
    log_in(again)
    again.post("/accounts/2fa/authenticate/", {"code": spare})
    assert not logged_in(again)


def test_code_of_the_authenticator_logs_in() -> None:
    make_person(EMAIL)
    client = Client()
    log_in(client)
    secret, _ = turn_on_second_factor(client)
    from django.core.cache import cache

    cache.clear()  # the code that turned it on is remembered as used until its half minute is over
    client = Client()
    log_in(client)
    client.post("/accounts/2fa/authenticate/", {"code": code(secret)})
    assert logged_in(client)


def test_second_factor_is_turned_on_only_after_the_password_was_given_again() -> None:
    make_person(EMAIL)
    client = Client()
    log_in(client)
    assert_asks_again(client, "/accounts/2fa/totp/activate/")
    client.post("/accounts/reauthenticate/", {"password": "wrong"})
    assert_asks_again(client, "/accounts/2fa/totp/activate/")
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    assert client.get("/accounts/2fa/totp/activate/").status_code == 200
    session = client.session
    methods = session["account_authentication_methods"]
    session["account_authentication_methods"] = [{**method, "at": time.time() - 301} for method in methods]
    session.save()
    assert_asks_again(client, "/accounts/2fa/totp/activate/")


def test_another_address_is_added_only_after_the_password_was_given_again() -> None:
    person = make_person(EMAIL)
    client = client_of(person)
    client.post("/accounts/email/", {"action_add": "", "email": "mallory@example.org"})
    assert [address.email for address in EmailAddress.objects.filter(user=person)] == [EMAIL]
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    client.post("/accounts/email/", {"action_add": "", "email": "second@lumen.example"})
    assert EmailAddress.objects.filter(user=person, email="second@lumen.example", verified=False).exists()


def assert_asks_again(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/reauthenticate/")


# ---- fences around everything


def test_every_page_but_the_named_ones_asks_for_a_log_in() -> None:
    make_tenant("lumen")
    for path in ("/tenants/", "/staff/", "/history/", "/t/lumen/", "/accounts/2fa/", "/accounts/email/"):
        response = Client().get(path)
        assert (response.status_code, response["Location"].split("?")[0]) == (302, "/accounts/login/"), path


def test_cookies_cannot_be_read_or_sent_from_elsewhere() -> None:
    make_person(EMAIL)
    client = Client()
    log_in(client)
    cookie = client.cookies[django_settings.SESSION_COOKIE_NAME]
    assert (bool(cookie["httponly"]), cookie["samesite"]) == (True, "Lax")


@pytest.mark.parametrize(
    "path", ["", "tenants/membership/", "tenants/invitation/", "tenants/user/", "tenants/auditentry/"]
)
def test_admin_shows_the_staff_everything_and_changes_nothing(path: str) -> None:
    make_member(make_tenant(), OWNER)
    client = client_of(make_staff(AUDITOR).user)
    assert client.get(f"/admin/{path}").status_code == 200
    if path:
        assert client.get(f"/admin/{path}add/").status_code == 403


def test_admin_is_closed_to_everybody_else() -> None:
    assert client_of(make_member(make_tenant(), OWNER).user).get("/admin/", follow=True).status_code == 403


def test_admin_has_no_log_in_of_its_own_without_limits_and_second_factor() -> None:
    response = Client().post("/admin/login/", {"username": EMAIL, "password": PASSWORD})
    assert (response.status_code, response["Location"].split("?")[0]) == (302, "/accounts/login/")
