"""Gandiva_fair: tenants share the cluster by tickets, slot by slot, in whole gangs."""

from scheduling.core.policies.gandiva_fair.policy import GandivaFair, build

__all__ = ["GandivaFair", "build"]
