"""Read what jobs' programs report, and put it into the view of an elastic pool's policy."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.core.estimates.live import Belief, believed
from scheduling.core.types import AsksAnother, HeedsReports, Policy, View
from scheduling.models import JobReport


def heeds(policy: Policy) -> HeedsReports | None:
    """Return the policy that uses the reports of programs: this one, or the one that it asks. Return None if neither
    does; then it decides by what was declared at submission."""
    heeding = policy.policy if isinstance(policy, AsksAnother) else policy
    return heeding if isinstance(heeding, HeedsReports) and heeding.heeds_reports else None


def beliefs_of(numbers: Iterable[int]) -> dict[int, Belief]:
    """Return by job what follows from its program's reports, for jobs that have any. Takes one query."""
    rows = JobReport.objects.filter(job__in=list(numbers)).values_list("job_id", "epochs_left", "speed")
    return {number: Belief(epochs_left, tuple(speed)) for number, epochs_left, speed in rows}


def with_reports(view: View, policy: Policy) -> View:
    """Return the view for this policy: with the reports put in if it uses them, else as it is."""
    listener = heeds(policy)
    beliefs = beliefs_of(job.number for job in view.waiting) if listener and view.waiting else {}
    return believed(view, beliefs, listener.heeded) if listener and beliefs else view
