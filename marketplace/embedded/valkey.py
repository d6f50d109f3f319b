"""Starting and recovering the embedded Valkey. It holds messages and rate limits, no money, so nothing goes to disk."""

import socket
import time
from pathlib import Path

from marketplace import children
from marketplace.children import Child
from marketplace.embedded.postgres import ENVIRONMENT
from marketplace.embedded.programs import Account
from marketplace.embedded.state import State


def start(state: State, program: Path, account: Account | None, *, log: Path) -> Child:
    place = state.sockets / "valkey"
    stop_orphan(place)
    command: list[str | Path] = [program, "--port", "0", "--unixsocket", place, "--unixsocketperm", "700"]
    # A full broker must refuse loudly; evicting would lose tasks in silence.
    command += ["--save", "", "--appendonly", "no", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction"]
    command += ["--dir", state.sockets]
    return children.start("Valkey", command, log=log, environment=ENVIRONMENT, account=account)


def is_ready(state: State) -> bool:
    return _ask(state.sockets / "valkey", "PING") == b"+PONG"


def stop_orphan(place: Path) -> None:
    if _ask(place, "PING") is None:
        return
    _ask(place, "SHUTDOWN NOSAVE")
    deadline = time.monotonic() + 10
    while _ask(place, "PING") is not None and time.monotonic() < deadline:
        time.sleep(0.02)


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
