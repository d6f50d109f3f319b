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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from marketplace import env
from marketplace.embedded import Servers, State
from marketplace.processes import children
from marketplace.processes.children import Child, ChildFailed
from marketplace.processes.restarts import ChildPlace, Keeper

HOST = "127.0.0.1"
SERVE = ("web", "worker")  # processes that share their measurements; the engine reports its own figures
PATIENCE_SECONDS = 5.0  # a little longer than web processes take to end


class PortTaken(Exception):
    """Another program listens at the port."""


@dataclass(frozen=True)
class ProductPlaces:
    base: Path
    logs: Path
    state: State

    @property
    def measured(self) -> Path:
        """Return the folder in which the serving processes store measurements of their work, for `/metrics`."""
        return self.logs.parent / "measured"


def require_free(port: int, patience: float = PATIENCE_SECONDS) -> None:
    """Wait up to `patience` seconds for the port: the web processes of a killed run first finish their answers."""
    deadline = time.monotonic() + patience
    while True:
        with socket.socket() as probe:
            # This binds as the web server will: a port that a stopped run has just left is free.
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
    places: ProductPlaces,
    *,
    port: int,
    prepare: Callable[[], None],
    sweep: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[Keeper]:
    """Start servers, `prepare`, the web processes, then engine, worker and beat. Yield when all of them work.

    All of them compute while they start, so a first page comes sooner if the others wait for the web. At the end the
    web stops first, so that no request comes for what has stopped, and the servers last.

    Until the yield the end of a child is an error: what has never run is set up wrongly. From then on `Keeper.keep`
    starts children again. `sweep` runs after the engine has ended, however it ended, so that nothing that it started is
    left.
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
            keeper.places.append(ChildPlace(child, again, answers))
        prepare()
        stack.callback(sweep)
        _empty(places.measured)
        commands = _commands(port)
        tell(f"Starting {', '.join(name for name, _ in commands)} ...")
        web = [name for name, _ in commands if name.startswith("web")]
        stack.callback(_stop, keeper, [*reversed(web), *(name for name, _ in reversed(commands) if name not in web)])
        for name, command in commands:
            start = partial(_start, name, command, places)
            keeper.places.append(ChildPlace(start(), start))
            if name == web[-1]:
                _wait_for(keeper, partial(_answers, port, "healthz"))
        _wait_for(keeper, partial(_answers, port, "readyz"))
        yield keeper


def stop_on_signals() -> None:
    """Make Ctrl-C, `kill` and a closed terminal end in the same orderly stop."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def _ignore_further_signals() -> None:
    """Keep an impatient second Ctrl-C from interrupting the stop half way."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _commands(port: int) -> list[tuple[str, list[str]]]:
    """Return the commands in the order of starting; the first ones are the web processes."""
    celery = ["celery", "--app", "marketplace.celery", "--quiet"]
    worker = ["worker", "--concurrency", "2", "--loglevel", "WARNING", "--without-mingle", "--without-gossip"]
    # The schedule is in the code and starts afresh: a file of last runs could only be stale or damaged.
    beat = ["beat", "--scheduler", "celery.beat:Scheduler", "--loglevel", "WARNING", "--pidfile="]
    web = ["marketplace.web", HOST, str(port)]
    engine = ["django", "engine", "--settings", "marketplace.settings"]
    webs = [("web" if number == 1 else f"web-{number}", web) for number in range(1, web_processes() + 1)]
    # The engine starts before the clock, so that it has found the gangs of an earlier run before anything asks for
    # them.
    return [*webs, ("engine", engine), ("worker", [*celery, *worker]), ("beat", [*celery, *beat])]


def web_processes() -> int:
    """Return the number of web processes. Each computes on one core: there is a second one if there is a
    second core."""
    return env.integer("WEB_PROCESSES", min(2, os.cpu_count() or 1), least=1, most=64)


def _start(name: str, command: list[str], places: ProductPlaces) -> Child:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(places.base)}
    environment.pop("DATABASE_OWNER_URL", None)  # children serve; only their parent migrates
    environment["CELERY_SKIP_CHECKS"] = "true"  # their parent has made Django's checks, for which every page is loaded
    if name.startswith(SERVE):
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(places.measured)
    command = [sys.executable, "-m", *command]
    return children.start(name, command, log=places.logs / f"{name}.log", environment=environment)


def _empty(folder: Path) -> None:
    """Remove the numbers of ended processes. A monitor then sees a start from zero, which is right."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)  # programs of tenants run on this machine too


def _wait_for(keeper: Keeper, ready: Callable[[], bool]) -> None:
    """Wait until `ready`. Raise `ChildFailed` if a child ends first."""
    children.wait_until(lambda: ready() or keeper.first_ended(), keeper.places[-1].child, patience=180.0)
    if (ended := keeper.first_ended()) is not None:
        raise ChildFailed(children.describe_end(ended))


def _stop(keeper: Keeper, names: Sequence[str]) -> None:
    """Stop those of the names that were started, one after the other."""
    started = {place.name: place for place in keeper.places}
    for name in names:
        if name in started:
            started[name].stop()


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/{path}", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
