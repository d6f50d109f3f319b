"""The policies by name, and the one way to make one from a scenario's settings.

A new policy is a new module here and one line in `POLICIES`; `fifo` and `srtf` are the smallest. Scenarios can name it
then, and tests/core/test_policy_contract.py examines it. A pool of the live market can be run by it where it decides
one slot at a time and is in `SINGLE_SLOTS` too: the pool is elastic, and tests/core/test_elastic.py examines that.
Policies that sell whole lives at a price are named in `scheduling.market.view.policy`, which fills in their settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduling.core.policies import (
    astraea,
    batchsche,
    dl2,
    dominant_resource_fairness,
    dorm,
    elastic,
    fifo,
    gandiva_fair,
    hived,
    oasis,
    optimus,
    pdors,
    rrh,
    srtf,
    tetris,
)
from scheduling.core.scenario.fields import BadScenario, Section, choice
from scheduling.core.types import Cluster, Job, Policy

Builder = Callable[[Mapping[str, Any], Cluster, Sequence[Job]], Policy]

# Those that say what each job has in one slot: they can run an elastic pool.
SINGLE_SLOTS = frozenset(
    {"dl2", "dominant_resource_fairness", "dorm", "gandiva_fair", "offline_rl", "optimus", "rrh", "srtf", "tetris"}
)


def _elastic(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Policy:
    """An elastic pool's policy, and the one that it asks: only here are both known."""
    section = Section(fields, "policy", ("policy", "prices")).object("policy", {"name": "optimus"})
    choice(section.get("name"), "policy.policy.name", sorted(SINGLE_SLOTS & POLICIES.keys()))
    try:
        inner = build(section, cluster, jobs)
    except BadScenario as error:
        raise BadScenario(error.place.replace("policy", "policy.policy", 1), error.message) from None
    return elastic.build(fields, cluster, inner)


POLICIES: dict[str, Builder] = {
    "astraea": astraea.build,
    "batchsche": batchsche.build,
    "dominant_resource_fairness": dominant_resource_fairness.build,
    "dorm": dorm.build,
    "elastic": _elastic,
    "fifo": fifo.build,
    "gandiva_fair": gandiva_fair.build,
    "hived": hived.build,
    "oasis": oasis.build,
    "pdors": pdors.build,
    "rrh": rrh.build,
    "srtf": srtf.build,
    "tetris": tetris.build,
}
POLICIES["optimus"] = optimus.builder(
    {"dominant_resource_fairness": dominant_resource_fairness.build, "tetris": tetris.build}
)
POLICIES["dl2"] = dl2.builder(dl2.Dl2, POLICIES)  # whoever else there is can teach them
POLICIES["offline_rl"] = dl2.builder(dl2.OfflineRl, POLICIES)


def build(settings: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Policy:
    """The policy that `settings` name, its other fields checked and its defaults filled in from the scenario.

    Raises `BadScenario` naming the field (`policy.theta.worker: must be at least 2`).
    """
    fields = dict(settings)
    return POLICIES[fields.pop("name")](fields, cluster, jobs)
