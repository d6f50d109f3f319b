"""Dorm: an integer program deals out the cluster anew whenever a job comes or goes."""

from scheduling.core.policies.dorm.policy import Dorm, build

__all__ = ["Dorm", "build"]
