"""Count what an engine's process does, for `/metrics`: it gets the result of every tick and every command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from scheduling.engines.base import BY_OPERATOR, CLOCK, GUARD_KILLED, NOT_ALL_CAME, NOT_HEARD, Report
from scheduling.models import RunState
from scheduling.runs.runs import Ticked

LATE = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
TOOK = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
OTHER = "gang"  # any other sentence of its own launcher: a member cannot be started, a machine is out of memory
# By cause, the text that the sentence about a loss contains; the first that fits counts.
CAUSES: Mapping[str, str] = {
    "incomplete": NOT_ALL_CAME,
    "silent": NOT_HEARD,
    "launcher": GUARD_KILLED,
    "operator": BY_OPERATOR,
    "clock": CLOCK,
    "refused": " refused ",
    "server": "server ",
}


class EngineFigures:
    """The figures of one engine, from its start on."""

    def __init__(self, engine: str) -> None:
        self.engine, self.registry = engine, CollectorRegistry()
        named: dict[str, Any] = {"registry": self.registry, "namespace": "bourse"}
        self.late = Histogram(
            "run_late_seconds", "Seconds from the moment when a run could begin to its start.", ["engine"],
            buckets=LATE, **named,
        )  # fmt: skip
        self.ends = Counter("runs_ended", "Runs that ended, by how.", ["engine", "state"], **named)
        self.losses = Counter("run_losses", "Runs that were lost, by cause.", ["engine", "cause"], **named)
        self.commands = Histogram(
            "engine_command_seconds", "Seconds of a command to the engine's cluster.", ["engine", "command"],
            buckets=TOOK, **named,
        )  # fmt: skip
        self.late.labels(engine)
        for cause in (*CAUSES, OTHER):  # from 0 on: a monitor sees no rise in a figure that begins with what was lost
            self.losses.labels(engine, cause)

    def count(self, ticked: Ticked, report: Report) -> None:
        for seconds in ticked.late:
            self.late.labels(self.engine).observe(seconds)
        for state, detail in ticked.ends:
            self.ends.labels(self.engine, state).inc()
            if state == RunState.LOST:
                self.losses.labels(self.engine, cause_of(detail)).inc()
        for command, seconds in report.commands:
            self.commands.labels(self.engine, command).observe(seconds)

    def text(self) -> str:
        return generate_latest(self.registry).decode()


def cause_of(detail: str) -> str:
    """Return one of a few words for the cause of a loss, from an engine's sentence about it."""
    return next((cause for cause, words in CAUSES.items() if words in detail), OTHER)
