"""The whole product on one machine, as children of one process: what `manage.py up` runs."""

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from marketplace import children, env
from marketplace.children import Child, ChildFailed
from marketplace.embedded import Servers, State
from marketplace.restarts import Keeper, Place

HOST = "127.0.0.1"
SERVE = ("web", "worker")  # processes that share what they measure; the engine tells its own figures
PATIENCE_SECONDS = 5.0  # a little longer than web processes take to end


class PortTaken(Exception):
    """Another program listens there."""


@dataclass(frozen=True)
class Places:
    base: Path
    logs: Path
    state: State

    @property
    def measured(self) -> Path:
        """Where the processes that serve keep what they measure of their work, for `/metrics`."""
        return self.logs.parent / "measured"


def require_free(port: int, patience: float = PATIENCE_SECONDS) -> None:
    """Waits for so many seconds: the web processes of a run that was killed answer what they have begun, and end."""
    deadline = time.monotonic() + patience
    while True:
        with socket.socket() as probe:
            # As the web server will bind it: a port that a stopped run has just left is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                return probe.bind((HOST, port))
            except OSError:
                if time.monotonic() > deadline:
                    sentence = f"Port {port} is taken by another program. Choose another: make run PORT={port + 1}"
                    raise PortTaken(sentence) from None
        time.sleep(0.1)


@contextlib.contextmanager
def running(
    places: Places,
    *,
    port: int,
    prepare: Callable[[], None],
    sweep: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[Keeper]:
    """Servers, `prepare`, then engine, worker, beat, web. Yields when the pages answer; stops all in reverse order.

    Until then an end of one of them is an error: what has never run is wrongly set up. From then on `Keeper.keep`
    starts them again. `sweep`: after the engine has ended, however it ended, nobody whom it started is left.
    """
    keeper = Keeper(tell)
    with contextlib.ExitStack() as stack:
        servers = Servers(
            places.state,
            with_database=os.environ["DATABASE_URL"] == places.state.database_url,
            with_redis=os.environ["REDIS_URL"] == places.state.redis_url,
            logs=places.logs,
            tell=tell,
        )
        stack.callback(_ignore_further_signals)
        stack.enter_context(servers)
        stack.callback(_ignore_further_signals)
        for child in servers.running:
            again, answers = partial(servers.start_again, child.name), partial(servers.answers, child.name)
            keeper.places.append(Place(child, again, answers))
        prepare()
        stack.callback(sweep)
        _empty(places.measured)
        commands = _commands(port)
        tell(f"Starting {', '.join(name for name, _ in commands)} ...")
        for name, command in commands:
            start = partial(_start, name, command, places)
            keeper.places.append(Place(start(), start))
            stack.callback(keeper.places[-1].stop)
        last = keeper.places[-1].child
        children.wait_until(lambda: _answers(port) or keeper.first_ended(), last, patience=180.0)
        if (ended := keeper.first_ended()) is not None:
            raise ChildFailed(children.describe_end(ended))
        yield keeper


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


def _start(name: str, command: list[str], places: Places) -> Child:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(places.base)}
    environment.pop("DATABASE_OWNER_URL", None)  # children serve; only their parent migrates
    if name.startswith(SERVE):
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(places.measured)
    command = [sys.executable, "-m", *command]
    return children.start(name, command, log=places.logs / f"{name}.log", environment=environment)


def _empty(folder: Path) -> None:
    """Numbers of processes that are gone: a monitor takes them for a start from zero, as it is."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)  # programs of tenants run on this machine too


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
