"""Phase two: the jobs left, and with `upgrade` those just served, buy from the pool in order of arrival (R18, G5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.core.occupancy import units_in_use
from scheduling.core.policies.astraea.awards import rented_booking
from scheduling.core.policies.astraea.pool import Pool, reserve_prices
from scheduling.core.policies.astraea.room import within
from scheduling.core.policies.astraea.round import Round, cells_of, demands
from scheduling.core.policies.astraea.schedule import (
    LOW_BALANCE,
    NEVER,
    OVER_BUDGET,
    OVER_MAX_PRICE,
    TOO_DEAR,
    Schedule,
    Shortfall,
)
from scheduling.core.policies.astraea.search import TIE, Search
from scheduling.core.policies.astraea.terms import Terms
from scheduling.core.types import Booking, BoolArray, FloatArray, Floor, Job, Window


@dataclass(frozen=True)
class MayPay:
    """The most a job may pay, and the reason to give where that is too little."""

    amount: float
    set_by: str


@dataclass(frozen=True)
class Offer:
    """A schedule in the pool, and the booking it would be."""

    booking: Booking
    schedule: Schedule


def rent_from_pool(round_: Round, jobs: Sequence[Job], floors: Mapping[int, Floor]) -> Window:
    """Offer each job, in order, the pool at posted prices; the window says what was for sale and what was sold."""
    phase = Renting(round_, floors)
    for job in jobs:
        phase.offer(job)
    return Window(round_.start, round_.end, phase.pool.prices, phase.pool.idle, phase.sold)


class Renting:
    """The pool, what is sold of it, and each payer's terms until the next sale changes them."""

    def __init__(self, round_: Round, floors: Mapping[int, Floor]) -> None:
        self.round, self.settings, self.floors = round_, round_.settings, floors
        self.sold: FloatArray = np.zeros_like(round_.allocated)  # (resources, slots)
        self.held_back = held if self.settings.floor and (held := HeldBack(round_)).idle else None
        self.pool = Pool(self.settings, round_.cluster, self._idle())
        self._terms: dict[int | None, Terms] = {}
        self._post()
        if self.held_back:
            round_.withhold(self.held_back.amounts(self.pool.takes_part))

    def offer(self, job: Job) -> None:
        """Sell it the best schedule in the pool, if that is strictly better than what the job has."""
        standing = self.round.awards.get(job.number)
        if standing is not None and not self.settings.upgrade:
            return
        floor = self.floors[job.number].value if job.number in self.floors else 0.0
        found = self.answer(job, floor)
        if isinstance(found, Offer):
            self._sell(job, found, standing)
        elif standing is None:
            self.round.shortfalls[job.number] = found

    def answer(self, job: Job, floor: float) -> Offer | Shortfall:
        """What the pool has for the job now, or why nothing. `floor`: the value of its floor schedule, 0 for none."""
        may_pay = self._may_pay(job)
        if may_pay is None:
            return Shortfall(NEVER)
        standing = self.round.awards.get(job.number)
        found, limited = self._best(job, standing, floor, may_pay.amount)
        if isinstance(found, Offer) or standing is not None or not limited:
            return found
        return self._explained(job, floor, may_pay)

    def _best(
        self, job: Job, standing: Booking | None, floor: float, most_paid: float
    ) -> tuple[Offer | Shortfall, bool]:
        """The best there is for `most_paid`, and whether that limit ruled anything out: if not, the answer stands
        without it too."""
        has = floor if standing is None else standing.value
        terms, values = self._terms_of(job.tenant), self.round.values(job)
        search = Search(self.round.ways(job), terms, values, has, most_paid)
        found = search.run()
        if isinstance(found, Shortfall):
            return found, search.limited
        booking = rented_booking(self.round, job, found, self.pool, floor)
        margin = TIE * max(1.0, has) if self.settings.floor or standing is not None else 0.0
        if booking.value - booking.paid > max(has + margin, 0.0):
            return Offer(booking, found), search.limited
        return Shortfall(TOO_DEAR, booking.value, booking.paid), search.limited

    def _sell(self, job: Job, offer: Offer, standing: Booking | None) -> None:
        """Book the offer; the cells of a schedule that it replaces are free for the jobs that follow (G5)."""
        if standing is not None:
            self.round.take_home(job, standing, sign=-1)
        pair = offer.schedule.pair
        self.sold += self.round.take(offer.schedule.rows, pair.worker.demand, pair.ps.demand)
        self.round.awards[job.number] = offer.booking
        self.round.spent[job.tenant] += offer.booking.paid
        self._terms.clear()
        others_sell = self._post()
        if self.held_back and (others_sell or (standing is not None and self.held_back.concerns(job.tenant))):
            if standing is not None:
                self.held_back.leave_home(job, standing)
            self.round.withhold(self.held_back.amounts(self.pool.takes_part))

    def _post(self) -> bool:
        """Post prices for what is in use (R14) or rented (G6) now; true if others take part than before."""
        if self.settings.price_counts == "cluster":
            return self.pool.post(self.round.allocated, self.round.cluster.total[:, None])
        return self.pool.post(self.round.allocated - self.round.own_use.sum(axis=1), self.pool.total)

    def _terms_of(self, tenant: int) -> Terms:
        """Limits and prices for one payer: net of its own part, where payment is net (G7)."""
        payer = tenant if self.settings.payment == "net" else None
        found = self._terms.get(payer)
        if found is None:
            prices = self.pool.prices
            if payer is not None:
                prices = prices * (1.0 - self.pool.contribution[:, payer])
            found = Terms(self.round.room, self.pool.for_sale, prices, self.round.least_used())
            self._terms[payer] = found
        return found

    def _idle(self) -> FloatArray:
        """(resources, owners, slots) what each owner has for sale: what phase one and jobs at home leave it."""
        idle = np.repeat(self.round.cluster.shares[:, :, None], self.round.slots, axis=2)
        idle[:, :-1] -= self.round.own_use
        if self.settings.floor:
            idle -= self._idle_where_closed()
            idle[:, [u for u, tenant in enumerate(self.round.cluster.tenants) if tenant.lend != "lend"]] = 0.0
        return np.maximum(idle, 0.0)

    def _idle_where_closed(self) -> FloatArray:
        """(resources, owners, slots) of that, what lies on servers that host nothing new: it cannot be sold."""
        round_, cluster, closed = self.round, self.round.cluster, self.round.cluster.closed
        if cluster.cells is None or not len(closed):
            return np.zeros(1)
        cells = np.concatenate([cluster.cells, cluster.operator_cells[:, None]], axis=1)
        idle: FloatArray = np.repeat(cells[..., closed].sum(axis=2)[:, :, None], round_.slots, axis=2)
        for booking in round_.at_home:
            job = round_.view.jobs[booking.job]
            rows = [row for row in within(booking.allocation, round_.start, round_.end) if row.server in closed]
            idle[:, job.tenant] -= units_in_use(rows, *demands(job, booking), 0, round_.slots)
        return idle

    def _may_pay(self, job: Job) -> MayPay | None:
        """The most a job may pay and what sets it: its own limit, its owner's budget or its owner's funds (G9).

        None: it may not rent.
        """
        tenant = self.round.cluster.tenants[job.tenant]
        rent = (job.rent or tenant.rent) if self.settings.floor else "auto"
        if rent == "never":
            return None
        limits = [
            MayPay(np.inf if job.max_price is None else job.max_price, OVER_MAX_PRICE),
            MayPay(self.round.funds_left(job.tenant), LOW_BALANCE),
        ]
        if rent == "budget":
            limits.append(MayPay((tenant.budget or 0.0) - float(self.round.spent[job.tenant]), OVER_BUDGET))
        return min(limits, key=lambda limit: limit.amount)

    def _explained(self, job: Job, floor: float, may_pay: MayPay) -> Shortfall:
        """The limit is the reason if there is an offer without it."""
        unlimited, _ = self._best(job, None, floor, np.inf)
        if isinstance(unlimited, Shortfall):
            return unlimited
        return Shortfall(may_pay.set_by, unlimited.booking.value, unlimited.booking.paid, limit=may_pay.amount)


