"""Rows of the table: tenants, members, invitations, the history, tokens, and who calls."""

from __future__ import annotations

from django.utils import timezone

from tenants.models import ApiToken
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.selectors import access_of
from tenants.services import invitation_create, join_request_create, may_be_asked_set, token_create
from tests.api.table import Names, Row, World, answers, everybody
from tests.tenants.builders import NOW, done, make_member, make_person

NEW_TOKEN = {"name": "nightly", "scopes": ["tokens:write"]}  # a token makes none that may more than itself


def token(world: World) -> Names:
    """Of the tenant's owner."""
    by = access_of(world.members[OWNER].user, world.tenant)
    issued = done(token_create(name="other", scopes=["jobs:read"], by=by, at=NOW, expires_at=None))
    return {"token": issued.token.pk}


def no_token_of_ones_own(world: World) -> Names:
    return {"token": (ApiToken.objects.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1_000_000}


def another_member(world: World) -> Names:
    return {"member": make_member(world.tenant, VIEWER).pk}


def open_invitation(world: World) -> Names:
    by = access_of(world.members[OWNER].user, world.tenant)
    email = f"guest@{world.tenant.slug}.example"
    issued = done(invitation_create(tenant=world.tenant, email=email, role=VIEWER, by=by, at=timezone.now()))
    return {"invitation": issued.invitation.pk}


def join_request(world: World) -> Names:
    by = access_of(world.members[OWNER].user, world.tenant)
    done(may_be_asked_set(tenant=world.tenant, on=True, by=by, at=NOW))
    fields = {"tenant": world.tenant.slug, "why": "The table asks.", "person": make_person(), "at": NOW}
    return {"join_request": done(join_request_create(**fields)).pk}


OWNERS_AND_OPERATOR = answers(200, OWNER, OPERATOR)
WHY = "as the table asks"
MEMBERS = dict.fromkeys(("viewer", "submitter", "billing", "owner"), 201)
ROWS = [
    Row("health_read", "get", "health/", everybody()),
    Row("ready_read", "get", "ready/", everybody()),
    Row("me_read", "get", "me/", everybody()),
    Row("tenants_list", "get", "tenants/", everybody()),
    Row(
        "tenants_create",
        "post",
        "tenants/",
        answers(201, OPERATOR),
        body=lambda names: {"slug": "newlab", "name": "New Lab", "owner": "new@newlab.example", "reason": WHY},
    ),
    Row("tenants_read", "get", "tenants/{tenant}/", everybody()),
    Row("members_list", "get", "tenants/{tenant}/members/", everybody()),
    Row(
        "member_role",
        "post",
        "tenants/{tenant}/members/{member}/role/",
        OWNERS_AND_OPERATOR,
        body=lambda names: {"role": "submitter", "reason": WHY},
        prepare=another_member,
        foreign=("member",),
    ),
    Row(
        "member_remove",
        "post",
        "tenants/{tenant}/members/{member}/remove/",
        OWNERS_AND_OPERATOR,
        body=lambda names: {"reason": WHY},
        prepare=another_member,
        foreign=("member",),
    ),
    # The world has one owner, who cannot leave; the staff have nothing to leave.
    Row(
        "member_leave",
        "post",
        "tenants/{tenant}/leave/",
        answers(409, OWNER) | answers(200, VIEWER, SUBMITTER, BILLING),
    ),
    Row("invitations_list", "get", "tenants/{tenant}/invitations/", everybody()),
    Row(
        "invitations_create",
        "post",
        "tenants/{tenant}/invitations/",
        answers(201, OWNER, OPERATOR),
        body=lambda names: {"email": "guest@example.org", "role": "viewer", "reason": WHY},
    ),
    Row(
        "invitations_revoke",
        "post",
        "tenants/{tenant}/invitations/{invitation}/revoke/",
        OWNERS_AND_OPERATOR,
        body=lambda names: {"reason": WHY},
        prepare=open_invitation,
        foreign=("invitation",),
    ),
    Row("join_requests_list", "get", "tenants/{tenant}/join-requests/", answers(200, OWNER, AUDITOR, OPERATOR)),
    Row(
        "join_requests_accept",
        "post",
        "tenants/{tenant}/join-requests/{join_request}/accept/",
        OWNERS_AND_OPERATOR,
        body=lambda names: {"role": "viewer", "reason": WHY},
        prepare=join_request,
        foreign=("join_request",),
    ),
    Row(
        "join_requests_decline",
        "post",
        "tenants/{tenant}/join-requests/{join_request}/decline/",
        OWNERS_AND_OPERATOR,
        body=lambda names: {"reason": WHY},
        prepare=join_request,
        foreign=("join_request",),
    ),
    Row(
        "join_requests_open",
        "post",
        "tenants/{tenant}/join-requests/open/",
        OWNERS_AND_OPERATOR,
        body=lambda names: {"may_be_asked": True, "reason": WHY},
    ),
    Row("history_list", "get", "tenants/{tenant}/history/", answers(200, OWNER, AUDITOR, OPERATOR)),
    Row("staff_history_list", "get", "history/", answers(200, AUDITOR, OPERATOR)),
    Row("tokens_list", "get", "tenants/{tenant}/tokens/", everybody()),
    # Staff who are no members make tokens for their roles over all instead.
    Row(
        "tokens_create",
        "post",
        "tenants/{tenant}/tokens/",
        MEMBERS | answers(409, AUDITOR, OPERATOR),
        body=lambda names: NEW_TOKEN,
    ),
    # Somebody else's token is nobody's but an owner's to see.
    Row(
        "tokens_revoke",
        "post",
        "tenants/{tenant}/tokens/{token}/revoke/",
        everybody(404) | answers(200, OWNER),
        prepare=token,
        foreign=("token",),
    ),
    Row("staff_tokens_list", "get", "tokens/", answers(200, AUDITOR, OPERATOR)),
    Row("staff_tokens_create", "post", "tokens/", answers(201, AUDITOR, OPERATOR), body=lambda names: NEW_TOKEN),
    Row(
        "staff_tokens_revoke",
        "post",
        "tokens/{token}/revoke/",
        answers(404, AUDITOR, OPERATOR),
        prepare=no_token_of_ones_own,
    ),
]
