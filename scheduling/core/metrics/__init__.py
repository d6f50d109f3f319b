"""Compute what a run was worth, to which tenants, and how evenly."""

from scheduling.core.metrics.alone import alone_gains, alone_scenario, below_floor, worse_off
from scheduling.core.metrics.books import net
from scheduling.core.metrics.figures import fairness_ratios, gains, jain_index, rewards, summary, tenant_rows

__all__ = [
    "alone_gains",
    "alone_scenario",
    "below_floor",
    "fairness_ratios",
    "gains",
    "jain_index",
    "net",
    "rewards",
    "summary",
    "tenant_rows",
    "worse_off",
]
