"""Give ports of this machine to gangs, so that all members know each other's ports before any of them runs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping

FIRST_PORT, LAST_PORT = 20_000, 32_000  # below those that the kernel gives to callers


class Ports:
    """The ports of gangs that run now."""

    def __init__(self) -> None:
        self._in_use: dict[str, set[int]] = {}  # by key

    def take(self, key: str, counts: Mapping[str, int]) -> dict[str, list[int]]:
        """Take `counts` ports for each role and return them; raises `OSError` where there are not enough."""
        in_use = {port for ports in self._in_use.values() for port in ports}  # also those that the gang itself has
        free = _free(in_use, FIRST_PORT + int(key[:6], 16) % (LAST_PORT - FIRST_PORT))
        try:
            ports_by_role = {role: [next(free) for _ in range(count)] for role, count in counts.items()}
        except StopIteration:
            raise OSError("no port is free") from None
        self.keep(key, ports_by_role)
        return ports_by_role

    def more(self, key: str, has: Mapping[str, list[int]], counts: Mapping[str, int]) -> dict[str, list[int]]:
        """Return the ports that the gang has, and as many more as it needs to have `counts` for each role."""
        missing = {role: max(count - len(has[role]), 0) for role, count in counts.items()}
        if not any(missing.values()):
            return dict(has)
        before = {port for numbers in has.values() for port in numbers}
        added = self.take(key, missing)
        ports = {role: [*has[role], *added.get(role, [])] for role in has}
        self._in_use[key] |= before
        return ports

    def keep(self, key: str, ports: Mapping[str, list[int]]) -> None:
        """Note that a gang has these ports."""
        self._in_use[key] = {port for numbers in ports.values() for port in numbers}

    def forget(self, key: str) -> None:
        """Free the ports of a gang that has ended."""
        self._in_use.pop(key, None)


def _free(in_use: set[int], first: int) -> Iterator[int]:
    for number in range(LAST_PORT - FIRST_PORT):
        port = FIRST_PORT + (first - FIRST_PORT + number) % (LAST_PORT - FIRST_PORT)
        if port in in_use:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            yield port
