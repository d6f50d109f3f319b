"""A tenant's standing instructions in a pool: what it may rent by itself, and what it lends at what price."""

from scheduling.sharing.read_sharing import sharing_of
from scheduling.sharing.sharing import Sharing, sharing_change

__all__ = [
    "Sharing",
    "sharing_change",
    "sharing_of",
]
