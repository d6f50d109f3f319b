"""PD-ORS: like OASiS it answers each job at once, on servers that host workers and parameter servers side by side."""

from scheduling.core.policies.pdors.policy import Pdors, build

__all__ = ["Pdors", "build"]
