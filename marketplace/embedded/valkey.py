"""Starting and recovering the embedded Valkey. It holds messages and rate limits, no money, so nothing goes to disk."""

import contextlib
import socket
from pathlib import Path

import psutil

from marketplace import children
from marketplace.children import Child
from marketplace.embedded.postgres import ENVIRONMENT
from marketplace.embedded.programs import SystemAccount
from marketplace.embedded.state import State

VALKEY = "Valkey"


def start(state: State, program: Path, account: SystemAccount | None, *, log: Path) -> Child:
    place = state.sockets / "valkey"
    stop_orphan(place)
    command: list[str | Path] = [program, "--port", "0", "--unixsocket", place, "--unixsocketperm", "700"]
    # A full broker must refuse loudly; evicting would lose tasks in silence.
    command += ["--save", "", "--appendonly", "no", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction"]
    command += ["--dir", state.sockets]
    return children.start(VALKEY, command, log=log, environment=ENVIRONMENT, account=account)


def is_ready(state: State) -> bool:
    return _ask(state.sockets / "valkey", "PING") == b"+PONG"


def stop_orphan(place: Path) -> None:
    """One that outlived its parent. It is not asked: it may be stopped, and when it goes on to its end it would remove
    the socket of its successor."""
    orphans = [process for process in psutil.process_iter() if _listens_at(process, place)]
    for process in orphans:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(orphans, timeout=10)


def _listens_at(process: psutil.Process, place: Path) -> bool:
    """It writes that into its title."""
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return "valkey-server" in command and str(place) in command


def _ask(place: Path, question: str) -> bytes | None:
    """None: nobody answers. By hand, because the client library tries again for seconds before it says so."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        try:
            connection.connect(str(place))
            connection.sendall(question.encode() + b"\r\n")
            return connection.recv(200).strip() or None
        except OSError:
            return None
