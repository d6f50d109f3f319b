"""The value of a scenario, which holds everything that a decision needs."""

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
    slots: int  # nothing is decided at this slot or later
    policy: Mapping[str, Any]  # name and fields as written; checked by `policies.build`
    instant: Mapping[str, Any] | None = None  # the policy of the instant lane, if there is one
    preload: tuple[Preload, ...] = ()
    generator: Mapping[str, Any] | None = None  # the generator that drew the scenario, with its arguments and its seed
