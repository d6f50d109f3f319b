"""Reads: which tenants somebody may ask to join, and what became of requests."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from tenants.models import JoinRequest, JoinState, Membership, Tenant, User
from tenants.scoping import scope_disabled

MOST_OWN = 20  # of a person's requests on their page
ENDED = (JoinState.ACCEPTED, JoinState.DECLINED)


def any_may_be_asked() -> bool:
    """Whether somebody who belongs nowhere could ask anybody."""
    return Tenant.objects.filter(may_be_asked=True).exists()


def tenants_to_ask(person: User) -> list[Tenant]:
    """By name: those that take requests, but where the person is a member or waits for an answer."""
    with scope_disabled("who may be asked is worked out for somebody who belongs to none of these tenants"):
        belongs = Membership.objects.filter(tenant=OuterRef("pk"), user=person)
        waits = JoinRequest.objects.filter(tenant=OuterRef("pk"), person=person, state=JoinState.WAITING)
        return list(Tenant.objects.filter(~Exists(belongs), ~Exists(waits), may_be_asked=True))


def requests_of(person: User) -> QuerySet[JoinRequest]:
    """The person's own, to whichever tenants."""
    with scope_disabled("a person's own requests lie in several tenants"):
        return JoinRequest.objects.filter(person=person).select_related("tenant")


def own_requests(person: User) -> list[JoinRequest]:
    """Those that wait and the latest answers, the newest first."""
    return list(requests_of(person).order_by("-pk")[:MOST_OWN])


def join_requests() -> QuerySet[JoinRequest]:
    """Of the open tenant, whatever their state; without those of people whose account is closed."""
    return JoinRequest.objects.filter(person__is_active=True).select_related("person", "tenant").order_by("pk")


def join_requests_waiting() -> QuerySet[JoinRequest]:
    """Of the open tenant, the oldest first."""
    return join_requests().filter(state=JoinState.WAITING)


def join_request_by_id(number: int) -> JoinRequest | None:
    """Of the open tenant, whatever its state."""
    return join_requests().filter(pk=number).first()


def join_requests_to_tell(since: datetime) -> list[JoinRequest]:
    """Of all tenants: those that wait, and those that somebody else than their person answered since then. Needs the
    scope of all tenants."""
    answered = Q(state__in=ENDED, ended_at__gt=since, ended_by__isnull=False) & ~Q(ended_by=F("person"))
    return list(JoinRequest.objects.filter(Q(state=JoinState.WAITING) | answered).order_by("pk"))
