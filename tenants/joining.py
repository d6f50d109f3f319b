"""Reads about joining: which tenants a person may ask, and the requests with their answers."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from tenants.models import JoinRequest, JoinState, Membership, Tenant, User
from tenants.scoping import scope_disabled

MOST_OWN = 20  # of a person's requests on their page of tenants
ENDED = (JoinState.ACCEPTED, JoinState.DECLINED)


def any_may_be_asked() -> bool:
    """Return whether a person without a tenant could ask any tenant."""
    return Tenant.objects.filter(may_be_asked=True).exists()


def tenants_to_ask(person: User) -> list[Tenant]:
    """List by name the tenants that take requests, except where the person is a member or waits for an answer."""
    with scope_disabled("who may be asked is worked out for somebody who belongs to none of these tenants"):
        belongs = Membership.objects.filter(tenant=OuterRef("pk"), user=person)
        waits = JoinRequest.objects.filter(tenant=OuterRef("pk"), person=person, state=JoinState.WAITING)
        return list(Tenant.objects.filter(~Exists(belongs), ~Exists(waits), may_be_asked=True))


def requests_of(person: User) -> QuerySet[JoinRequest]:
    """Return the person's own requests to all tenants."""
    with scope_disabled("a person's own requests lie in several tenants"):
        return JoinRequest.objects.filter(person=person).select_related("tenant")


def own_requests(person: User) -> list[JoinRequest]:
    """List the person's latest requests, waiting or ended, the newest first."""
    return list(requests_of(person).order_by("-pk")[:MOST_OWN])


def join_requests() -> QuerySet[JoinRequest]:
    """Return the open tenant's requests in any state, except those of people whose account is closed."""
    return JoinRequest.objects.filter(person__is_active=True).select_related("person", "tenant").order_by("pk")


def join_requests_waiting() -> QuerySet[JoinRequest]:
    """Return the open tenant's waiting requests, the oldest first."""
    return join_requests().filter(state=JoinState.WAITING)


def join_request_by_id(number: int) -> JoinRequest | None:
    """Return a request of the open tenant, in any state, or None."""
    return join_requests().filter(pk=number).first()


def join_requests_to_tell(since: datetime) -> list[JoinRequest]:
    """List the requests of all tenants that wait, or that were answered since then by somebody else than their person.
    Needs the scope of all tenants."""
    answered = Q(state__in=ENDED, ended_at__gt=since, ended_by__isnull=False) & ~Q(ended_by=F("person"))
    return list(JoinRequest.objects.filter(Q(state=JoinState.WAITING) | answered).order_by("pk"))
