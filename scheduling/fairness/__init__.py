"""Answers to "is it fair?": figures of each closed interval, their sums by day, and alerts when a limit is passed."""

from scheduling.fairness.alerts import MEASURES, alerts_set
from scheduling.fairness.days import Day, days_added_up
from scheduling.fairness.intervals import FairnessValues, fairness_values
from scheduling.fairness.read_alerts import alerts_of
from scheduling.fairness.read_interval import interval_account

__all__ = [
    "MEASURES",
    "Day",
    "FairnessValues",
    "alerts_of",
    "alerts_set",
    "days_added_up",
    "fairness_values",
    "interval_account",
]
