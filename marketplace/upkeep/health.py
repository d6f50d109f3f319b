"""The operator's page of health: does everything work on which the market depends?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db import Error as DatabaseError
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_safe
from redis import Redis
from redis.exceptions import RedisError

from marketplace.celery import app
from marketplace.heartbeat import HEARTBEAT_KEY
from marketplace.upkeep.rights import rights_compare, serving_role
from marketplace.views import ask_broker, ask_database
from scheduling.operator.read_engines import EngineState, engine_states
from scheduling.operator.read_operator import PoolClock, pool_states
from tenants import history, rights_audit
from tenants.access import AccessRequest
from tenants.ledger import audit
from tenants.ledger.seals import LastSeal, last_seal
from tenants.roles import Permission
from tenants.scoping import scope_disabled
from tenants.views.gate import posted_from, requires
from tenants.views.parts import part_or_page

PARTS = {"now": "operator/health_now.html"}
QUEUE = "celery"
# The name of the check follows. Both are in the cache, since they can always be computed or requested again.
VERDICT, REQUEST = "verified:", "verification-asked:"
ASKED_SECONDS = 600  # how long a request for a verification counts as waiting


@dataclass(frozen=True)
class Now:
    """The state now. None means that a part does not answer. `lag_seconds` is how late the latest pool is."""

    at: datetime
    queued: int | None
    lag_seconds: int
    beat: datetime | None
    database_ms: float | None
    broker_ms: float | None
    seal: LastSeal | None
    unsealed: int
    pools: list[PoolClock]
    engines: list[EngineState]


@dataclass(frozen=True)
class HealthCheck:
    name: str
    title: str
    text: str
    at: datetime | None = None
    sound: bool = False
    words: str = ""
    asked_at: datetime | None = None  # a verification has been waiting since then


@require_safe
@requires(Permission.HISTORY_VIEW)
def operator_health(request: AccessRequest) -> HttpResponse:
    context = {
        "now": health_now(timezone.now()),
        "checks": [_check(name) for name in CHECKS],
        "sentences": lambda: rights_compare(serving_role()).sentences,  # only the whole page shows them
    }
    return part_or_page(request, "operator/health.html", PARTS, context)


@posted_from("operator_health")
@requires(Permission.HISTORY_VIEW)
def operator_verify(request: AccessRequest, what: str) -> HttpResponse:
    """Make the worker read everything, which can take longer than a request may. Auditors may, since it changes
    nothing."""
    if what not in CHECKS:
        raise Http404
    cache.set(REQUEST + what, timezone.now(), timeout=ASKED_SECONDS)
    app.send_task("marketplace.tasks.verify", kwargs={"what": what})
    return redirect("operator_health")


def verified(what: str) -> None:
    """Verify and store the findings for the page. The worker calls this."""
    sound, words = CHECKS[what][2]()
    cache.set(VERDICT + what, {"at": timezone.now(), "sound": sound, "words": words}, timeout=None)
    cache.delete(REQUEST + what)


def health_now(at: datetime) -> Now:
    pools = pool_states(at)
    seal, unsealed = last_seal()
    beat = _or_none(lambda: cache.get(HEARTBEAT_KEY))
    return Now(
        at=at,
        queued=_or_none(queued_tasks),
        lag_seconds=max((state.late_seconds for state in pools), default=0),
        beat=datetime.fromtimestamp(beat, UTC) if beat else None,
        database_ms=_milliseconds(ask_database),
        broker_ms=_milliseconds(ask_broker),
        seal=seal,
        unsealed=unsealed,
        pools=pools,
        engines=engine_states(at),
    )


def queued_tasks() -> int:
    with Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as broker:
        return int(broker.llen(QUEUE))


def _milliseconds(ask: Callable[[], object]) -> float | None:
    began = time.perf_counter()
    try:
        ask()
    except (DatabaseError, RedisError):
        return None
    return (time.perf_counter() - began) * 1000


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except RedisError:
        return None


def _check(name: str) -> HealthCheck:
    title, text, _ = CHECKS[name]
    entries = _or_none(lambda: cache.get_many([VERDICT + name, REQUEST + name])) or {}
    return HealthCheck(name, title, text, **entries.get(VERDICT + name, {}), asked_at=entries.get(REQUEST + name))


def _history() -> tuple[bool, str]:
    verdict = history.verify()
    findings = [*(verdict.findings if isinstance(verdict, history.Broken) else ()), *rights_audit.verify()]
    if findings or isinstance(verdict, history.Broken):
        return False, f"{_several(findings)}; the first: {findings[0]}."
    return True, f"{verdict.entries:,} entries, each follows the one before."


def _book() -> tuple[bool, str]:
    with scope_disabled("the audit reads everybody's entries"):
        verdict = audit.verify()
    counted = f"{verdict.transactions:,} transactions, {verdict.sealed:,} of them sealed"
    if verdict.is_clean:
        return True, f"{counted}; every one sums to nothing."
    return False, f"{counted}. {_several(verdict.findings)}; the first: {verdict.findings[0]}."


def _several(findings: Sequence[object]) -> str:
    return f"{len(findings):,} finding{'s' * (len(findings) != 1)}"


CHECKS = {
    "history": (
        "The history",
        "every entry's fingerprint, that each follows the one before, and that people and tokens may do what it says",
        _history,
    ),
    "book": ("The book", "every transaction, balance and seal against its entries", _book),
}
