"""How fast jobs really train in a round, where that is not the one speed that all policies share."""

from __future__ import annotations

from typing import Protocol

from scheduling.core.types import Plan, View


class Speeds(Protocol):
    """Of one round of one cluster, slot by slot."""

    def corrected(self, plan: Plan, view: View) -> Plan:
        """The plan with the work that is really done in its slot."""
        ...
