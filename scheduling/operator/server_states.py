"""Drain a server, or return it to service. `runs/failures.py` declares one lost."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from scheduling.cluster import may_change_cluster, pool_lock, server_subject
from scheduling.feed import EventKind, event, events_append
from scheduling.market.calendar import lane_lock
from scheduling.models import Lane, Server, ServerState
from tenants import history
from tenants.access import Access, Refused


def server_drain(*, server: Server, by: Access, reason: str, at: datetime) -> Refused | None:
    """Drain the server: what is promised there is delivered, and nothing new is put on it."""
    among = (ServerState.IN_SERVICE,)
    return _change("server_drain", server, among, ServerState.DRAINING, by=by, reason=reason, at=at)


def server_return(*, server: Server, by: Access, reason: str, at: datetime) -> Refused | None:
    """Return the server to service, with the units and cells that it had: the next decision of either lane uses it."""
    among = (ServerState.DRAINING, ServerState.LOST)
    return _change("server_return", server, among, ServerState.IN_SERVICE, by=by, reason=reason, at=at)


@transaction.atomic
def _change(
    action: str,
    server: Server,
    among: tuple[ServerState, ...],
    state: ServerState,
    *,
    by: Access,
    reason: str,
    at: datetime,
) -> Refused | None:
    if refusal := may_change_cluster(by, reason):
        return refusal
    pool_lock(server.pool)
    for lane in (Lane.BATCH, Lane.INSTANT):  # in the order of the locks
        lane_lock(pool_id=server.pool_id, lane=lane)
    server.refresh_from_db()
    if server.state not in among:
        return Refused("wrong_state", f"{server.name} is {server.get_state_display().lower()}.")
    before, server.state = server.state, state
    server.save(update_fields=["state"])
    data = {"server": server.name, "state": state.value}
    events_append(
        [event(EventKind.SERVER_CHANGED, pool_id=server.pool_id, subject=f"server:{server.name}", at=at, data=data)]
    )
    history.append(
        at=at,
        by=by,
        action=action,
        subject=server_subject(server),
        reason=reason,
        before={"state": before},
        after={"state": state.value},
    )
    return None
