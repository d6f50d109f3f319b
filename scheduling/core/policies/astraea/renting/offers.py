"""Phase two: the jobs left, and with `upgrade` those just served, buy from the pool in order of arrival (R18, G5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.core.occupancy import units_in_use
from scheduling.core.policies.astraea.places.room import within
from scheduling.core.policies.astraea.renting.payments import rented_booking
from scheduling.core.policies.astraea.renting.pool import IdlePool, reserve_prices
from scheduling.core.policies.astraea.renting.prospects import Look, Prospect, Prospects
from scheduling.core.policies.astraea.rules.settings import NOTHING, SEARCHED
from scheduling.core.policies.astraea.schedules.dividend import Dividend
from scheduling.core.policies.astraea.schedules.pieces import Met, pieces
from scheduling.core.policies.astraea.schedules.schedule import (
    LOW_BALANCE,
    NEVER,
    OVER_BUDGET,
    OVER_MAX_PRICE,
    TOO_DEAR,
    Schedule,
    Shortfall,
)
from scheduling.core.policies.astraea.schedules.search import TIE, PieceSearch, Search, generous
from scheduling.core.policies.astraea.schedules.terms import AllTerms, Limits, Terms
from scheduling.core.policies.astraea.ways.rests import kept_at_home, standing
from scheduling.core.policies.astraea.window.awards import home_booking
from scheduling.core.policies.astraea.window.round import Round, cells_of, demands
from scheduling.core.types import Booking, BoolArray, FloatArray, Floor, Job, Window

KAPPAS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.22, 0.33, 0.5, 0.75, 1.1, 1.6, 2.4)  # ascending (K8)


@dataclass(frozen=True)
class MayPay:
    """The most that a job may pay, and the reason that its refusal gives where that is too little."""

    amount: float
    set_by: str


@dataclass(frozen=True)
class Offer:
    """A schedule in the pool, and the booking that it would become."""

    booking: Booking
    schedule: Schedule
    need: float  # credits that the job has without it


def rent_from_pool(round_: Round, jobs: Sequence[Job], floors: Mapping[int, Floor]) -> tuple[Round, Window]:
    """Offer each job, in order, the pool at posted prices. Return the round, and what was for sale and what was sold.

    The round is `round_` itself, or that of the best pass where the price is searched.
    """
    if round_.settings.price == SEARCHED:
        return _search_price(round_, jobs, floors)
    phase = Renting(round_, floors)
    phase.offer_all(jobs)
    return phase.round, phase.window


def _search_price(round_: Round, jobs: Sequence[Job], floors: Mapping[int, Floor]) -> tuple[Round, Window]:
    """Run the whole pass from the same state for each multiple of the usual value (K8).

    The pass with the largest score wins; among equal scores it is the one of the largest multiple.
    """
    passes = []
    for kappa in KAPPAS:
        phase = Renting(round_.copy(), floors, kappa)
        phase.offer_all(jobs)
        passes.append(phase)
    scores = tuple(phase.score for phase in passes)
    equal = max(scores) - TIE * max(1.0, abs(max(scores)))
    best = max(index for index, score in enumerate(scores) if score >= equal)
    return passes[best].round, replace(passes[best].window, kappa=KAPPAS[best], scores=scores)


class Renting:
    """The pool, what is sold of it, and each payer's terms until the next sale changes them."""

    def __init__(self, round_: Round, floors: Mapping[int, Floor], kappa: float | None = None) -> None:
        self.round, self.settings, self.floors = round_, round_.settings, floors
        self.sold: FloatArray = np.zeros_like(round_.allocated)  # (resources, slots)
        self.held_back = held if self.settings.floor and (held := HeldBack(round_)).idle else None
        self.pool = IdlePool(self.settings, round_.cluster, round_.start, self._idle(), kappa)
        self.gains: list[float] = []  # of each sale, as the search for a price counts it
        self.buyers: set[int] = set()  # jobs that bought something
        self.easings = 0  # number of sales after which later jobs may find better terms than earlier ones
        self._offered: dict[int, tuple[float, int]] = {}  # by job: what it had and the easings, in the first pass
        self._limits, self._limits_hold = Limits(round_.room, self.pool.for_sale), False
        self._all_terms: AllTerms | None = None
        self._terms: dict[int | None, Terms] = {}
        self._post()
        if self.held_back:
            round_.withhold(self.held_back.amounts(self.pool.takes_part))

    @property
    def window(self) -> Window:
        """What was for sale and what was sold, at what prices."""
        return Window(self.round.start, self.round.end, self.pool.prices, self.pool.idle, self.sold)

    @property
    def score(self) -> float:
        """What the sales gained, and what was paid to others for them where owners have no share of the gain (K8)."""
        return math.fsum(self.gains)

    def offer_all(self, jobs: Sequence[Job]) -> None:
        """Offer the pool to all jobs in order, and then pieces of it to those that may be saved and bought nothing.

        So runs that finish a job come first, and pieces take what would have stayed unsold (D7).
        """
        for job in jobs:
            self.offer(job)
        prospects = self._prospects(jobs)
        for look in prospects.that_may_gain(lambda: self._terms_of_all(prospects)):
            self.offer_piece(look)

    def _prospects(self, jobs: Sequence[Job]) -> Prospects:
        """Return those of the jobs that may be offered a piece."""
        rests, offered = self.round.rests, self._offered
        prospects = [
            Prospect(rests[number], self.floors.get(number), *offered[number])
            for number in (job.number for job in jobs)
            if number in rests and number in offered and number not in self.buyers
        ]
        window, exact = (self.round.start, self.round.end), self.settings.workers == "exact"
        return Prospects(self.round.cluster, prospects, window, exact=exact)

    def offer(self, job: Job) -> None:
        """Sell the job the best schedule in the pool, if that is strictly better than what the job has."""
        at_home, floor = self.round.awards.get(job.number), self.floors.get(job.number)
        if at_home is not None and not self.settings.upgrade:
            return
        has = self.standing(job, floor)
        self._offered[job.number] = has, self.easings
        offer = self.answer(job, floor, has)
        if isinstance(offer, Offer):
            self._sell(job, offer, at_home)
        elif at_home is None:
            self.round.shortfalls[job.number] = offer

    def offer_piece(self, look: Look) -> None:
        """Sell a job a part of its rest, or all of it, if that is strictly better than what the job has (D5, D6)."""
        rest, floor, has, _ = look.prospect
        job, round_, exact = rest.job, self.round, self.settings.workers == "exact"
        may_pay = self._may_pay(job)
        if may_pay is None:
            return
        met = Met(self._limits_now(), look.worker, look.ps, look.lengths, look.run, generous(has))
        ways = pieces(round_.cluster, rest, look.home, (round_.start, round_.end), met, exact=exact)
        if ways is None:
            return
        at_home, terms = round_.awards.get(job.number), self._terms_of(job.tenant)
        dividend = self._dividend(job, has)
        schedule = PieceSearch(ways, terms, has, may_pay.amount, dividend).run()
        if isinstance(schedule, Shortfall):
            return
        booking = self._rented(job, floor, schedule, terms)
        candidate = np.array([schedule.candidate])
        worth = float(ways.worth(candidate, np.array([schedule.end]))[0])
        booking = replace(booking, work=int(ways.work[schedule.candidate]), value=worth)
        if not booking.value - booking.paid > max(has + TIE * max(1.0, has), 0.0):
            return
        if dividend is not None:
            booking = dividend.charged(booking, schedule.amounts, schedule.start, schedule.end)
        offer = Offer(booking, schedule, has)
        if booking.work >= rest.work:
            self._sell(job, offer, at_home)
        else:
            self._sell_piece(job, offer, at_home)

    def answer(self, job: Job, floor: Floor | None, has: float) -> Offer | Shortfall:
        """Return the best that the pool offers now for the whole job, or for all that is left of it, or why that is
        nothing. An offer is better than what the job has."""
        may_pay = self._may_pay(job)
        if may_pay is None:
            return Shortfall(NEVER)
        best, limited = self._best(job, floor, has, may_pay.amount)
        if isinstance(best, Offer) or job.number in self.round.awards or not limited:
            return best
        return self._explained(job, floor, has, may_pay)

    def standing(self, job: Job, floor: Floor | None) -> float:
        """Return what the job has without buying: the value of its award of this window, else what its schedule at home
        or the part that is done is worth."""
        at_home, rest = self.round.awards.get(job.number), self.round.rests.get(job.number)
        if at_home is not None:
            return at_home.value
        if rest is not None and not rest.is_whole:
            return standing(self.round.cluster, rest, floor)
        return 0.0 if floor is None else floor.value

    def _dividend(self, job: Job, has: float) -> Dividend | None:
        if not self.settings.dividend:
            return None
        return Dividend(self.settings.dividend, has, job.tenant, self.pool.contribution)

    def _best(self, job: Job, floor: Floor | None, has: float, most_paid: float) -> tuple[Offer | Shortfall, bool]:
        """Return the best there is for `most_paid`, and whether that limit ruled anything out. If it did not, the
        answer is the same without the limit."""
        terms, values = self._terms_of(job.tenant), self.round.values(job)
        dividend = self._dividend(job, has)
        search = Search(self.round.ways(job), terms, values, has, most_paid, dividend)
        best = search.run()
        if isinstance(best, Shortfall):
            return best, search.limited
        booking = self._rented(job, floor, best, terms)
        margin = TIE * max(1.0, has) if self.settings.floor or job.number in self.round.awards else 0.0
        if booking.value - booking.paid > max(has + margin, 0.0):
            if dividend is not None:
                booking = dividend.charged(booking, best.amounts, best.start, best.end)
            return Offer(booking, best, has), search.limited
        return Shortfall(TOO_DEAR, booking.value, booking.paid), search.limited

    def _rented(self, job: Job, floor: Floor | None, schedule: Schedule, terms: Terms) -> Booking:
        """Return the booking that a schedule would become.

        Its payment is provisional where parts are worth nothing, and no place at home that is kept makes sure that the
        job will be done (D16).
        """
        alone = 0.0 if floor is None else floor.value
        booking = rented_booking(self.round, job, schedule, self.pool, terms.of(schedule.pair), alone)
        if self.settings.parts != NOTHING or not job.divisible or kept_at_home(floor):
            return booking
        return replace(booking, provisional=True)

    def _sell(self, job: Job, offer: Offer, at_home: Booking | None) -> None:
        """Book the offer. The cells of a schedule that it replaces become free for the jobs that follow (G5)."""
        self._replace_home(job, at_home, None)
        self.round.awards[job.number] = offer.booking
        self._book(job, offer, at_home is not None)

    def _sell_piece(self, job: Job, offer: Offer, at_home: Booking | None) -> None:
        """Book a piece. The rest of the job continues at home and is done sooner (D3), or it waits for more pieces."""
        round_, booking, floor = self.round, offer.booking, self.floors.get(job.number)
        planned = floor is not None and bool(floor.allocation)
        rest = round_.rests[job.number].after(int(booking.work), booking.paid, None if planned else booking.value)
        round_.pieces[job.number], round_.rests[job.number] = booking, rest
        if at_home is not None and floor is not None:
            shorter = home_booking(round_, job, floor)
            self._replace_home(job, at_home, shorter)
            round_.awards[job.number] = shorter
        self._book(job, offer, at_home is not None)

    def _replace_home(self, job: Job, before: Booking | None, after: Booking | None) -> None:
        for booking, sign in ((before, -1), (after, 1)):
            if booking is not None:
                self.round.take_home(job, booking, sign)
                if self.held_back:
                    self.held_back.use(job, booking, sign)

    def _book(self, job: Job, offer: Offer, home_changed: bool) -> None:
        """Take the units of an offer, and post the prices that follow from it."""
        pair = offer.schedule.pair
        self.sold += self.round.take(offer.schedule.rows, pair.worker.demand, pair.ps.demand)
        self.round.spent[job.tenant] += offer.booking.paid
        self.buyers.add(job.number)
        self._count(job, offer)
        self._terms.clear()
        self._limits_hold, self._all_terms = False, None
        others_sell = self._post()
        self.easings += others_sell or home_changed
        if self.held_back and (others_sell or (home_changed and self.held_back.concerns(job.tenant))):
            self.round.withhold(self.held_back.amounts(self.pool.takes_part))

    def _count(self, job: Job, offer: Offer) -> None:
        """Add to the score what a sale gains."""
        booking = offer.booking
        self.gains += [booking.value, -offer.need]
        if not self.settings.dividend and booking.payouts is not None:
            self.gains += [booking.paid, -float(booking.payouts[job.tenant])]

    def _post(self) -> bool:
        """Post prices for what is in use (R14) or rented (G6). Return whether other owners take part than before."""
        if self.settings.price_counts == "cluster":
            return self.pool.post(self.round.allocated, self.round.cluster.total[:, None])
        return self.pool.post(self.round.allocated - self.round.own_use.sum(axis=1), self.pool.total)

    def _terms_of(self, tenant: int) -> Terms:
        """Return the limits and prices for one payer: net of its own part, where payment is net (G7)."""
        payer = tenant if self.settings.payment == "net" else None
        terms = self._terms.get(payer)
        if terms is None:
            prices = self.pool.prices
            if payer is not None:
                prices = prices * (1.0 - self.pool.contribution[:, payer])
            least = self._least(prices, payer)
            terms = Terms(self._limits_now(), prices, self.round.least_used(), least)
            self._terms[payer] = terms
        return terms

    def _terms_of_all(self, prospects: Prospects) -> AllTerms:
        """Return the terms that all jobs meet that may be offered pieces."""
        if self._all_terms is None:
            prices = self.pool.prices[:, None]
            if self.settings.payment == "net":
                prices = prices * (1.0 - self.pool.contribution[:, prospects.payers])
            else:
                prices = prices.repeat(len(prospects.payers), axis=1)
            self._all_terms = AllTerms(self._limits_now(), prospects.pairs, prices, self.easings)
        return self._all_terms

    def _limits_now(self) -> Limits:
        if not self._limits_hold:
            self._limits = self._limits.then(self.round.room, self.pool.for_sale)
            self._limits_hold = True
        return self._limits

    def _least(self, prices: FloatArray, payer: int | None) -> FloatArray | None:
        """Return (resources, slots) the least that a unit costs if it takes some of the resource.

        That is more than 0 where the resource has a price, or where another tenant sells some of it. Only the operator
        may ask for nothing.
        """
        least = self.round.cluster.least_payment
        if not least:
            return None
        paid_for = prices > 0
        if not paid_for.all():
            paid_for |= self.pool.others_sell(payer)
        return np.where(paid_for, least, 0.0)

    def _idle(self) -> FloatArray:
        """Return (resources, owners, slots) what each owner has for sale: what phase one and jobs at home leave it."""
        idle = np.repeat(self.round.cluster.shares[:, :, None], self.round.slots, axis=2)
        idle[:, :-1] -= self.round.own_use
        if self.settings.floor:
            idle -= self._idle_where_closed()
            idle[:, [u for u, tenant in enumerate(self.round.cluster.tenants) if tenant.lend != "lend"]] = 0.0
        return np.maximum(idle, 0.0)

    def _idle_where_closed(self) -> FloatArray:
        """Return (resources, owners, slots) how much of what is idle lies on servers that host nothing new, so that it
        cannot be sold."""
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
        """Return the most that a job may pay and what sets it: its own limit, its owner's budget or its owner's funds
        (G9). Return None if the job may not rent."""
        tenant = self.round.cluster.tenants[job.tenant]
        rent = (job.rent or tenant.rent) if self.settings.floor else "auto"
        if rent == "never":
            return None
        before = self.round.paid_before(job)
        limits = [
            MayPay(np.inf if job.max_price is None else job.max_price - before, OVER_MAX_PRICE),
            MayPay(self.round.funds_left(job.tenant), LOW_BALANCE),
        ]
        if rent == "budget":
            limits.append(MayPay((tenant.budget or 0.0) - float(self.round.spent[job.tenant]), OVER_BUDGET))
        return min(limits, key=lambda limit: limit.amount)

    def _explained(self, job: Job, floor: Floor | None, has: float, may_pay: MayPay) -> Shortfall:
        """Return why there is no offer: because of the limit, if there is an offer without it."""
        unlimited, _ = self._best(job, floor, has, np.inf)
        if isinstance(unlimited, Shortfall):
            return unlimited
        return Shortfall(may_pay.set_by, unlimited.booking.value, unlimited.booking.paid, limit=may_pay.amount)


