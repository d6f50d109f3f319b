"""A request to join: asked of a tenant that takes requests, answered by its owners, withdrawn by whoever asked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from tenants import joining, services
from tenants.models import AuditEntry, JoinRequest, Membership, Tenant, User
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tenants.selectors import access_of, user_tenants
from tests.tenants.builders import (
    NOW,
    access,
    client_of,
    done,
    make_mapping,
    make_member,
    make_person,
    make_staff,
    make_tenant,
)
from tests.tenants.test_members import in_threads, refusal

pytestmark = pytest.mark.django_db

WEEK = timedelta(days=7)


@pytest.fixture
def owner(db) -> Membership:
    return open_tenant("lumen", "Lumen Lab")


def open_tenant(slug: str, name: str = "") -> Membership:
    """An owner of a tenant that takes requests."""
    member = make_member(make_tenant(slug, name), OWNER)
    done(services.may_be_asked_set(tenant=member.tenant, on=True, by=access(member), at=NOW))
    return member


def ask(person: User, tenant: str = "lumen", why: str = "I work with Ada.", at=NOW):
    return services.join_request_create(tenant=tenant, why=why, person=person, at=at)


def accept(owner: Membership, request: JoinRequest, role: str = SUBMITTER, at=NOW):
    return services.join_request_accept(request=request, role=role, by=access(owner), at=at)


def decline(owner: Membership, request: JoinRequest, reason: str = "Ask Castor.", at=NOW):
    return services.join_request_decline(request=request, by=access(owner), at=at, reason=reason)


def withdraw(request: JoinRequest, person: User, at=NOW):
    return services.join_request_withdraw(number=request.pk, person=person, at=at)


def state(request: JoinRequest) -> str:
    with scope(request.tenant_id):
        return JoinRequest.objects.get(pk=request.pk).state


def test_accepted_person_is_a_member_made_by_hand_with_the_role(owner) -> None:
    person = make_person()
    request = done(ask(person, why="  I work\nwith   Ada. "))
    assert request.why == "I work with Ada."
    membership = done(accept(owner, request))
    assert (membership.user, membership.tenant, membership.role, membership.claim) == (
        person,
        owner.tenant,
        SUBMITTER,
        "",
    )
    assert [(own.slug, own.role) for own in user_tenants(person)] == [("lumen", SUBMITTER)]
    (join_request,) = joining.own_requests(person)
    assert (join_request.state, join_request.role, join_request.ended_by) == ("accepted", SUBMITTER, owner.user)


def test_declined_person_reads_why_and_may_ask_again_in_a_week(owner) -> None:
    person = make_person()
    request = done(ask(person))
    assert refusal(decline(owner, request, reason=" ")) == "reason_missing"
    assert refusal(decline(owner, request, reason="x" * 301)) == "reason_too_long"
    done(decline(owner, request))
    (join_request,) = joining.own_requests(person)
    assert (join_request.state, join_request.answer) == ("declined", "Ask Castor.")
    assert user_tenants(person) == []
    assert refusal(ask(person, at=NOW + WEEK - timedelta(seconds=1))) == "asked_lately"
    done(ask(person, at=NOW + WEEK))


def test_only_whoever_asked_withdraws_and_may_ask_again_at_once(owner) -> None:
    person = make_person()
    request = done(ask(person))
    assert refusal(withdraw(request, make_person())) == "unknown_join_request"
    done(withdraw(request, person))
    assert refusal(accept(owner, request)) == "join_request_ended"
    assert refusal(decline(owner, request)) == "join_request_ended"
    assert refusal(withdraw(request, person)) == "join_request_ended"
    done(ask(person))


def test_a_tenant_that_takes_no_requests_is_answered_like_none(owner) -> None:
    closed, person = make_tenant("closed"), make_person()
    assert not Tenant.objects.get(pk=closed.pk).may_be_asked  # off unless an owner says so
    assert ask(person, "closed") == ask(person, "nowhere")
    assert refusal(ask(person, "closed")) == "unknown_tenant"
    assert joining.tenants_to_ask(person) == [owner.tenant]


def test_requests_that_wait_are_answered_after_the_tenant_takes_none(owner) -> None:
    request = done(ask(make_person()))
    done(services.may_be_asked_set(tenant=owner.tenant, on=False, by=access(owner), at=NOW))
    assert refusal(ask(make_person())) == "unknown_tenant"
    done(accept(owner, request))


@pytest.mark.parametrize(("why", "code"), [(" \n", "reason_missing"), ("x" * 201, "reason_too_long")])
def test_a_request_says_why_in_one_line(owner, why: str, code: str) -> None:
    assert refusal(ask(make_person(), why=why)) == code


def test_a_person_asks_a_tenant_once_and_few_tenants_at_a_time(owner) -> None:
    person = make_person()
    first = done(ask(person))
    assert refusal(ask(person)) == "already_asked"
    assert refusal(ask(owner.user)) == "already_member"
    for slug in ("two", "three", "four"):
        open_tenant(slug)
    done(ask(person, "two"))
    done(ask(person, "three"))
    assert refusal(ask(person, "four")) == "too_many_requests"
    assert joining.tenants_to_ask(person) == [Tenant.objects.get(slug="four")]
    done(withdraw(first, person))
    done(ask(person, "four"))
    done(ask(make_person(), "four"))  # others are counted apart


def test_asking_and_withdrawing_in_turn_ends_within_a_week(owner) -> None:
    person = make_person()
    for _ in range(10):
        done(withdraw(done(ask(person)), person))
    assert refusal(ask(person)) == "too_many_requests"
    done(ask(person, at=NOW + WEEK))


def test_only_owners_and_operators_answer_and_an_operator_says_why(owner) -> None:
    request = done(ask(make_person()))
    for role in (VIEWER, SUBMITTER, BILLING):
        member = make_member(owner.tenant, role)
        assert refusal(accept(member, request)) == "not_allowed"
        assert refusal(decline(member, request)) == "not_allowed"
    stranger = open_tenant("castor")
    assert refusal(accept(stranger, request)) == "not_allowed"
    assert (
        refusal(services.may_be_asked_set(tenant=owner.tenant, on=False, by=access(stranger), at=NOW)) == "not_allowed"
    )
    assert refusal(accept(owner, request, role=OPERATOR)) == "unknown_role"
    operator = access_of(make_staff(OPERATOR).user, owner.tenant)
    fields = {"request": request, "role": VIEWER, "by": operator, "at": NOW}
    assert refusal(services.join_request_accept(**fields)) == "reason_missing"
    done(services.join_request_accept(**fields, reason="the owner is ill"))


def test_whoever_joins_another_way_no_longer_asks(owner) -> None:
    invited, mapped = make_person("guest@example.org"), make_person()
    first, second = done(ask(invited)), done(ask(mapped))
    issued = done(
        services.invitation_create(
            tenant=owner.tenant, email="guest@example.org", role=VIEWER, by=access(owner), at=NOW
        )
    )
    done(services.invitation_accept(token_hash=services.token_hash(issued.token), user=invited, at=NOW))
    make_mapping("groups", "lab", owner.tenant, VIEWER)
    services.claims_apply(user=mapped, claims={"groups": ["lab"]}, at=NOW)
    assert (state(first), state(second)) == ("accepted", "accepted")
    assert refusal(accept(owner, first)) == "join_request_ended"
    with scope(owner.tenant):
        assert list(joining.join_requests_waiting()) == []


def test_the_request_of_a_closed_account_is_neither_shown_nor_accepted(owner) -> None:
    person = make_person()
    request = done(ask(person))
    person.is_active = False
    person.save()
    with scope(owner.tenant):
        assert list(joining.join_requests_waiting()) == []
    assert refusal(accept(owner, request)) == "inactive_person"


def test_history_of_the_tenant_has_every_step(owner) -> None:
    first, second = make_person(), make_person()
    done(accept(owner, done(ask(first, why="The speech models."))))
    request = done(ask(second))
    done(decline(owner, request))
    done(withdraw(done(ask(second, at=NOW + WEEK)), second))
    entries = AuditEntry.objects.filter(tenant=owner.tenant, action__contains="join").order_by("sequence")
    steps = [(entry.action, entry.actor, entry.reason) for entry in entries]
    assert steps == [
        ("join_request_create", first, "The speech models."),
        ("join_request_accept", owner.user, ""),
        ("join_request_create", second, "I work with Ada."),
        ("join_request_decline", owner.user, "Ask Castor."),
        ("join_request_create", second, "I work with Ada."),
        ("join_request_withdraw", second, ""),
    ]
    assert AuditEntry.objects.filter(tenant=owner.tenant, action="tenant_may_be_asked_set").count() == 1


def test_another_tenant_sees_nothing_of_a_request(owner) -> None:
    other = open_tenant("castor")
    request = done(ask(make_person("ines@example.org")))
    with scope(other.tenant):
        assert list(joining.join_requests()) == []
        assert joining.join_request_by_id(request.pk) is None
    assert "ines@example.org" not in client_of(other.user).get("/t/castor/members/").content.decode()
    assert client_of(other.user).post(f"/t/castor/join-requests/{request.pk}/decline/").status_code == 404
    assert state(request) == "waiting"


def test_database_keeps_one_request_that_waits(owner) -> None:
    request = done(ask(make_person()))
    with scope(owner.tenant), pytest.raises(IntegrityError), transaction.atomic():
        JoinRequest.objects.create(person=request.person, why="again", state="waiting", asked_at=NOW)


@pytest.mark.django_db(transaction=True)
def test_accepted_and_withdrawn_at_once_is_one_of_both() -> None:
    owner = open_tenant("lumen")
    for _ in range(4):
        person = make_person()
        request = done(ask(person))
        accepted, withdrawn = in_threads(
            lambda request=request: accept(owner, request),
            lambda request=request, person=person: withdraw(request, person),
        )
        is_member = isinstance(accepted, Membership)
        assert is_member != isinstance(withdrawn, JoinRequest)
        assert state(request) == ("accepted" if is_member else "withdrawn")
        assert bool(user_tenants(person)) == is_member


@pytest.mark.django_db(transaction=True)
def test_asked_of_many_tenants_at_once_few_are_asked() -> None:
    slugs = [f"lab-{number}" for number in range(5)]
    for slug in slugs:
        open_tenant(slug)
    person = make_person()
    outcomes = in_threads(*(lambda slug=slug: ask(person, slug) for slug in slugs))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["JoinRequest"] * 3 + ["Refused"] * 2


# ---- the same story in the browser


def test_somebody_without_a_tenant_asks_and_the_owner_accepts(owner) -> None:
    person = make_person("ines@example.org", "Ines")
    guest, host = client_of(person), client_of(owner.user)
    assert "Lumen Lab" in guest.get("/").content.decode()
    page = guest.post("/mine/ask/", {"tenant": "lumen", "why": "Ada asked me <b>in</b>."}, follow=True).content.decode()
    assert "The owners of Lumen Lab see your request." in page
    assert "None yet" in page
    assert 'action="/mine/ask/"' not in page  # there is no other tenant to ask
    members = host.get("/t/lumen/members/").content.decode()
    assert "ines@example.org" in members
    assert "Ada asked me &lt;b&gt;in&lt;/b&gt;." in members
    (request,) = joining.own_requests(person)
    host.post(f"/t/lumen/join-requests/{request.pk}/accept/", {"role": SUBMITTER})
    assert "you joined as submitter" in guest.get("/mine/").content.decode()
    assert guest.get("/t/lumen/members/").status_code == 200


def test_a_refused_form_keeps_what_was_written(owner) -> None:
    guest = client_of(make_person())
    page = guest.post("/mine/ask/", {"tenant": "lumen", "why": "\u3164"}).content.decode()
    assert "Say in one line why" in page
    assert guest.get("/mine/ask/")["Location"] == "/mine/"
    assert 'class="error"' in guest.post("/mine/ask/", {"tenant": "nowhere", "why": "x"}).content.decode()


def test_page_of_somebody_without_a_tenant_names_only_those_who_may_be_asked(owner) -> None:
    make_tenant("castor", "Castor Group")
    page = client_of(make_person()).get("/").content.decode()
    assert "Lumen Lab" in page
    assert "Castor Group" not in page
    assert owner.user.email not in page


def test_owner_switches_requests_on_and_off() -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    client = client_of(owner.user)
    client.post("/t/lumen/join-requests/open/", {"on": "yes"})
    assert joining.any_may_be_asked()
    client.post("/t/lumen/join-requests/open/", {"on": "no"})
    assert not joining.any_may_be_asked()


@pytest.mark.parametrize(("role", "sees"), [(VIEWER, False), (BILLING, False), (OWNER, True)])
def test_requests_are_shown_to_owners_and_the_staff(owner, role: str, sees: bool) -> None:
    done(ask(make_person("ines@example.org")))
    reader = owner.user if role == OWNER else make_member(owner.tenant, role).user
    assert ("ines@example.org" in client_of(reader).get("/t/lumen/members/").content.decode()) == sees
    assert "ines@example.org" in client_of(make_staff(AUDITOR).user).get("/t/lumen/members/").content.decode()
