"""The interface of real training speeds in a round, for jobs that do not train at the one speed all policies share."""

from __future__ import annotations

from typing import Protocol

from scheduling.core.types import Plan, View


class Speeds(Protocol):
    """The real speeds in one round of one cluster, slot by slot."""

    def corrected(self, plan: Plan, view: View) -> Plan:
        """Return the plan with the work that is really done in its slot."""
        ...