class HeldBack:
    """Cells that are idle but not for sale: of tenants that keep theirs, or ask for more than the posted price (G9)."""

    def __init__(self, round_: Round) -> None:
        self.round, cluster = round_, round_.cluster
        asking = set(np.nonzero(reserve_prices(cluster))[1].tolist())
        self.idle = {  # (resources, slots, servers) of each tenant that may hold back
            index: np.repeat(cells_of(cluster, index)[:, None, :], round_.slots, axis=1)
            for index, tenant in enumerate(cluster.tenants)
            if tenant.lend != "lend" or index in asking
        }
        for booking in round_.at_home:
            job = round_.view.jobs[booking.job]
            if job.tenant in self.idle:
                self._use(job, booking, 1)

    def concerns(self, tenant: int) -> bool:
        return tenant in self.idle

    def leave_home(self, job: Job, booking: Booking) -> None:
        """A schedule at home was replaced: its cells are idle again, and its owner's to hold back."""
        if job.tenant in self.idle:
            self._use(job, booking, -1)

    def amounts(self, takes_part: BoolArray) -> FloatArray:
        """(resources, slots, servers) held back, given who takes part (resources, owners, slots)."""
        held = np.zeros_like(self.round.taken)
        for index, idle in self.idle.items():
            lends = self.round.cluster.tenants[index].lend == "lend"
            held += idle * ~(takes_part[:, index, :, None] & lends)
        return held

    def _use(self, job: Job, booking: Booking, sign: int) -> None:
        worker, ps = demands(job, booking)
        for row in within(booking.allocation, self.round.start, self.round.end):
            used = row.workers * worker + row.ps * ps
            self.idle[job.tenant][:, row.start : row.end, row.server] -= sign * used[:, None]
