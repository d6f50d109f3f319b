"""What waits for an operator's decision, the most urgent first. Each is decided on its own page, with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.fairness import MEASURES
from scheduling.feed import EventKind
from scheduling.models import Event, FairnessAlert, ServerState
from scheduling.operator import EngineState
from scheduling.overview.read_overview import LATE, PoolUseNow, ServerTrouble
from tenants.ledger.amounts import rounded
from tenants.ledger.postings import available
from tenants.ledger.selectors import balances
from tenants.models import Invitation, Tenant
from tenants.scoping import scope_disabled
from tenants.selectors import invitations_of_owners
from tenants.templatetags.look import figure, lasting

MOST = 12  # decisions that are shown; of more, only the number
ALIKE, NAMED = 4, 3  # servers that share one sentence from this number on, and those that it names
LATELY = timedelta(days=1)
MOST_NOTICES, MOST_INVITED = 200, 50


@dataclass(frozen=True)
class Decision:
    """One decision. It is made at `page` with `arguments` and `query`. `due` is the moment from which on waiting costs
    something, even if it is past, or None if there is none. `is_urgent` means that something does not work."""

    title: str
    text: str
    button: str
    page: str
    arguments: tuple[str | int, ...] = ()
    query: str = ""
    due: datetime | None = None
    is_urgent: bool = False


def decisions(
    *,
    at: datetime,
    pools: Sequence[PoolUseNow],
    servers: Sequence[ServerTrouble],
    engines: Sequence[EngineState],
    tenants: Mapping[int, Tenant],
    difference: int,
) -> list[Decision]:
    wanted = [
        *_of_book(difference),
        *(decision for use in pools for decision in _of_clock(use)),
        *(decision for engine in engines for decision in _of_engine(engine)),
        *_of_servers(servers),
        *_of_balances(at, tenants),
        *_of_fairness(),
        *(_of_invitation(row) for row in invitations_of_owners(MOST_INVITED) if row.expires_at <= at),
    ]
    return sorted(wanted, key=lambda decision: (not decision.is_urgent, decision.due is None, decision.due or at))


def _of_book(difference: int) -> list[Decision]:
    if not difference:
        return []
    text = "The sum of all balances is not 0. Nothing else should be changed before the book is verified."
    return [Decision("The book does not add up", text, "Verify", "operator_health", is_urgent=True)]


def _of_clock(use: PoolUseNow) -> list[Decision]:
    state = use.state
    if state.held or state.draining:
        word = "is draining: nothing new is accepted" if state.draining else "is on hold: nothing new is decided"
        text = "What was awarded goes on. Resume the pool when its market should decide again."
        return [Decision(f"{state.pool.name} {word}", text, "Decide", "operator_pool", (state.pool.slug,))]
    if state.late_seconds <= LATE.total_seconds():
        return []
    text = f"{rounded(state.behind, 0)} decisions wait. Look whether the worker and the clock are at work."
    title = f"The clock of {state.pool.name} is {lasting(state.late_seconds)} late"
    return [Decision(title, text, "Look", "operator_health", is_urgent=True)]


def _of_engine(engine: EngineState) -> list[Decision]:
    health = "operator_health"
    if engine.alive_at is not None and engine.is_silent:
        text = "It starts and stops nothing while it is silent. Look at its process and start it again."
        return [Decision(f"The engine {engine.name} gives no sign of life", text, "Look", health, is_urgent=True)]
    return [Decision(f"The engine {engine.name} asks for help", alert, "Look", health) for alert in engine.alerts]


def _of_servers(servers: Sequence[ServerTrouble]) -> list[Decision]:
    """Return one decision for each server. `ALIKE` or more servers of a pool in the same state get one together, so
    that they do not push out other decisions."""
    alike: dict[tuple[str, str], list[ServerTrouble]] = {}
    for server in servers:
        if word := "lost" if server.state == ServerState.LOST else server.word:
            alike.setdefault((server.pool_slug, word), []).append(server)
    wanted = []
    for (_, word), group in alike.items():
        wanted += [_of_group(word, group)] if len(group) >= ALIKE else [_of_server(word, server) for server in group]
    return wanted


def _of_server(word: str, server: ServerTrouble) -> Decision:
    title, place = f"{server.name} in {server.pool} is {word}", ("operator_server", (server.id,))
    if server.state == ServerState.LOST:
        text = "Nothing is sold on it. Return it to service when it is up again."
        return Decision(title, text, "Decide", *place)
    why = f" It says: {server.why}." if server.why else ""
    text = f"Declaring it lost refunds what it does not deliver, and lets its jobs run elsewhere.{why}"
    return Decision(title, text, "Decide", *place, due=server.since, is_urgent=True)


def _of_group(word: str, group: Sequence[ServerTrouble]) -> Decision:
    first, query = group[0], f"?pool={group[0].pool_slug}"
    title = f"{len(group)} servers in {first.pool} are {word}"
    names = f"{', '.join(server.name for server in group[:NAMED])} and {len(group) - NAMED} more."
    if first.state == ServerState.LOST:
        text = f"Nothing is sold on {names} Return each to service when it is up again."
        return Decision(title, text, "Decide", "operator_servers", query=f"{query}&state={first.state}")
    text = f"{names} Declaring them lost refunds what they do not deliver, and lets their jobs run elsewhere."
    since = min((server.since for server in group if server.since), default=None)
    return Decision(title, text, "Decide", "operator_servers", query=query, due=since, is_urgent=True)


def _of_balances(at: datetime, tenants: Mapping[int, Tenant]) -> list[Decision]:
    """Return the latest warning of each tenant, as long as its predicted moment is still to come, and the tenant has
    not got enough since."""
    with scope_disabled("the staff sees whose credits run out"):
        rows = Event.objects.filter(kind=EventKind.LOW_BALANCE, tenant__in=list(tenants), at__gt=at - LATELY)
        rows = rows.select_related("pool").order_by("tenant_id", "-id").distinct("tenant_id")
        notices = [notice for notice in rows[:MOST_NOTICES] if datetime.fromisoformat(notice.data["until"]) > at]
        funds = balances(accounts=[available(notice.tenant_id or 0) for notice in notices]) if notices else {}
    wanted = []
    for notice in notices:
        tenant, until = tenants.get(notice.tenant_id or 0), datetime.fromisoformat(notice.data["until"])
        if tenant is None or _has_enough(notice, funds[available(tenant.pk)]):
            continue
        text = (
            "At the pace of its last slots its credits end then. What it has booked goes on; new jobs may be refused."
        )
        title, query = f"{tenant.name} runs out of credits", f"?tenant={tenant.slug}"
        wanted.append(Decision(title, text, "Decide", "operator_credits", query=query, due=until))
    return wanted


def _has_enough(notice: Event, funds: int) -> bool:
    """Return whether these credits would last so long, at the pace of the warning, that nobody would be warned now. An
    older version did not write the pace."""
    pace, pool = notice.data.get("per_slot"), notice.pool
    return bool(pool and pace and funds // pace >= pool.clock_cap)


def _of_fairness() -> list[Decision]:
    rows = FairnessAlert.objects.exclude(passed_at=None).select_related("pool").order_by("pool__slug", "measure")
    return [
        Decision(
            f"A limit of fairness is passed in {row.pool.name}",
            f"{MEASURES[row.measure].title} stands at {figure(row.value)}; the limit is {figure(row.threshold)}.",
            "Look",
            "fairness_alerts",
            (row.pool.slug,),
            due=row.passed_at,
        )
        for row in rows
        if row.value is not None and row.measure in MEASURES
    ]


def _of_invitation(row: Invitation) -> Decision:
    text = f"{row.email} did not come in time, and {row.tenant} may have no owner. Send it again or withdraw it."
    title = f"The invitation of {row.tenant}'s owner has expired"
    return Decision(title, text, "Decide", "tenants", due=row.expires_at)
