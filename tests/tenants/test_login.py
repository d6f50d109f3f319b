"""Logging in: password, limits, second factor, single sign-on."""

from __future__ import annotations

import re
import time
from itertools import count, islice
from types import SimpleNamespace

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.conf import settings as django_settings
from django.contrib.auth.hashers import identify_hasher
from django.core import mail, signing
from django.test import Client

from tenants.common.tries import CannotCount
from tenants.devices import COOKIE
from tenants.roles import AUDITOR, OWNER
from tests.tenants.builders import PASSWORD, client_of, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db

EMAIL = "ines@lumen.example"
REFUSED = "are not correct"
NUMBERS = count()


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


# ---- who guesses passwords


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time by which tries are counted; a test moves it."""
    moment = [1_800_000_000.0]
    monkeypatch.setattr("tenants.log_in_limits.now", lambda: moment[0])
    return moment


def guess(times: int, email: str = EMAIL) -> list[str]:
    """Wrong passwords of strangers, each from an address that nobody had before. What each was told."""
    addresses = [f"10.{number >> 8}.{number & 255}.1" for number in islice(NUMBERS, times)]
    return [log_in(Client(), "wrong", email, REMOTE_ADDR=address).content.decode() for address in addresses]


def told_to_wait(response) -> str:
    """How long, as the page says it; empty where it does not."""
    match = re.search(r"Too many tries\. Wait (\d+ \w+), then", response.content.decode())
    return match[1] if match else ""


def test_account_is_closed_for_a_while_after_failures_from_many_addresses(clock) -> None:
    make_person(EMAIL)
    pages = guess(8)
    assert [REFUSED in page for page in pages] == [True] * 5 + [False] * 3
    client = Client()
    assert told_to_wait(log_in(client, REMOTE_ADDR="10.9.9.9")) == "30 seconds"
    assert not logged_in(client)
    clock[0] += 30
    log_in(client, REMOTE_ADDR="10.9.9.9")
    assert logged_in(client)


@pytest.mark.wide
def test_guessing_from_many_addresses_gets_a_few_tries_an_hour(clock, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenants.adapters import DefaultAccountAdapter

    looked_at = []
    monkeypatch.setattr(DefaultAccountAdapter, "authenticate", lambda *_, **__: looked_at.append(clock[0]))
    make_person(EMAIL)
    for _ in range(2 * 60):  # a guess each half minute, from ever new addresses, for an hour
        guess(1)
        clock[0] += 30
    assert len(looked_at) == 5 + 5 + 2  # free; after 30, 60, 120, 240 and 480 seconds; then each quarter of an hour


def test_address_without_an_account_is_closed_like_one_with_it(clock) -> None:
    make_person(EMAIL)
    assert [REFUSED in page for page in guess(8, "nobody@x.example")] == [REFUSED in page for page in guess(8)]


def test_address_is_closed_for_a_while_after_failures_at_many_accounts(clock) -> None:
    make_person(EMAIL)
    for number in range(20):
        log_in(Client(), "wrong", email=f"nobody{number}@lumen.example", REMOTE_ADDR="10.0.0.1")
    client = Client()
    assert told_to_wait(log_in(client, REMOTE_ADDR="10.0.0.1")) == "30 seconds"
    assert not logged_in(client)
    other = Client()
    log_in(other, REMOTE_ADDR="10.9.0.2")
    assert logged_in(other)


def test_network_of_version_six_is_one_address(clock) -> None:
    for number in range(20):
        address = f"2a01:db8:0:1::{number + 1:x}"
        log_in(Client(), "wrong", email=f"nobody{number}@lumen.example", REMOTE_ADDR=address)
    assert told_to_wait(log_in(Client(), REMOTE_ADDR="2a01:db8:0:1:ffff::1"))
    assert not told_to_wait(log_in(Client(), REMOTE_ADDR="2a01:db8:0:2::1"))


def test_address_of_version_four_is_the_same_in_the_letters_of_version_six(clock) -> None:
    for number in range(20):
        log_in(Client(), "wrong", email=f"nobody{number}@lumen.example", REMOTE_ADDR="::ffff:10.200.0.1")
    assert told_to_wait(log_in(Client(), REMOTE_ADDR="10.200.0.1"))
    assert not told_to_wait(log_in(Client(), REMOTE_ADDR="::ffff:10.200.0.2"))


def test_known_device_is_not_locked_out_by_strangers(clock) -> None:
    make_person(EMAIL)
    device = Client()
    log_in(device, REMOTE_ADDR="10.200.0.1")
    device.post("/accounts/logout/")
    guess(40)
    for number in range(25):  # somebody at the very address guesses too
        log_in(Client(), "wrong", email=f"nobody{number}@x.example", REMOTE_ADDR="10.200.0.7")
    log_in(device, REMOTE_ADDR="10.200.0.7")
    assert logged_in(device)


def test_address_that_the_person_logs_in_from_is_not_locked_out_by_strangers_elsewhere(clock) -> None:
    make_person(EMAIL)
    elsewhere = Client()
    log_in(elsewhere, REMOTE_ADDR="10.200.0.1")
    guess(40)
    new_device = Client()
    log_in(new_device, REMOTE_ADDR="10.200.0.1")
    assert logged_in(elsewhere)
    assert logged_in(new_device)


def test_who_is_logged_in_gives_the_password_again_whatever_strangers_do(clock) -> None:
    make_person(EMAIL)
    client = Client()
    log_in(client, REMOTE_ADDR="10.200.0.1")
    del client.cookies[COOKIE]
    guess(40)
    response = client.post("/accounts/reauthenticate/", {"password": PASSWORD}, REMOTE_ADDR="10.201.0.1")
    assert response.status_code == 302


def test_known_device_that_guesses_is_slowed_alone(clock) -> None:
    make_person(EMAIL)
    devices = [Client(), Client()]
    for device in devices:
        log_in(device, REMOTE_ADDR="10.200.0.1")
        device.post("/accounts/logout/")
    responses = [log_in(devices[0], "wrong", REMOTE_ADDR="10.200.0.1") for _ in range(7)]
    assert [told_to_wait(response) for response in responses] == [""] * 5 + ["10 seconds"] * 2
    log_in(devices[1], REMOTE_ADDR="10.200.0.1")
    assert logged_in(devices[1])
    clock[0] += 10
    log_in(devices[0], REMOTE_ADDR="10.200.0.1")
    assert logged_in(devices[0])


def test_device_is_known_to_its_own_person_only(clock) -> None:
    make_person(EMAIL)
    make_person("mallory@lumen.example")
    device = Client()
    log_in(device, email="mallory@lumen.example", REMOTE_ADDR="10.200.0.1")
    device.post("/accounts/logout/")
    guess(5)
    assert told_to_wait(log_in(device, REMOTE_ADDR="10.200.0.1"))


def test_device_of_two_people_is_known_to_both(clock) -> None:
    device, people = Client(), [EMAIL, "gus@lumen.example"]
    for email in people:
        make_person(email)
        log_in(device, email=email, REMOTE_ADDR="10.200.0.1")
        device.post("/accounts/logout/")
    for email in people:
        guess(5, email)
        log_in(device, email=email, REMOTE_ADDR="10.201.0.1")
        assert logged_in(device)
        device.post("/accounts/logout/")


@pytest.mark.parametrize(
    "forged",
    ["", "x", "e30:x:y", signing.dumps({"device": "d", "people": {}}, salt="another")],
    ids=["nothing", "no signature", "a wrong signature", "signed for something else"],  # that one names its second
)
def test_forged_device_is_a_stranger(clock, forged: str) -> None:
    make_person(EMAIL)
    guess(5)
    client = Client()
    client.cookies[COOKIE] = forged
    assert told_to_wait(log_in(client, REMOTE_ADDR="10.200.0.1"))


def test_device_is_unknown_once_the_password_is_another(clock) -> None:
    person = make_person(EMAIL)
    device = Client()
    log_in(device, REMOTE_ADDR="10.200.0.1")
    device.post("/accounts/logout/")
    person.set_password("another good password 9")
    person.save()
    guess(5)
    assert told_to_wait(log_in(device, "another good password 9", REMOTE_ADDR="10.201.0.1"))


def test_device_that_changes_the_password_stays_known(clock) -> None:
    make_person(EMAIL)
    device, new = Client(), "another good password 9"
    log_in(device, REMOTE_ADDR="10.200.0.1")
    device.post("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    device.post("/accounts/logout/")
    guess(5)
    log_in(device, new, REMOTE_ADDR="10.201.0.1")
    assert logged_in(device)


def test_who_sets_a_new_password_by_mail_logs_in_at_once_whatever_strangers_do(clock) -> None:
    make_person(EMAIL)
    guess(40)
    client, new = Client(), "another good password 9"
    client.post("/accounts/password/reset/", {"email": EMAIL})
    (path,) = re.findall(r"http://testserver(/accounts/password/reset/key/\S+)", mail.outbox[-1].body)
    form = client.get(path, follow=True)
    client.post(form.redirect_chain[-1][0], {"password1": new, "password2": new})
    guess(40)
    log_in(client, new, REMOTE_ADDR="10.201.0.1")
    assert logged_in(client)


def test_device_cookie_is_for_the_pages_of_accounts_alone_and_no_script_reads_it() -> None:
    make_person(EMAIL)
    client = Client()
    log_in(client)
    cookie = client.cookies[COOKIE]
    assert (bool(cookie["httponly"]), cookie["samesite"], cookie["path"]) == (True, "Lax", "/accounts/")
    assert cookie["max-age"] == 365 * 86_400


def test_right_passwords_are_counted_too(clock) -> None:
    make_person(EMAIL)
    for _ in range(30):
        assert log_in(Client(), REMOTE_ADDR="10.200.0.1").status_code == 302
    assert told_to_wait(log_in(Client(), REMOTE_ADDR="10.200.0.1")) == "60 seconds"


def test_nobody_guesses_while_nothing_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_, **__):
        raise CannotCount

    make_person(EMAIL)
    monkeypatch.setattr("tenants.log_in_limits.tries_count", fails)
    client = Client()
    assert "Nobody can log in for a moment" in log_in(client).content.decode()
    assert not logged_in(client)


def test_mails_for_a_new_password_are_few_for_a_stranger_and_not_fewer_for_the_person(clock) -> None:
    make_person(EMAIL)
    device = Client()
    log_in(device, REMOTE_ADDR="10.200.0.1")
    device.post("/accounts/logout/")
    responses = [
        Client().post("/accounts/password/reset/", {"email": EMAIL}, REMOTE_ADDR=f"10.0.0.{number}")
        for number in range(6)
    ]
    assert [response.status_code for response in responses] == [302] * 3 + [200] * 3
    assert told_to_wait(responses[-1]) == "60 seconds"
    assert len(mail.outbox) == 3
    again = device.post("/accounts/password/reset/", {"email": EMAIL}, REMOTE_ADDR="10.0.0.1")
    assert (again.status_code, len(mail.outbox)) == (302, 4)
    clock[0] += 60
    assert Client().post("/accounts/password/reset/", {"email": EMAIL}).status_code == 302


def test_mails_from_one_address_are_few_whatever_they_ask_for(clock) -> None:
    responses = [
        Client().post("/accounts/password/reset/", {"email": f"nobody{number}@x.example"}, REMOTE_ADDR="10.0.0.1")
        for number in range(12)
    ]
    assert [response.status_code for response in responses] == [302] * 10 + [200] * 2


def test_forwarded_address_from_a_client_is_not_believed() -> None:
    make_person(EMAIL)
    for number in range(20):
        forged = {"HTTP_X_FORWARDED_FOR": f"10.1.{number}.1"}
        log_in(Client(), "wrong", email=f"nobody{number}@lumen.example", REMOTE_ADDR="10.0.0.1", **forged)
    assert told_to_wait(log_in(Client(), REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR="10.1.99.1"))


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


def test_forms_of_passwords_name_their_fields_as_all_forms_do() -> None:
    person = make_person(EMAIL)
    Client().post("/accounts/password/reset/", {"email": EMAIL})
    (path,) = re.findall(r"http://testserver(/accounts/password/reset/key/\S+)", mail.outbox[-1].body)

    def labels(html: str) -> list[str]:
        return [" ".join(label.split()) for label in re.findall(r"<label[^>]*>\s*([^<]*?)\s*</label>", html)]

    again = ["New password", "New password (again)"]
    assert labels(Client().get(path, follow=True).content.decode()) == again
    assert labels(client_of(person).get("/accounts/password/change/").content.decode()) == ["Current password", *again]


def test_log_out_needs_a_post() -> None:
    client = client_of(make_person())
    client.get("/accounts/logout/")
    assert logged_in(client)
    client.post("/accounts/logout/")
    assert not logged_in(client)


# ---- second factor


def code(secret: str) -> str:
    return format_hotp_value(hotp_value(secret, next(yield_hotp_counters_from_time())))


@pytest.fixture(autouse=True)
def half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """An authenticator's code is good for its half minute, which does not end between its making and its use."""
    monkeypatch.setattr("allauth.mfa.totp.internal.auth.time", SimpleNamespace(time=lambda: 1_800_000_000.0))


