"""The health of a cluster's servers, as Slurm says and our launchers show."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from scheduling.engines.base import DOWN, DRAINING, UNKNOWN, UP, ServerHealth
from scheduling.engines.slurm.commands import Commands, sinfo

SERVERS_SECONDS = 5.0


class ServerStates:
    """The servers of the partition. `clock` returns the time of slots; `silence_of` says for how many seconds no
    launcher on a server was heard of."""

    def __init__(self, commands: Commands, clock: Callable[[], float], silence_of: Callable[[str], float]) -> None:
        self._commands, self._clock, self._silence_of = commands, clock, silence_of
        self._states: dict[str, ServerHealth] = {}
        self._addresses: dict[str, str] = {}
        self.looked_at = 0.0  # by our own clock

    def now(self) -> dict[str, ServerHealth]:
        """Return the health of each server. Slurm is asked at most every five seconds; where it does not answer, all
        are unknown."""
        if time.monotonic() - self.looked_at > SERVERS_SECONDS:
            self.looked_at = time.monotonic()
            self._look()
        return dict(self._states)

    def address_of(self, server: str) -> str:
        return self._addresses.get(server, server)

    def _look(self) -> None:
        answer, rows = sinfo(self._commands)
        now = self._clock()
        states = {name: _server_state(state, reason, now) for name, state, _, reason in rows}
        partition = self._commands.settings.partition
        missing = ServerHealth(UNKNOWN, now, f"the partition {partition} does not list it any more")
        states |= dict.fromkeys(self._states.keys() - states.keys(), missing)
        if not answer.is_good:
            states = {name: ServerHealth(UNKNOWN, now, answer.sentence) for name in self._states}
        for name, state in states.items():
            before = self._states.get(name)
            since = before.since if before and before.state == state.state else now
            if state.state == DOWN:
                since = max(since, now - self._silence_of(name))
            self._states[name] = replace(state, since=since)
        self._addresses |= {name: address for name, _, address, _ in rows}


def _server_state(state: str, reason: str, now: float) -> ServerHealth:
    """Return the health that Slurm's word for a server's state stands for; Slurm has many such words."""
    word = state.rstrip("*~#!%$@^-+").lower()
    words = "" if reason == "none" else reason
    if state.endswith("*"):
        return ServerHealth(DOWN, now, words or "it does not answer")
    if word in ("idle", "mixed", "allocated", "completing", "reserved", "planned"):
        return ServerHealth(UP, now, words)
    if word in ("draining", "drained", "drain"):
        return ServerHealth(DRAINING, now, words or word)
    if word in ("unknown", "maint"):  # a reservation for maintenance may be the one in which we run
        return ServerHealth(UNKNOWN, now, words or word)
    return ServerHealth(DOWN, now, words or word)
