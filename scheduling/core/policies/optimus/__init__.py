"""Optimus: in every slot units go where they shorten remaining times most, and each gang onto the fewest servers.

Running jobs are resized at slot boundaries. A job that is resized or moved loses the time of a checkpoint.
"""

from scheduling.core.policies.optimus.building import builder
from scheduling.core.policies.optimus.policy import Optimus

__all__ = ["Optimus", "builder"]
