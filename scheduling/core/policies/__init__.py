"""The policies by name, and the one function that makes a policy from a scenario's settings.

To add a policy, write a new module here and add one line to `POLICIES`; `fifo` and `srtf` are the smallest examples.
Scenarios can then name it, and tests/core/test_policy_contract.py examines it. If it decides one slot at a time, add it
to `SINGLE_SLOTS` too: it can then run an elastic pool of the live market, which tests/core/test_elastic.py examines.
Policies that sell a job's whole run at a price are named in `scheduling.market.view.policy`, which fills in their
settings.
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

# These policies decide what each job has in one slot, so they can run an elastic pool.
SINGLE_SLOTS = frozenset(
    {"dl2", "dominant_resource_fairness", "dorm", "gandiva_fair", "offline_rl", "optimus", "rrh", "srtf", "tetris"}
)


def _elastic(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Policy:
    """Build an elastic pool's policy around the policy that decides its slots. Only this module knows both."""
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
POLICIES["dl2"] = dl2.builder(dl2.Dl2, POLICIES)  # every other policy can be their teacher
POLICIES["offline_rl"] = dl2.builder(dl2.OfflineRl, POLICIES)


def build(settings: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Policy:
    """Return the policy that `settings` name, with its fields checked and its defaults filled in from the scenario.

    Raises `BadScenario` naming the field (`policy.theta.worker: must be at least 2`).
    """
    fields = dict(settings)
    return POLICIES[fields.pop("name")](fields, cluster, jobs)
