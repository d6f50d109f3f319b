"""Optimus: every slot the units go where they shorten remaining times most, and each gang onto the fewest servers.

Jobs that run are resized at slot boundaries; whoever is resized or moved loses the time of a checkpoint.
"""

from scheduling.core.policies.optimus.building import builder
from scheduling.core.policies.optimus.policy import Optimus

__all__ = ["Optimus", "builder"]
