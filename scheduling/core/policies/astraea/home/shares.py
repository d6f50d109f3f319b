"""Phase one on shares: each tenant's jobs run within the count of units that it owns, on any server (R13, R18-R20)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.core.policies.astraea.schedules.schedule import TOO_DEAR, Schedule, Shortfall
from scheduling.core.policies.astraea.schedules.search import Search
from scheduling.core.policies.astraea.schedules.terms import Limits, Terms
from scheduling.core.policies.astraea.window.awards import own_booking
from scheduling.core.policies.astraea.window.round import Round
from scheduling.core.prices import scarcity
from scheduling.core.types import FloatArray, Job


def award_from_shares(round_: Round, jobs: Sequence[Job]) -> None:
    """Offer each job, in order, what is left of its owner's share. A price may steer the choice, but nobody pays it."""
    phase = _Phase(round_)
    for job in jobs:
        terms = phase.terms(job.tenant)
        best = Search(round_.ways(job), terms, round_.values(job), 0.0, np.inf).run()
        if isinstance(best, Shortfall):
            round_.shortfalls[job.number] = best
            continue
        phase.award(job, best, terms)


class _Phase:
    """Phase one of a round. It keeps the terms of each tenant until the next award changes them."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.shares = round_.cluster.shares[:, :-1]  # (resources, tenants)
        self.theta = round_.settings.by_resource(round_.settings.theta, round_.cluster)[:, None]
        self._terms: dict[int, Terms] = {}

    def terms(self, tenant: int) -> Terms:
        terms = self._terms.get(tenant)
        if terms is None:
            rest = self.shares[:, tenant, None] - self.round.own_use[:, tenant]
            terms = Terms(Limits(self.round.room, rest), self.prices(tenant), self.round.least_used())
            self._terms[tenant] = terms
        return terms

    def prices(self, tenant: int) -> FloatArray:
        """Return (resources, slots) the prices that steer phase one. They follow all use (R14, R19), the tenant's own
        use, or no use at all."""
        total = self.round.cluster.total[:, None]
        used = {
            "shadow": self.round.allocated,
            "own": self.round.own_use[:, tenant],
            "zero": np.zeros_like(self.round.allocated),
        }
        return scarcity(self.theta, used[self.round.settings.own_price], total)

    def award(self, job: Job, schedule: Schedule, terms: Terms) -> None:
        booking = own_booking(self.round, job, schedule, terms.prices)
        if booking.value - booking.shadow_cost > 0:
            self.round.awards[job.number] = booking
            self.round.take_home(job, booking)
            self._terms.clear()
        else:
            self.round.shortfalls[job.number] = Shortfall(TOO_DEAR, booking.value, booking.shadow_cost)
