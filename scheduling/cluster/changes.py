"""What every change to a pool and its servers has in common: who may make it, that changes to a pool take turns, and
under which name the history keeps it."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db.models import Model

from scheduling.models import Pool, Server
from tenants.access import Access, Refused
from tenants.roles import Permission
from tenants.services.members import NOT_ALLOWED, reason_refusal


def may_change_cluster(by: Access, reason: str) -> Refused | None:
    if not by.allows(Permission.CLUSTER_CHANGE):
        return NOT_ALLOWED
    return reason_refusal(reason)


def pool_lock(pool: Pool) -> None:
    """Operators' changes to one pool take turns. Rows that merely refer to the pool are not held up."""
    Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)


def row_refusal(row: Model, code: str) -> Refused | None:
    """What the model's own rules say against a row that is not yet saved."""
    try:
        row.full_clean()
    except ValidationError as error:
        return Refused(code, " ".join(error.messages))
    return None


def server_subject(server: Server) -> str:
    return f"server {server.name} of pool {server.pool.slug}"
