"""What all changes to a pool and its servers share: the check of who may make them, the lock by which changes to one
pool take turns, and the name under which the history keeps them."""

from __future__ import annotations

from scheduling.models import Pool, Server
from tenants.access import Access, Refused
from tenants.roles import Permission
from tenants.services.members import NOT_ALLOWED, reason_refusal


def may_change_cluster(by: Access, reason: str) -> Refused | None:
    if not by.allows(Permission.CLUSTER_CHANGE):
        return NOT_ALLOWED
    return reason_refusal(reason)


def pool_lock(pool: Pool) -> None:
    """Lock the pool's row, so that operators' changes to one pool take turns. Writing rows that merely refer to the
    pool does not wait for this lock."""
    Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)


def server_subject(server: Server) -> str:
    return f"server {server.name} of pool {server.pool.slug}"
