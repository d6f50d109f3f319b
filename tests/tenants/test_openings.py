"""A tenant begins with an owner, who is there or is invited by mail."""

from __future__ import annotations

import re

import pytest
from django.core import mail
from django.test import Client

from tenants import services
from tenants.models import Invitation, Membership, Tenant, User
from tenants.roles import AUDITOR, OPERATOR, OWNER
from tenants.scoping import scope_disabled
from tenants.selectors import access_of
from tests.api.builders import problem, program_of
from tests.database import as_superuser
from tests.tenants.builders import NOW, WHY, access, client_of, done, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db

FORM = {"name": "New Lab", "slug": "newlab", "owner": "New@newlab.example", "reason": "joins in May"}


def owners() -> list[str]:
    with scope_disabled("the test looks at all tenants"):
        return [member.user.email for member in Membership.objects.filter(role=OWNER).select_related("user")]


def invited() -> list[tuple[str, str]]:
    with scope_disabled("the test looks at all tenants"):
        return list(Invitation.objects.values_list("email", "role"))


def test_a_lab_joins_by_the_pages() -> None:
    page = client_of(make_staff(OPERATOR).user).post("/tenants/", FORM).content.decode()
    assert "new@newlab.example is invited as owner of New Lab" in page
    [letter] = mail.outbox
    assert letter.to == ["new@newlab.example"]
    link = next(line for line in letter.body.splitlines() if line.startswith("http"))
    assert link in page
    browser = Client()
    browser.get(link.removeprefix("http://testserver").removeprefix("https://testserver"))
    secret = "staple correct horse 9"
    answers = {"email": "new@newlab.example", "name": "Nora New", "password1": secret, "password2": secret}
    browser.post("/accounts/signup/", answers)
    person = User.objects.get(email="new@newlab.example")
    person.emailaddress_set.update(verified=True)  # as the letter with the code does
    browser.force_login(person)
    assert browser.post("/invitation/accept/")["Location"] == "/t/newlab/"
    assert owners() == ["new@newlab.example"]


def test_an_operator_who_makes_a_tenant_of_somebody_with_an_account_stays_at_all_tenants() -> None:
    """With the list before them in which it now stands, not in the market of somebody else."""
    make_person("new@newlab.example")
    answer = client_of(make_staff(OPERATOR).user).post("/tenants/", FORM, follow=True)
    assert answer.redirect_chain == [("/tenants/", 302)]
    page = answer.content.decode()
    assert "New Lab exists. new@newlab.example is its owner." in page
    assert page.count("newlab") >= 2
    assert owners() == ["new@newlab.example"]


def test_a_tenant_whose_name_has_two_lines_is_refused_and_the_letter_of_an_older_one_has_one_line() -> None:
    """A program can send such a name; the head of a letter cannot have it."""
    browser = client_of(make_staff(OPERATOR).user)
    page = browser.post("/tenants/", FORM | {"name": "New\nLab"}).content.decode()
    assert "A name has no control or format characters" in page
    assert (owners(), mail.outbox) == ([], [])
    browser.post("/tenants/", FORM)
    Tenant.objects.filter(slug="newlab").update(name="New\nLab")
    browser.post(f"/tenants/invitations/{waiting_invitation().pk}/again/", {"reason": "lost"})
    assert mail.outbox[1].subject == "New Lab on Bourse"


def waiting_invitation() -> Invitation:
    with scope_disabled("the test looks at all tenants"):
        return Invitation.objects.get(accepted_at=None, revoked_at=None)


def test_an_invitation_that_waits_is_sent_again_and_withdrawn_on_the_page() -> None:
    browser = client_of(make_staff(OPERATOR).user)
    browser.post("/tenants/", FORM)
    first = waiting_invitation()
    assert "have not come yet" in browser.get("/tenants/").content.decode()
    again = browser.post(f"/tenants/invitations/{first.pk}/again/", {"reason": "lost"}).content.decode()
    assert len(mail.outbox) == 2
    link = next(line for line in mail.outbox[1].body.splitlines() if line.startswith("http"))
    assert link in again
    assert Client().get(re.sub("^https?://testserver", "", link), follow=True).status_code == 200
    stale = browser.post(f"/tenants/invitations/{first.pk}/again/", {"reason": "twice"}, follow=True)
    assert "was withdrawn" in stale.content.decode()
    second = waiting_invitation()
    assert second.pk != first.pk
    browser.post(f"/tenants/invitations/{second.pk}/withdraw/", {"reason": "they do not come"})
    assert "have not come yet" not in browser.get("/tenants/").content.decode()


