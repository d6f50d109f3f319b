"""The worlds in which networks are trained and judged: how a drawn scenario is changed, and how fast its jobs train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.types import Policy
from scheduling.lab.reproduction.measured import FITS, as_measured, uncapped
from scheduling.lab.reproduction.other_speeds import SPEEDS, AtAnotherSpeed, OfOneRound, Speed

ONE, MEASURED = "one", "measured"
TIMES = 2.0  # how many times the workers that the workload gives a job, as in dl2-9b


@dataclass(frozen=True)
class World:
    """A world with its jobs' speed. `speed` is None for the one speed that all policies share (0060)."""

    name: str
    speed: Speed | None = None

    def changed(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it is in this world."""
        if self.speed is None:
            return scenario
        if unknown := sorted({job.samples.model for job in scenario.jobs} - set(FITS)):
            raise BadScenario("--speed", f"nobody measured jobs of the model {unknown[0] or 'that has no name'}")
        scenario, settings = uncapped(scenario, scenario.policy, TIMES)
        scenario, _ = as_measured(scenario, settings, 1.0)
        return scenario

    def around(self, policy: Policy) -> Policy:
        """Return the policy, with what its plans really achieve."""
        return policy if self.speed is None else AtAnotherSpeed(policy, self.speed)

    def round(self) -> OfOneRound | None:
        """Return the speeds of one round from which a network learns."""
        return None if self.speed is None else OfOneRound(self.speed)


WORLDS: Mapping[str, World] = {ONE: World(ONE), MEASURED: World(MEASURED, SPEEDS[MEASURED])}
