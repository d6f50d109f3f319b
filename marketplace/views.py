"""Two plain answers for whoever watches the process: is it alive, and can it work?"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from django.contrib.auth.decorators import login_not_required
from django.core.cache import cache
from django.db import Error as DatabaseError
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

from marketplace.heartbeat import HEARTBEAT_KEY
from marketplace.version import VERSION

ASK_SECONDS = 2.0  # for which an answer is waited for; whoever watches gives up after a few
_asking = {name: ThreadPoolExecutor(1, thread_name_prefix=f"ask {name}") for name in ("database", "broker")}


@login_not_required
@require_safe
@never_cache
def live(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"ok\nversion: {VERSION}\n", content_type="text/plain")


@login_not_required
@require_safe
@never_cache
def ready(request: HttpRequest) -> HttpResponse:
    """Plain lines for whoever watches, and a page for a person who followed the link at the foot of every page."""
    states = states_now()
    if "text/html" in request.headers.get("Accept", ""):
        # Without the request: what a page asks about its reader would need the database.
        page = render_to_string(
            "health.html", {"states": states, "is_well": all(each == "ok" for each in states.values())}
        )
        return HttpResponse(page, status=200 if is_healthy(states) else 503)
    lines = "".join(f"{name}: {state}\n" for name, state in states.items())
    return HttpResponse(lines, status=200 if is_healthy(states) else 503, content_type="text/plain")


def states_now() -> dict[str, str]:
    states = {"database": _state_of("database", ask_database), "broker": _state_of("broker", ask_broker)}
    beats = states["broker"] == "ok" and cache.get(HEARTBEAT_KEY)
    return states | {"worker": "ok" if beats else "no sign of life"}


def is_healthy(states: Mapping[str, str]) -> bool:
    """The worker says nothing about the pages, so it changes no status."""
    return states["database"] == states["broker"] == "ok"


def _state_of(name: str, ask: Callable[[], object]) -> str:
    """Asked in a thread that does nothing else: a connection may be waited for, or an answer, for longer than we do."""
    answer = _asking[name].submit(_ask_and_let_go, ask)
    try:
        answer.result(ASK_SECONDS)
    except (DatabaseError, RedisError, TimeoutError):
        answer.cancel()  # where it has not begun, as the one before it still waits
        # The reason may name hosts and users, and this page is open to everyone.
        return "does not answer"
    return "ok"


def _ask_and_let_go(ask: Callable[[], object]) -> None:
    try:
        ask()
    finally:
        connections.close_all()  # or back into the pool


def ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def ask_broker() -> None:
    cache.get("ready")
