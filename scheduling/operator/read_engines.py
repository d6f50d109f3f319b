"""How the engines do, as they last said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count

from scheduling.engines.base import Accounted
from scheduling.models import EnginePulse, Pool, Run
from scheduling.models.runs import OPEN
from scheduling.runs import Ran, charged_against_ran
from tenants.scoping import scope_disabled

SILENT = timedelta(seconds=30)  # without a sign of life; it gives one every few seconds


@dataclass(frozen=True)
class ServerWord:
    """What an engine says of one server."""

    state: str
    since: datetime
    reason: str


@dataclass(frozen=True)
class EngineState:
    """`alive_at` None: it has never been at work. `alerts`: what is wrong with its cluster, as sentences."""

    name: str
    alive_at: datetime | None
    is_silent: bool
    servers: Mapping[str, ServerWord]
    alerts: tuple[str, ...]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many servers are in which state, of those states that there are."""
        states = [word.state for word in self.servers.values()]
        return [(state, states.count(state)) for state in sorted(set(states))]


def engine_states(at: datetime) -> list[EngineState]:
    """Of all that pools name or that have been at work."""
    rows = {row.name: row for row in EnginePulse.objects.defer("figures")}
    names = sorted({*rows, *Pool.objects.values_list("engine", flat=True)})
    return [_state(name, rows.get(name), at) for name in names]


def engine_state(name: str, at: datetime) -> EngineState:
    return _state(name, EnginePulse.objects.defer("figures").filter(name=name).first(), at)


def runs_open() -> dict[tuple[str, str], int]:
    """How many gangs there are, by engine and state."""
    with scope_disabled("a monitor counts gangs of all tenants"):
        rows = Run.objects.filter(state__in=OPEN).order_by().values_list("engine", "state").annotate(Count("pk"))
        return {(engine, state): number for engine, state, number in rows}


def ran_of_all(pool: Pool, first: int, last: int, parts: Sequence[Accounted] | str) -> list[Ran]:
    """Charged against ran, of all tenants."""
    with scope_disabled("the staff compares what was charged of all tenants"):
        return list(charged_against_ran(pool, first, last, parts))


def engine_figures() -> list[str]:
    """What each engine counts, in the text format of Prometheus."""
    return list(EnginePulse.objects.values_list("figures", flat=True))


def _state(name: str, row: EnginePulse | None, at: datetime) -> EngineState:
    if row is None:
        return EngineState(name, None, True, {}, ())
    words = {
        server: ServerWord(
            state_words["state"], datetime.fromtimestamp(state_words["since"], UTC), state_words["reason"]
        )
        for server, state_words in row.servers.items()
    }
    return EngineState(name, row.alive_at, at - row.alive_at > SILENT, words, tuple(row.alerts))
