"""What is believed of jobs whose programs report, as the policy of an elastic pool is told it."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.core.estimates.live import Belief, believed
from scheduling.core.types import AsksAnother, HeedsReports, Policy, View
from scheduling.models import JobReport


def heeds(policy: Policy) -> HeedsReports | None:
    """The policy that is told what programs report: itself, or the one that it asks. None: it decides by what was
    declared."""
    heeding = policy.policy if isinstance(policy, AsksAnother) else policy
    return heeding if isinstance(heeding, HeedsReports) and heeding.heeds_reports else None


def beliefs_of(numbers: Iterable[int]) -> dict[int, Belief]:
    """By job, of those whose programs said something. One query."""
    rows = JobReport.objects.filter(job__in=list(numbers)).values_list("job_id", "epochs_left", "speed")
    return {number: Belief(epochs_left, tuple(speed)) for number, epochs_left, speed in rows}


def with_reports(view: View, policy: Policy) -> View:
    """The view as this policy is to decide by it."""
    listener = heeds(policy)
    beliefs = beliefs_of(job.number for job in view.waiting) if listener and view.waiting else {}
    return believed(view, beliefs, listener.heeded) if listener and beliefs else view
