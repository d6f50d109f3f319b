"""Running a scenario: its policies are built and timed, its jobs decided, and every tenant's world is run without the
others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar

from scheduling.core import metrics, results
from scheduling.core.policies import POLICIES, build
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.scenario.fields import quoted, suggestion
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import BATCH, INSTANT, Plan, Policy, View
from scheduling.lab.weights import with_weights

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ScenarioRun:
    """A scenario run to its end. `alone` (tenants,) has None where no cells say what alone would mean."""

    scenario: Scenario
    policies: Mapping[str, Policy]
    outcome: Outcome
    alone: Sequence[float | None]
    alone_outcomes: Sequence[Outcome]  # (tenants,) where each tenant's world had to be run
    seconds: Mapping[str, float]  # of the run itself, without the tenants' own worlds

    def document(self) -> dict[str, Any]:
        """Return the result file."""
        return results.document(self.scenario, self.policies, self.outcome, self.alone, self.seconds)


class Timed:
    """A policy, and the time it took to decide. It takes the policy's place in the loop; the loop sees no clock."""

    name: ClassVar[str] = "timed"

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.seconds = 0.0

    def decide(self, view: View) -> Plan:
        began = perf_counter()
        plan = self.policy.decide(view)
        self.seconds += perf_counter() - began
        return plan


def run(scenario: Scenario, on_slot: Progress | None = None) -> ScenarioRun:
    """Decide every job of the scenario under its own policies. Raises `BadScenario` for settings nobody can use."""
    began = perf_counter()
    policies = policies_build(scenario)
    timed = {lane: Timed(policy) for lane, policy in policies.items()}
    outcome = simulate(scenario, dict(timed), on_slot)
    seconds = {"total": perf_counter() - began, "deciding": sum(policy.seconds for policy in timed.values())}
    alone, outcomes = _alone(scenario, policies, outcome)
    return ScenarioRun(scenario, policies, outcome, alone, outcomes, seconds)


def policies_build(scenario: Scenario) -> dict[str, Policy]:
    """Return the policy of each lane; a single one takes the jobs of every lane."""
    policies = {BATCH: _build(scenario, scenario.policy, "policy")}
    if scenario.instant is not None:
        policies[INSTANT] = _build(scenario, scenario.instant, "instant")
    return policies


def _build(scenario: Scenario, settings: Mapping[str, Any], section: str) -> Policy:
    check_name(settings["name"], f"{section}.name")
    try:
        return build(with_weights(settings), scenario.cluster, scenario.jobs)
    except BadScenario as error:  # builders call their section "policy"
        place = section + error.place.removeprefix("policy") if error.place.startswith("policy") else error.place
        raise BadScenario(place, error.message) from None


def check_name(name: object, place: str) -> None:
    """Refuse a name that no policy has."""
    if name not in POLICIES:
        near = suggestion(str(name), POLICIES)
        raise BadScenario(place, f"unknown policy {quoted(name)}{near}; there are {', '.join(sorted(POLICIES))}")


def _alone(
    scenario: Scenario, policies: Mapping[str, Policy], outcome: Outcome
) -> tuple[Sequence[float | None], Sequence[Outcome]]:
    """Return what each tenant would have gained alone: by its floors, or else by a run of its own cells under the same
    policies."""
    tenants = range(len(scenario.cluster.tenants))
    if (floors := metrics.alone_gains(scenario, outcome)) is not None:
        return floors.tolist(), ()
    if scenario.cluster.cells is None:
        return [None for _ in tenants], ()
    outcomes = [_home_run(metrics.alone_scenario(scenario, tenant), policies) for tenant in tenants]
    gains = [float(metrics.gains(scenario, outcome)[tenant]) for tenant, outcome in zip(tenants, outcomes, strict=True)]
    return gains, outcomes


def _home_run(home: Scenario, policies: Mapping[str, Policy]) -> Outcome:
    """Run one tenant's own world. Without cells nothing can happen in it."""
    return simulate(home, policies) if home.cluster.servers else Outcome((), (), 0)
