"""Start and recover the embedded Valkey. It holds messages and rate limits but no money, so nothing goes to disk."""

import contextlib
import socket
from pathlib import Path

import psutil

from marketplace.embedded.postgres import ENVIRONMENT
from marketplace.embedded.programs import SystemAccount
from marketplace.embedded.state import State
from marketplace.processes import children
from marketplace.processes.children import Child

VALKEY = "Valkey"


def start(state: State, program: Path, account: SystemAccount | None, *, log: Path) -> Child:
    place = state.sockets / "valkey"
    stop_orphan(place)
    command: list[str | Path] = [program, "--port", "0", "--unixsocket", place, "--unixsocketperm", "700"]
    # A full broker must refuse loudly; eviction would lose tasks silently.
    command += ["--save", "", "--appendonly", "no", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction"]
    command += ["--dir", state.sockets]
    return children.start(VALKEY, command, log=log, environment=ENVIRONMENT, account=account)


def is_ready(state: State) -> bool:
    return _ask(state.sockets / "valkey", "PING") == b"+PONG"


def stop_orphan(place: Path) -> None:
    """Kill a server that outlived its parent. It gets no chance to end by itself: it may be stopped, and when it
    continued, it would remove the socket of its successor."""
    orphans = [process for process in psutil.process_iter() if _listens_at(process, place)]
    for process in orphans:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(orphans, timeout=10)


def _listens_at(process: psutil.Process, place: Path) -> bool:
    """Return whether the process is the server of this socket, which is part of its title."""
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return "valkey-server" in command and str(place) in command


def _ask(place: Path, question: str) -> bytes | None:
    """Send a command and return the answer, or None without one. It uses a plain socket, because the client library
    retries for seconds before it reports that."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        try:
            connection.connect(str(place))
            connection.sendall(question.encode() + b"\r\n")
            return connection.recv(200).strip() or None
        except OSError:
            return None
