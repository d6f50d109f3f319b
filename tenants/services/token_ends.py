"""Tokens end with what they rest on: the membership, or the roles over all, that their person had when they were made.

The look-up of a token (`selectors.access_of_token`) sees that by itself. What is written here is for whoever reads a
list of tokens, and for a program that is told why it is refused.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from tenants.models import ApiToken, StaffGrant, Tenant, User


def tokens_of_member_end(*, user: User, tenant: Tenant, by: User | None, at: datetime) -> None:
    """Revoke the tokens of a person for a tenant, where the membership ends. `by` is None where no person ended it."""
    _working(user, at).filter(tenant=tenant).update(revoked_at=at, revoked_by=by)


def tokens_of_staff_end(*, user: User, by: User | None, at: datetime) -> None:
    """Revoke the tokens of a person for the roles over all that rest on no role any more, where one has ended."""
    still = StaffGrant.objects.filter(user=OuterRef("user"), revoked_at=None, granted_at__lte=OuterRef("created_at"))
    _working(user, at).filter(~Exists(still), tenant=None).update(revoked_at=at, revoked_by=by)


def _working(user: User, at: datetime) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=at)
