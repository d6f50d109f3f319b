"""A scenario as a value: everything a decision needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.types import Cluster, Job


@dataclass(frozen=True)
class Preload:
    """An amount of a resource that is taken before the run begins."""

    server: int
    slot: int
    resource: int
    amount: float


@dataclass(frozen=True, eq=False)
class Scenario:
    """A cluster, its jobs in order of submission (job.number is the index), and the settings of the policies."""

    cluster: Cluster
    jobs: tuple[Job, ...]
    slots: int  # no decision at this slot or later
    policy: Mapping[str, Any]  # name and fields as written; checked by `policies.build`
    instant: Mapping[str, Any] | None = None  # the policy of the instant lane, where there is one
    preload: tuple[Preload, ...] = ()
    generator: Mapping[str, Any] | None = None  # what drew the scenario, and its seed: enough to draw it again
