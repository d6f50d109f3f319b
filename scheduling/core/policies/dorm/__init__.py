"""Dorm: the cluster dealt out anew by an integer program whenever a job comes or goes."""

from scheduling.core.policies.dorm.policy import Dorm, build

__all__ = ["Dorm", "build"]
