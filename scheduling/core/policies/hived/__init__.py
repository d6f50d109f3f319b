"""HiveD: a virtual cluster of cells for every tenant, and idle cells for jobs that can be interrupted."""

from scheduling.core.policies.hived.policy import Hived, build

__all__ = ["Hived", "build"]
