"""Requests to join: a person who is no member asks a tenant that takes requests; its owners accept or decline.

Locks are taken in this order: the tenant's row, the person's row, requests and memberships, and last the end of the
history.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from tenants import history, joining, selectors
from tenants.access import Access, Refused
from tenants.models import JoinRequest, JoinState, Membership, Tenant, User
from tenants.names import in_one_line, is_blank
from tenants.roles import TENANT_ROLES
from tenants.scoping import scope
from tenants.services.members import (
    ALREADY_A_MEMBER,
    REASON_LONGEST,
    REASON_TOO_LONG,
    UNKNOWN_ROLE,
    may_change_members,
    membership_begin,
)

WHY_LONGEST = 200
MOST_WAITING = 3  # requests of one person
MOST_A_WEEK = 10  # requests of one person, whatever the answers
WEEK = timedelta(days=7)

NOT_ASKED = Refused("unknown_tenant", "There is no such tenant, or people may not ask to join it.")
NO_WHY = Refused("reason_missing", "Say in one line why you would like to join.")
WHY_TOO_LONG = Refused("reason_too_long", f"Say it in {WHY_LONGEST} characters at most.")
NO_ANSWER = Refused("reason_missing", "Say why: whoever asked reads it.")
SECOND_REQUEST = Refused("already_asked", "You have asked this tenant already, and it has not answered yet.")
UNKNOWN_REQUEST = Refused("unknown_join_request", "There is no such request.")


@transaction.atomic
def join_request_create(*, tenant: str, why: str, person: User, at: datetime) -> JoinRequest | Refused:
    """Ask the tenant with this short name to let the person join. Only where it takes requests does the answer reveal
    that there is such a tenant."""
    why = in_one_line(why)
    if is_blank(why):
        return NO_WHY
    if len(why) > WHY_LONGEST:
        return WHY_TOO_LONG
    place = Tenant.objects.select_for_update().filter(slug=tenant, may_be_asked=True).first()
    if place is None:
        return NOT_ASKED
    # Two requests of one person to two tenants are counted one after the other.
    person = User.objects.select_for_update(no_key=True).get(pk=person.pk)
    if refusal := _create_refusal(place, person, at):
        return refusal
    with scope(place):
        request = JoinRequest.objects.create(person=person, why=why, state=JoinState.WAITING, asked_at=at)
        _remember("join_request_create", request, by=selectors.access_of(person, place), at=at, reason=why)
    return request


def _create_refusal(place: Tenant, person: User, at: datetime) -> Refused | None:
    with scope(place):
        if Membership.objects.filter(user=person).exists():
            return ALREADY_A_MEMBER
        last = JoinRequest.objects.filter(person=person).order_by("-pk").first()
    if last is not None and last.state == JoinState.WAITING:
        return SECOND_REQUEST
    if last is not None and last.state == JoinState.DECLINED and last.ended_at and at < last.ended_at + WEEK:
        again = last.ended_at + WEEK
        return Refused("asked_lately", f"{place} declined your request. Ask again after {again:%d %B %Y, %H:%M} UTC.")
    own = joining.requests_of(person)
    if own.filter(state=JoinState.WAITING).count() >= MOST_WAITING:
        return Refused("too_many_requests", f"{MOST_WAITING} of your requests wait for an answer. Withdraw one first.")
    if own.filter(asked_at__gt=at - WEEK).count() >= MOST_A_WEEK:
        return Refused("too_many_requests", f"You have asked {MOST_A_WEEK} times within a week. Ask again later.")
    return None


@transaction.atomic
def join_request_withdraw(*, number: int, person: User, at: datetime) -> JoinRequest | Refused:
    """Withdraw the person's own request."""
    request = joining.requests_of(person).filter(pk=number).first()
    if request is None:
        return UNKNOWN_REQUEST
    with scope(request.tenant):
        current = _fresh(request)
        if refusal := _ended(current):
            return refusal
        _end(current, JoinState.WITHDRAWN, by=person, at=at)
        _remember("join_request_withdraw", current, by=selectors.access_of(person, request.tenant), at=at)
    return current


@transaction.atomic
def join_request_accept(
    *, request: JoinRequest, role: str, by: Access, at: datetime, reason: str = ""
) -> Membership | Refused:
    """Make the person a member, as if by hand; that ends the request."""
    if refusal := may_change_members(by, request.tenant, reason):
        return refusal
    if role not in TENANT_ROLES:
        return UNKNOWN_ROLE
    with scope(request.tenant):
        current = _fresh(request)
        if refusal := _ended(current):
            return refusal
        if not current.person.is_active:
            return Refused("inactive_person", f"The account of {current.person.email} is closed.")
        membership = membership_begin(current.person, role, by=by.user, at=at)
        _remember("join_request_accept", current, by=by, at=at, reason=reason, after={"role": role})
    return membership


@transaction.atomic
def join_request_decline(*, request: JoinRequest, by: Access, at: datetime, reason: str) -> JoinRequest | Refused:
    """Decline the request. The person reads the `reason`."""
    if refusal := may_change_members(by, request.tenant, reason):
        return refusal
    if is_blank(reason):
        return NO_ANSWER
    if len(reason) > REASON_LONGEST:
        return REASON_TOO_LONG
    with scope(request.tenant):
        current = _fresh(request)
        if refusal := _ended(current):
            return refusal
        current.answer = reason
        _end(current, JoinState.DECLINED, by=by.user, at=at)
        _remember("join_request_decline", current, by=by, at=at, reason=reason)
    return current


@transaction.atomic
def may_be_asked_set(*, tenant: Tenant, on: bool, by: Access, at: datetime, reason: str = "") -> Tenant | Refused:
    """Set whether people may ask to join. Waiting requests stay, and are answered as before."""
    if refusal := may_change_members(by, tenant, reason):
        return refusal
    current = Tenant.objects.select_for_update().get(pk=tenant.pk)
    if current.may_be_asked == on:
        return current
    current.may_be_asked = on
    current.save(update_fields=["may_be_asked"])
    history.append(
        at=at,
        by=by,
        tenant=current,
        action="tenant_may_be_asked_set",
        subject=f"tenant {current.slug}",
        reason=reason,
        before={"people_may_ask": not on},
        after={"people_may_ask": on},
    )
    return current


def _fresh(request: JoinRequest) -> JoinRequest:
    """Return the request as it is once the tenant's lock is held; the caller's copy may be old."""
    Tenant.objects.select_for_update().get(pk=request.tenant_id)
    return JoinRequest.objects.select_related("person", "tenant").get(pk=request.pk)


def _ended(request: JoinRequest) -> Refused | None:
    if request.state == JoinState.WAITING:
        return None
    return Refused("join_request_ended", f"This request was {request.state} already.")


def _end(request: JoinRequest, state: JoinState, *, by: User | None, at: datetime) -> None:
    request.state, request.ended_at, request.ended_by = state, at, by
    request.save(update_fields=["state", "ended_at", "ended_by", "answer"])


def _remember(
    action: str,
    request: JoinRequest,
    *,
    by: Access,
    at: datetime,
    reason: str = "",
    after: history.Values | None = None,
) -> None:
    history.append(
        at=at,
        by=by,
        tenant=request.tenant,
        action=action,
        subject=f"request of {request.person.email}",
        reason=reason,
        after=after,
    )