def test_an_invitation_that_has_expired_is_sent_again() -> None:
    browser = client_of(make_staff(OPERATOR).user)
    browser.post("/tenants/", FORM)
    first = waiting_invitation()
    with as_superuser(), scope_disabled("the test lets time pass"):
        Invitation.objects.filter(pk=first.pk).update(expires_at=first.created_at)
    assert "Expired" in browser.get("/tenants/").content.decode()
    browser.post(f"/tenants/invitations/{first.pk}/again/", {"reason": "they were away"})
    assert waiting_invitation().expires_at > first.expires_at


def test_somebody_with_an_account_finds_the_invitation_without_its_link() -> None:
    operator = client_of(make_staff(OPERATOR).user)
    operator.post("/tenants/", FORM)
    stranger = client_of(make_person("other@newlab.example"))
    assert "invites you" not in stranger.get("/").content.decode()
    number = {"invitation": waiting_invitation().pk}
    assert stranger.post("/invitation/accept/", number)["Location"] == "/"
    assert owners() == []
    guest = client_of(make_person("new@newlab.example"))
    assert "invites you to New Lab" in guest.get("/").content.decode()
    assert guest.post("/invitation/accept/", number)["Location"] == "/t/newlab/"
    assert owners() == ["new@newlab.example"]


def test_link_is_shown_where_no_mail_can_be_sent(settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    page = client_of(make_staff(OPERATOR).user).post("/tenants/", FORM).content.decode()
    assert "No mail could be sent" in page
    assert "/invitation/" in page


def test_somebody_with_an_account_is_the_owner_at_once() -> None:
    person = make_person("new@newlab.example")
    reply = client_of(make_staff(OPERATOR).user).post("/tenants/", FORM)
    assert reply["Location"] == "/tenants/"
    assert (owners(), invited(), mail.outbox) == ([person.email], [], [])


@pytest.mark.parametrize("change", [{"slug": "operator"}, {"owner": "no address"}, {"reason": ""}, {"slug": "taken"}])
def test_where_one_half_is_refused_the_other_is_not_made(change: dict[str, str]) -> None:
    make_tenant("taken")
    before = Tenant.objects.count()
    operator = access_of(make_staff(OPERATOR).user, None)
    fields = {**FORM, **change}
    assert isinstance(services.tenant_open(by=operator, at=NOW, **fields), services.members.Refused)
    assert (Tenant.objects.count(), invited()) == (before, [])


def test_a_closed_account_owns_nothing() -> None:
    person = make_person("new@newlab.example")
    User.objects.filter(pk=person.pk).update(is_active=False)
    reply = client_of(make_staff(OPERATOR).user).post("/tenants/", FORM)
    assert "The account of new@newlab.example is closed." in reply.content.decode()
    assert not Tenant.objects.exists()


def test_only_operators_make_tenants_and_say_why() -> None:
    tenant = make_tenant("lumen")
    owner = make_member(tenant, OWNER)
    for by in (access(owner), access_of(make_staff(AUDITOR).user, None)):
        refused = services.tenant_open(slug="a", name="A", owner="a@a.example", by=by, reason=WHY, at=NOW)
        assert refused.code == "not_allowed"


def test_programs_make_tenants_too(django_capture_on_commit_callbacks) -> None:
    caller = program_of(OPERATOR, make_tenant("lumen"))
    with django_capture_on_commit_callbacks(execute=True):
        reply = caller.post("/api/v1/tenants/", FORM)
    assert reply.status_code == 201
    body = reply.json()
    assert (body["slug"], body["owner"]) == ("newlab", "new@newlab.example")
    [letter] = mail.outbox
    assert body["link"] in letter.body
    again = caller.post("/api/v1/tenants/", FORM)
    problem(again, 422, "invalid_tenant")
    done(services.tenant_open(slug="b", name="B", owner="new@newlab.example", by=caller_access(), reason=WHY, at=NOW))
    assert invited() == [("new@newlab.example", OWNER)] * 2


def caller_access():
    return access_of(make_staff(OPERATOR).user, None)
