"""The scenario of a rule: the history's jobs on its machines, with what the rule says would have been different."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from scheduling.core.scenario import Scenario, read
from scheduling.core.types import Cluster, Plan, Policy, SettlesAtTheEnd, View
from scheduling.lab.histories.history import DAY, OPERATOR, History
from scheduling.lab.histories.machines import cells_of_counts
from scheduling.lab.studies.study import MARKET, MARKETS, PAPER, Study, StudyRule
from scheduling.lab.studies.worth import value_rows

DRAIN_DAYS = 30  # a replay continues so long after the last day, for jobs that still wait
RESOURCE = "worker"
NIGHT_BEGINS, NIGHT_ENDS = 20, 8  # hours of the log's zone
POLICIES: dict[str, dict[str, Any]] = {
    MARKET: {"name": "astraea", "mode": "guarantee", "clock": {"first": 1, "cap": 4, "restart": True}},
    PAPER: {"name": "astraea", "mode": "paper"},
    "fifo": {"name": "fifo", "workers": 10**6},
    "fair_share": {"name": "dominant_resource_fairness"},
}


def world(history: History, study: Study, rule: StudyRule, worth: str) -> Scenario:
    """Return the history under a rule. A job asks for the units that it had, no fewer and no more, and runs for as
    long."""
    return read(
        {
            "format": "scenario/1",
            "slot_seconds": history.slot_seconds,
            "slots": (history.days + DRAIN_DAYS) * DAY // history.slot_seconds,
            "servers": _servers(history, rule),
            "tenants": [_tenant(owner, tenant_name(history, owner), rule) for owner in history.owners],
            "jobs": _jobs(history, rule, value_rows(history, worth, study.credits_per_unit_hour, study.seed)),
            "policy": {**POLICIES.get(rule.kind, POLICIES["fifo"]), **(rule.policy if rule.kind in MARKETS else {})},
        }
    )


def tenant_name(history: History, owner: str) -> str:
    """Return the name of an owner in a scenario, where no tenant may be called as the operator is."""
    return history.operator if owner == OPERATOR else owner


def jobs_of(history: History, rule: StudyRule) -> list[int]:
    """Return the jobs of a replay, by their index in the history: each of them, then the second ones of owners whose
    jobs come twice."""
    twice = set(rule.double)
    return [*range(len(history.jobs)), *(k for k, job in enumerate(history.jobs) if job.owner in twice)]


def is_night(history: History, slots: int) -> npt.NDArray[np.bool_]:
    """Return (slots,) whether each slot begins at night."""
    hours = history.hours_of_day(slots)
    return (hours >= NIGHT_BEGINS) | (hours < NIGHT_ENDS)


@dataclass(frozen=True)
class ByNight:
    """A policy in whose market some owners lend nothing by day. A job that begins at night may still run in the day."""

    policy: Policy
    by_day: Cluster
    night: npt.NDArray[np.bool_]  # (slots,)
    name: ClassVar[str] = "by_night"

    def decide(self, view: View) -> Plan:
        """Return what the policy decides about the cluster as its owners lend in this slot."""
        return self.policy.decide(view if self.night[view.slot] else replace(view, cluster=self.by_day))

    def at_the_end(self, view: View) -> Plan:
        """Return what the policy settles when the replay is cut."""
        return self.policy.at_the_end(view) if isinstance(self.policy, SettlesAtTheEnd) else Plan()


def by_night(policy: Policy, scenario: Scenario, history: History, rule: StudyRule) -> ByNight:
    """Return the policy where the owners that the rule names lend only at night."""
    tenants = tuple(
        replace(tenant, lend="keep") if owner in rule.nights else tenant
        for owner, tenant in zip(history.owners, scenario.cluster.tenants, strict=True)
    )
    return ByNight(policy, replace(scenario.cluster, tenants=tenants), is_night(history, scenario.slots))


def _servers(history: History, rule: StudyRule) -> list[dict[str, Any]]:
    counts = tuple(rule.quotas.get(owner, 0) for owner in history.owners)
    split = cells_of_counts(history.machines, counts) if rule.quotas else history.cells
    names = [tenant_name(history, owner) for owner in history.owners]
    rows = [
        {
            "name": machine.name,
            "capacity": {RESOURCE: machine.units},
            "cells": {tenant: {RESOURCE: n} for tenant, n in zip(names, cells, strict=True) if n},
        }
        for machine, cells in zip(history.machines, split, strict=True)
    ]
    usual = Counter(machine.units for machine in history.machines).most_common(1)[0][0]
    for owner, tenant in zip(history.owners, names, strict=True):  # so that the order in a study changes nothing
        for number in range(1, rule.add_nodes.get(owner, 0) + 1):
            name = f"more {history.owners.index(owner) + 1}-{number}"
            rows.append({"name": name, "capacity": {RESOURCE: usual}, "cells": {tenant: {RESOURCE: usual}}})
    return rows


def _tenant(owner: str, name: str, rule: StudyRule) -> dict[str, Any]:
    leaves = owner in rule.leave
    lends = not leaves and owner not in rule.keep
    return {
        "name": name,
        "rent": "never" if leaves else "auto",
        "lend": "lend" if lends else "keep",
        "plan": rule.plan,
    }


def _jobs(history: History, rule: StudyRule, values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the jobs. One mini-batch is a second of one unit; names are numbers, since a log may have one name
    twice."""
    in_pieces = {}
    if rule.pieces is not None:
        in_pieces = {"divisible": True, "save_slots": rule.pieces * 60 / history.slot_seconds}
    return [
        {
            "name": str(number),
            "tenant": tenant_name(history, job.owner),
            "arrival": history.slot_of(job.submitted),
            "epochs": 1,
            "chunks": job.units,
            "min_workers": job.units,
            "minibatches": job.seconds,
            "minibatch_seconds": 1,
            "worker_mbps": 1,
            "worker_demand": {RESOURCE: 1},
            "ps_demand": [],
            "value": values[place],
            **in_pieces,
        }
        for number, place in enumerate(jobs_of(history, rule))
        for job in (history.jobs[place],)
    ]