def turn_on_second_factor(client: Client) -> tuple[str, list[str]]:
    """The secret and the recovery codes, as the pages show them."""
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    page = client.get("/accounts/2fa/totp/activate/").content.decode()
    (secret,) = re.findall(r'id="authenticator_secret" type="text" value="(\w+)"', page)
    assert client.post("/accounts/2fa/totp/activate/", {"code": code(secret)}).status_code == 302
    codes_page = client.get("/accounts/2fa/recovery-codes/").content.decode()
    return secret, re.findall(r"^(?:<textarea[^>]*>)?(\w{8})(?:</textarea>)?$", codes_page, re.MULTILINE)


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


def test_codes_are_not_guessed_and_a_known_device_is_not_locked_out_by_who_tries(clock) -> None:
    make_person(EMAIL)
    device = Client()
    log_in(device, REMOTE_ADDR="10.200.0.1")
    _, recovery_codes = turn_on_second_factor(device)
    device.post("/accounts/logout/")
    waits = []
    for number in range(7):  # somebody who knows the password, at ever new addresses
        thief = Client(REMOTE_ADDR=f"10.0.0.{number}")
        log_in(thief)
        waits.append(told_to_wait(thief.post("/accounts/2fa/authenticate/", {"code": "000000"})))
    assert waits == [""] * 5 + ["30 seconds"] * 2
    log_in(device, REMOTE_ADDR="10.201.0.1")
    device.post("/accounts/2fa/authenticate/", {"code": recovery_codes[0]}, REMOTE_ADDR="10.201.0.1")
    assert logged_in(device)


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


def test_an_address_longer_than_any_is_not_added() -> None:
    person = make_person(EMAIL)
    client = client_of(person)
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    long = f"{'u' * 60}@{'.'.join(['d' * 60] * 3)}.example.org"
    page = client.post("/accounts/email/", {"action_add": "", "email": long})
    assert "This is not an e-mail address." in page.content.decode()
    assert [address.email for address in EmailAddress.objects.filter(user=person)] == [EMAIL]


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
