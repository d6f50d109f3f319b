"""Two plain answers for monitors of the process: is it alive, and can it work?"""

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

ASK_SECONDS = 2.0  # the longest wait for an answer; monitors give up after a few seconds
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
    """Answer with plain lines for monitors, and with a page for a person who followed the link at the foot
    of a page."""
    states = states_now()
    if "text/html" in request.headers.get("Accept", ""):
        # It is rendered without the request, because reading about the reader would need the database.
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
    """Return whether the process can work. The worker does not matter for pages, so it changes no status."""
    return states["database"] == states["broker"] == "ok"


def _state_of(name: str, ask: Callable[[], object]) -> str:
    """Ask in a thread that does nothing else: a connection or an answer may take longer than we wait."""
    answer = _asking[name].submit(_ask_and_let_go, ask)
    try:
        answer.result(ASK_SECONDS)
    except (DatabaseError, RedisError, TimeoutError):
        answer.cancel()  # it may not have begun, while an earlier one still waits
        # The reason may name hosts and users, and this page is open to everyone.
        return "does not answer"
    return "ok"


def _ask_and_let_go(ask: Callable[[], object]) -> None:
    try:
        ask()
    finally:
        connections.close_all()  # or returns it to the pool


def ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def ask_broker() -> None:
    cache.get("ready")