class HeldBack:
    """Cells that are idle but not for sale: their tenants keep them, or ask for more than the posted price (G9)."""

    def __init__(self, round_: Round) -> None:
        self.round, cluster = round_, round_.cluster
        asking = set(np.nonzero(reserve_prices(cluster))[1].tolist())
        self.idle = {  # (resources, slots, servers) of each tenant that may hold back
            index: np.repeat(cells_of(cluster, index)[:, None, :], round_.slots, axis=1)
            for index, tenant in enumerate(cluster.tenants)
            if tenant.lend != "lend" or index in asking
        }
        for booking in round_.at_home:
            self.use(round_.view.jobs[booking.job], booking, 1)

    def concerns(self, tenant: int) -> bool:
        return tenant in self.idle

    def amounts(self, takes_part: BoolArray) -> FloatArray:
        """Return (resources, slots, servers) what is held back, given who takes part (resources, owners, slots)."""
        held = np.zeros_like(self.round.use)
        for index, idle in self.idle.items():
            lends = self.round.cluster.tenants[index].lend == "lend"
            held += idle * ~(takes_part[:, index, :, None] & lends)
        return held

    def use(self, job: Job, booking: Booking, sign: int) -> None:
        """Count the cells of a schedule at home as used (`sign` 1), or as idle again once it was replaced, so that
        their owner holds them back (-1)."""
        if job.tenant not in self.idle:
            return
        worker, ps = demands(job, booking)
        for row in within(booking.allocation, self.round.start, self.round.end):
            used = row.workers * worker + row.ps * ps
            self.idle[job.tenant][:, row.start : row.end, row.server] -= sign * used[:, None]
