"""Build Optimus with the settings of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduling.core.estimates.remaining import check_speeds
from scheduling.core.policies.optimus.allocation import BREAK, SKIP
from scheduling.core.policies.optimus.parts import EVEN, OWN, OWN_PLACES, STRICT, Placer
from scheduling.core.policies.optimus.policy import Optimus
from scheduling.core.scenario.fields import BadScenario, Section
from scheduling.core.types import Cluster, Job

UNITS = ("share", "amount")
Builder = Callable[[Mapping[str, Any], Cluster, Sequence[Job]], Placer]
FIELDS = ("max_ps", "max_workers", "unit", "stop", "young", "restart", "max_restarts", "key", "retry", "scatter")
PARTS = ("allocation", "placement")


def builder(others: Mapping[str, Builder]) -> Callable[[Mapping[str, Any], Cluster, Sequence[Job]], Optimus]:
    """Return the function that builds Optimus with the settings of a scenario. Optimus may take its allocation or its
    placement from one of the `others`."""

    def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Optimus:
        section = Section(fields, "policy", (*FIELDS, *PARTS))
        check_speeds(jobs)
        allocation = section.choice("allocation", (OWN, *others), OWN)
        usual_placement = STRICT if fields.get("scatter") is False else EVEN
        placement = section.choice("placement", (*OWN_PLACES, *others), usual_placement)
        usual = {"retry": Optimus.retry, "scatter": placement != STRICT}
        flags = {name: section.raw(name, flag) for name, flag in usual.items()}
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise BadScenario(f"policy.{name}", "must be true or false")
        if placement in (EVEN, STRICT) and flags["scatter"] != usual["scatter"]:
            raise BadScenario("policy.scatter", f"cannot be so where the placement is {placement}")
        allocator = None if allocation == OWN else others[allocation]({}, cluster, jobs)
        placer = None if placement in OWN_PLACES else others[placement]({}, cluster, jobs)
        return Optimus(
            max_ps=section.whole("max_ps", Optimus.max_ps, most=1024),
            max_workers=section.whole("max_workers", Optimus.max_workers, most=1024),
            unit=section.choice("unit", UNITS, Optimus.unit),
            stop=section.choice("stop", (SKIP, BREAK), Optimus.stop),
            young=section.number("young", Optimus.young, above=0.0, most=1.0),
            restart=section.number("restart", Optimus.restart, least=0.0),
            max_restarts=section.whole("max_restarts", Optimus.max_restarts, least=0),
            key=section.choice("key", cluster.resources, Optimus.key),
            retry=flags["retry"],
            scatter=flags["scatter"],
            allocation=allocation,
            placement=placement,
            allocator=allocator,
            placer=placer,
        )

    return build
