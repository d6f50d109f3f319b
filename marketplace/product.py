"""The whole product on one machine, as children of one process: what `manage.py up` runs."""

import contextlib
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from marketplace import children, env
from marketplace.children import Child, ChildFailed
from marketplace.embedded import Servers, State

HOST = "127.0.0.1"


class PortTaken(Exception):
    """Another program listens there."""


@dataclass(frozen=True)
class Places:
    base: Path
    logs: Path
    state: State


def require_free(port: int) -> None:
    with socket.socket() as probe:
        # As the web server will bind it: a port that a stopped run has just left is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise PortTaken(
                f"Port {port} is taken by another program. Choose another: make run PORT={port + 1}"
            ) from None


@contextlib.contextmanager
def running(
    places: Places, *, port: int, prepare: Callable[[], None], sweep: Callable[[], None]
) -> Iterator[list[Child]]:
    """Servers, `prepare`, then engine, worker, beat, web. Yields when the pages answer; stops all in reverse order.

    `sweep`: after the engine has ended, however it ended, nobody whom it started is left.
    """
    with contextlib.ExitStack() as stack:
        servers = Servers(
            places.state,
            with_database=os.environ["DATABASE_URL"] == places.state.database_url,
            with_redis=os.environ["REDIS_URL"] == places.state.redis_url,
            logs=places.logs,
        )
        stack.callback(_ignore_further_signals)
        stack.enter_context(servers)
        stack.callback(_ignore_further_signals)
        prepare()
        stack.callback(sweep)
        started = [_start(name, command, places, stack) for name, command in _commands(port)]
        children.wait_until(lambda: _answers(port) or _first_ended(started), started[-1], patience=90.0)
        _raise_for_ended(started)
        yield [*servers.running, *started]


def wait_for_an_end(started: list[Child]) -> NoReturn:
    """Sleeps until one of our children ends; nothing here should, so that is a failure."""
    while True:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        _raise_for_ended(started)


def stop_on_signals() -> None:
    """Ctrl-C, `kill` and a closed terminal all end in the same orderly stop."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def _ignore_further_signals() -> None:
    """An impatient second Ctrl-C must not interrupt the stop half way."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _commands(port: int) -> list[tuple[str, list[str]]]:
    """In the order of starting; the last ones are the web processes."""
    celery = ["celery", "--app", "marketplace.celery", "--quiet"]
    worker = ["worker", "--concurrency", "2", "--loglevel", "WARNING", "--without-mingle", "--without-gossip"]
    # The schedule is in the code and starts afresh: a file of last runs could only be stale or torn.
    beat = ["beat", "--scheduler", "celery.beat:Scheduler", "--loglevel", "WARNING", "--pidfile="]
    web = ["marketplace.web", HOST, str(port)]
    engine = ["django", "engine", "--settings", "marketplace.settings"]
    # The engine first: gangs of a run before are its own again before the clock asks for them.
    webs = [("web" if number == 1 else f"web-{number}", web) for number in range(1, web_processes() + 1)]
    return [("engine", engine), ("worker", [*celery, *worker]), ("beat", [*celery, *beat]), *webs]


def web_processes() -> int:
    """Python computes on one core in each: a second one where there is a second core."""
    return env.integer("WEB_PROCESSES", min(2, os.cpu_count() or 1), least=1, most=64)


def _start(name: str, command: list[str], places: Places, stack: contextlib.ExitStack) -> Child:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(places.base)}
    child = children.start(
        name, [sys.executable, "-m", *command], log=places.logs / f"{name}.log", environment=environment
    )
    stack.callback(children.stop, child)
    return child


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _first_ended(started: list[Child]) -> Child | None:
    return next((child for child in started if child.ended), None)


def _raise_for_ended(started: list[Child]) -> None:
    if (child := _first_ended(started)) is not None:
        raise ChildFailed(children.describe_end(child))
