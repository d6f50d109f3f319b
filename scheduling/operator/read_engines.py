"""The state of the engines, as they last reported it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count

from scheduling.engines.base import Accounted
from scheduling.models import ALIVE, Award, EnginePulse, Lane, LaneClock, Pool, Run
from scheduling.models.runs import OPEN
from scheduling.runs import Ran, charged_against_ran
from tenants.scoping import scope_disabled

SILENT = timedelta(seconds=30)  # without a sign of life; an engine gives one every few seconds


@dataclass(frozen=True)
class ServerWord:
    """What an engine reports of one server."""

    state: str
    since: datetime
    reason: str


@dataclass(frozen=True)
class EngineState:
    """The state of one engine. `alive_at` is None if it has never worked. `alerts` are sentences about what is wrong
    with its cluster."""

    name: str
    alive_at: datetime | None
    is_silent: bool
    servers: Mapping[str, ServerWord]
    alerts: tuple[str, ...]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Return the number of servers in each state that occurs."""
        states = [word.state for word in self.servers.values()]
        return [(state, states.count(state)) for state in sorted(set(states))]


def engine_states(at: datetime) -> list[EngineState]:
    """Return the states of all engines that pools name or that have worked."""
    rows = {row.name: row for row in EnginePulse.objects.defer("figures")}
    names = sorted({*rows, *Pool.objects.values_list("engine", flat=True)})
    return [_state(name, rows.get(name), at) for name in names]


def engine_state(name: str, at: datetime) -> EngineState:
    return _state(name, EnginePulse.objects.defer("figures").filter(name=name).first(), at)


def engines_needed() -> set[str]:
    """Return the names of engines that have something to do, now or at the next interval. Pools are kept for good: one
    that drains needs its engine for what was sold, and none once it has come to rest."""
    draining = LaneClock.objects.filter(lane=Lane.BATCH, draining=True).values("pool")
    with scope_disabled("an engine runs what was awarded to all tenants"):
        sold = set(Award.objects.filter(state__in=ALIVE).order_by().values_list("pool__engine", flat=True).distinct())
    return sold | set(Pool.objects.exclude(pk__in=draining).values_list("engine", flat=True))


def runs_open() -> dict[tuple[str, str], int]:
    """Return the number of open runs by engine and state."""
    with scope_disabled("a monitor counts gangs of all tenants"):
        rows = Run.objects.filter(state__in=OPEN).order_by().values_list("engine", "state").annotate(Count("pk"))
        return {(engine, state): number for engine, state, number in rows}


def ran_of_all(pool: Pool, first: int, last: int, parts: Sequence[Accounted] | str) -> list[Ran]:
    """Return what was charged against what ran, for all tenants."""
    with scope_disabled("the staff compares what was charged of all tenants"):
        return list(charged_against_ran(pool, first, last, parts))


def engine_figures() -> list[str]:
    """Return what each engine counts, in the text format of Prometheus."""
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
