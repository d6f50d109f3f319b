"""Rows of the table: tokens, and who calls."""

from __future__ import annotations

from tenants.models import ApiToken
from tenants.roles import AUDITOR, OPERATOR, OWNER
from tenants.selectors import access_of
from tenants.services import token_create
from tests.api.table import Names, Row, World, answers, everybody
from tests.tenants.builders import NOW, done

NEW_TOKEN = {"name": "nightly", "scopes": ["jobs:read"]}


def token(world: World) -> Names:
    """Of the tenant's owner."""
    by = access_of(world.members[OWNER].user, world.tenant)
    issued = done(token_create(name="other", scopes=["jobs:read"], by=by, at=NOW, expires_at=None))
    return {"token": issued.token.pk}


def no_token_of_ones_own(world: World) -> Names:
    return {"token": (ApiToken.objects.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1_000_000}


MEMBERS = dict.fromkeys(("viewer", "submitter", "billing", "owner"), 201)
ROWS = [
    Row("me_read", "get", "me/", everybody()),
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
