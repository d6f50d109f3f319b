"""Ports of this machine that nobody listens at, for servers that a test starts."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Return so many different ports. They are free again, so a server may take them."""
    with ExitStack() as probes:
        servers = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


def free_port() -> int:
    return free_ports(1)[0]
