"""Django's admin, for reading only: every change goes through a service, so that it is checked and recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from allauth.account.decorators import secure_admin_login
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.contrib.auth.models import Group
from django.core.exceptions import BadRequest
from django.db.models import Model
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest
from django.template.response import TemplateResponse

from tenants.models import (
    ApiToken,
    AuditEntry,
    ClaimMapping,
    Invitation,
    JoinRequest,
    Membership,
    StaffGrant,
    Tenant,
    User,
)
from tenants.scoping import scope_disabled

# The admin's own log-in form would have neither rate limits nor the second factor.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
_admin_view = admin.site.admin_view


def _of_everybody(view: Callable[..., Any], cacheable: bool = False) -> Callable[..., Any]:
    """Return the view of an admin page with the scope of all tenants, since only staff may read it. The page is
    rendered while the scope is open, because lists query late. Filters take values from the address, and no text of the
    database has a NUL, so an address with one is refused."""

    @wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if "%00" in request.META["QUERY_STRING"] or "\0" in request.path:
            raise BadRequest("There is a NUL in the address.")
        with scope_disabled("the admin shows the staff every tenant's rows"):
            response = view(request, *args, **kwargs)
            return response.render() if isinstance(response, TemplateResponse) else response

    return _admin_view(page, cacheable)


admin.site.admin_view = _of_everybody  # type: ignore[method-assign, assignment]


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    show_full_result_count = False  # counting a million rows would make the reader wait

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Refuse a filter in the address by a field that is not shown: it would tell the field letter by letter."""
        is_shown = lookup.split(LOOKUP_SEP)[0] not in (self.exclude or ())
        return is_shown and super().lookup_allowed(lookup, value, request)


# Other apps bring pages of their own, on which the staff could prove an address for anybody and read the secrets of
# second factors. They are in INSTALLED_APPS before ours, so their pages are there by now.
admin.site.unregister([Authenticator, EmailAddress, Group, SocialAccount, SocialApp, SocialToken])


@admin.register(Authenticator)
class AuthenticatorAdmin(ReadOnlyAdmin):
    list_display = ["user", "type", "created_at", "last_used_at"]
    list_select_related = ["user"]
    list_filter = ["type"]
    search_fields = ["user__email"]
    exclude = ["data"]  # whoever knows it has the second factor


@admin.register(EmailAddress)
class EmailAddressAdmin(ReadOnlyAdmin):
    list_display = ["email", "user", "primary", "verified"]
    list_select_related = ["user"]
    list_filter = ["primary", "verified"]
    search_fields = ["email", "user__email"]


@admin.register(SocialAccount)
class SocialAccountAdmin(ReadOnlyAdmin):
    list_display = ["user", "uid", "provider", "last_login", "date_joined"]
    list_select_related = ["user"]
    search_fields = ["uid", "user__email"]
    exclude = ["extra_data"]  # all that the provider said of the person


@admin.register(User)
class UserAdmin(ReadOnlyAdmin):
    list_display = ["email", "name", "is_active", "created_at", "last_login"]
    search_fields = ["email", "name"]
    exclude = ["password"]


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    list_display = ["name", "slug", "may_be_asked", "created_at"]
    search_fields = ["name", "slug"]


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    list_display = ["user", "tenant", "role", "claim", "created_at"]
    list_select_related = ["user", "tenant"]
    list_filter = ["role"]
    search_fields = ["user__email", "user__name", "tenant__slug"]


@admin.register(ClaimMapping)
class ClaimMappingAdmin(ReadOnlyAdmin):
    list_display = ["claim", "value", "tenant", "role", "created_at"]
    list_select_related = ["tenant"]
    list_filter = ["role"]
    search_fields = ["claim", "value", "tenant__slug"]


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    list_display = ["email", "tenant", "role", "created_at", "expires_at", "accepted_at", "revoked_at"]
    list_select_related = ["tenant"]
    search_fields = ["email", "tenant__slug"]
    exclude = ["token_hash"]


@admin.register(JoinRequest)
class JoinRequestAdmin(ReadOnlyAdmin):
    list_display = ["person", "tenant", "state", "asked_at", "ended_at", "ended_by", "role"]
    list_select_related = ["person", "tenant", "ended_by"]
    list_filter = ["state"]
    search_fields = ["person__email", "tenant__slug"]


@admin.register(StaffGrant)
class StaffGrantAdmin(ReadOnlyAdmin):
    list_display = ["user", "role", "granted_at", "granted_reason", "revoked_at", "revoked_reason"]
    list_select_related = ["user"]
    search_fields = ["user__email", "user__name"]


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ["name", "user", "tenant", "hint", "created_at", "expires_at", "last_used_at", "revoked_at"]
    list_select_related = ["user", "tenant"]
    search_fields = ["name", "hint", "user__email"]
    exclude = ["token_hash"]


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["sequence", "at", "action", "subject", "tenant", "actor_name", "reason"]
    list_select_related = ["tenant"]
    search_fields = ["subject", "actor_name"]
