"""What an engine reports of its servers, and what follows for servers of its pools.

A server is lost, with the refunds of a loss, if it is down for longer than the engine's `server_grace` while no gang on
it is heard of. A server that the engine lost, and that has been up for as long since, returns to service if its pool
allows that; otherwise it waits for an operator, as does one that an operator declared lost.

A server that the cluster drains starts nothing more. After the same time it is drained here, too: what was sold there
meanwhile would be lost again and again. It returns to service once it has been up for as long, unless an operator
drained it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from scheduling.cluster import may_change_cluster, pool_lock, server_subject
from scheduling.engines.base import DOWN, DRAINING, UP, Engine, ServerHealth
from scheduling.models import Pool, Server, ServerState
from scheduling.operator.server_states import server_drain, server_return
from scheduling.runs import server_lose
from tenants import history
from tenants.access import Access, Refused, access_of_system
from tenants.models import AuditEntry

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Due:
    """Names of servers that have been down, or drained, or up, for long enough."""

    lost: frozenset[str]
    draining: frozenset[str]
    back: frozenset[str]


def servers_follow(*, engine: Engine, at: datetime) -> list[Server]:
    """Change states of servers, and return those that were lost or came back by this call. A repeated report has no
    effect."""
    states, actor = engine.servers(), access_of_system(f"engine {engine.name}")
    due = servers_due(states, engine.timings.server_grace, at.timestamp())
    of_engine = Server.objects.filter(pool__engine=engine.name).select_related("pool").order_by("pk")
    moved: list[Server] = []
    for server in of_engine.filter(name__in=due.lost).exclude(state=ServerState.LOST) if due.lost else ():
        lost = server_lose(server=server, by=actor, reason=_why("down", states[server.name], at), at=at)
        moved += _moved(server, lost)
    in_service = of_engine.filter(name__in=due.draining, state=ServerState.IN_SERVICE) if due.draining else ()
    for server in in_service:
        drained = server_drain(server=server, by=actor, reason=_why("drained", states[server.name], at), at=at)
        moved += _moved(server, drained)
    may_return = Q(state=ServerState.DRAINING) | Q(state=ServerState.LOST, pool__servers_return=True)
    for server in of_engine.filter(may_return, name__in=due.back) if due.back else ():
        action = "server_lose" if server.state == ServerState.LOST else "server_drain"
        last = AuditEntry.objects.filter(action=action, subject=server_subject(server)).latest("sequence")
        if last.actor_id is None and last.actor_name == actor.actor_name:
            returned = server_return(server=server, by=actor, reason=_why("up", states[server.name], at), at=at)
            moved += _moved(server, returned)
    return moved


@transaction.atomic
def servers_return_set(*, pool: Pool, returns: bool, by: Access, reason: str, at: datetime) -> Refused | None:
    """Set whether servers that the pool's engine lost return to service by themselves, or wait for an operator."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    pool_lock(pool)
    pool.refresh_from_db(fields=["servers_return"])
    if pool.servers_return == returns:
        return None
    before, pool.servers_return = pool.servers_return, returns
    pool.save(update_fields=["servers_return"])
    history.append(
        at=at,
        by=by,
        action="servers_return_set",
        subject=f"pool {pool.slug}",
        reason=reason,
        before={"servers_return": before},
        after={"servers_return": returns},
    )
    return None


def servers_due(states: Mapping[str, ServerHealth], grace: float, now: float) -> Due:
    """Return the due servers by the engine's report; servers that are unknown are never due."""
    long = {name: state.state for name, state in states.items() if now - state.since > grace}
    return Due(
        frozenset(name for name, state in long.items() if state == DOWN),
        frozenset(name for name, state in long.items() if state == DRAINING),
        frozenset(name for name, state in long.items() if state == UP),
    )


def _why(word: str, state: ServerHealth, at: datetime) -> str:
    seconds = int(at.timestamp() - state.since)
    detail = f": {state.reason[:200]}" if state.reason else ""
    return f"The cluster says that it has been {word} for {seconds} s{detail}"


def _moved(server: Server, outcome: object) -> list[Server]:
    if isinstance(outcome, Refused):  # an operator was faster
        log.warning("server %s stays as it is: %s", server.name, outcome.sentence)
        return []
    return [server]
