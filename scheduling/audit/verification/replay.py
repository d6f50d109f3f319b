"""Deciding one stored interval again from its own bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.audit.verification.findings import Finding, differences
from scheduling.core import records
from scheduling.core.collector import collector_resting
from scheduling.core.policies.elastic import Elastic
from scheduling.core.types import Allocation, Plan, Policy, View
from scheduling.market.decide import code_version, link
from scheduling.market.reads import REPLAY_ERRORS, Contents, contents_of
from scheduling.market.view import OPERATOR_ID, policy_built
from scheduling.models import Interval


@dataclass(frozen=True, eq=False)
class Replayed:
    """The interval's input, and the answer that the policy gives to it today."""

    view: View
    policy: Policy
    plan: Plan
    owner_ids: tuple[int, ...]  # the ids behind the axis of owners
    server_ids: tuple[int, ...]

    @property
    def elastic(self) -> bool:
        """Return whether the interval dealt out a single slot of an elastic pool."""
        return self.policy.name == Elastic.name

    def rows(self, allocation: Sequence[Allocation]) -> list[list[int]]:
        """Return an allocation as it is stored."""
        return [[self.server_ids[row.server], row.start, row.end, row.workers, row.ps] for row in allocation]


def read_or_named(where: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return what the check finds, or a finding that says so where rows were changed so that it cannot read them."""
    try:
        return list(check())
    except REPLAY_ERRORS as error:
        return [Finding(where, f"its rows cannot be read ({type(error).__name__}: {error})")]


def replay(interval: Interval) -> tuple[Replayed | None, list[Finding]]:
    """Decide an interval again. Return None with the findings where the stored bytes can no longer be read, or no plan
    comes of them."""
    try:
        return _replayed(interval)
    except REPLAY_ERRORS as error:
        return None, [Finding(name_of(interval), f"its bytes cannot be replayed ({type(error).__name__}: {error})")]


def _replayed(interval: Interval) -> tuple[Replayed, list[Finding]]:
    contents = contents_of(interval)
    findings = differences(name_of(interval), {"the digest": (interval.digest, link(interval, contents))})
    view = records.view_from(contents.view)
    policy = policy_built(json.loads(contents.policy), view.cluster)
    plan = _decided(policy, view)
    owner_ids = (*(int(tenant.name) for tenant in view.cluster.tenants), OPERATOR_ID)
    replayed = Replayed(view, policy, plan, owner_ids, tuple(int(name) for name in view.cluster.servers))
    return replayed, findings + _differs(interval, contents, replayed)


def name_of(interval: Interval) -> str:
    return f"interval {interval.number} of pool {interval.pool_id}"


def _decided(policy: Policy, view: View) -> Plan:
    with collector_resting():
        return policy.decide(view)


def _differs(interval: Interval, contents: Contents, replayed: Replayed) -> list[Finding]:
    """Name bytes that came out differently, and columns that do not say what the bytes say."""
    where, plan, view = name_of(interval), replayed.plan, replayed.view
    again = records.plan_bytes_like(contents.plan, plan)
    findings = [] if again == contents.plan else [_other_plan(interval, contents.plan, again)]
    owners = records.to_bytes({"owners": list(replayed.owner_ids)})
    windows = owners + b"\n" + records.plan_bytes(Plan(windows=tuple(plan.windows)))
    if windows != contents.windows:
        findings.append(Finding(where, "the windows that it published are not those of its plan"))
    columns = {
        "slot": (interval.slot, view.slot),
        "window_start": (interval.window_start, min((w.start for w in plan.windows), default=None)),
        "window_end": (interval.window_end, max((w.end for w in plan.windows), default=None)),
        "jobs_waiting": (interval.jobs_waiting, len(view.waiting)),
        "jobs_awarded": (interval.jobs_awarded, len(plan.bookings)),
    }
    return findings + differences(where, columns)


def _other_plan(interval: Interval, stored: bytes, again: bytes) -> Finding:
    before, after = json.loads(stored), json.loads(again)
    parts = [name for name in after if before.get(name) != after[name]]
    jobs = sorted({job for name in parts for job in _jobs_that_differ(before.get(name), after[name])})
    jobs_named = f" ({', '.join(f'job {job}' for job in jobs[:10])})" if jobs else ""
    code = "" if interval.code_version == code_version() else f"; it was decided by {interval.code_version}"
    return Finding(name_of(interval), f"decided again, the plan has other {' and '.join(parts)}{jobs_named}{code}")


def _jobs_that_differ(before: Any, after: Any) -> set[int]:
    """Return the jobs whose rows are not the same in two lists of rows about jobs."""
    if not (isinstance(before, list) and isinstance(after, list)):
        return set()
    one, other = _by_job(before), _by_job(after)
    return {job for job in one.keys() | other.keys() if one.get(job) != other.get(job)}


def _by_job(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    return {row["job"]: row for row in rows if "job" in row}
