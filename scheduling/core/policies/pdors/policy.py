"""PD-ORS as a policy: price every completion slot of a job, take the best, charge it and book it (rules P1 to P6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from scheduling.core.policies.pdors.booking import book
from scheduling.core.policies.pdors.bounds import propose
from scheduling.core.policies.pdors.quote import BestGangs, BuyingCounter, best_schedule, soonest, unservable
from scheduling.core.policies.pdors.slots import EXTERNAL, GREEDY, GangSearch
from scheduling.core.posted import menu
from scheduling.core.posted.bounds import PriceBounds, read_bounds
from scheduling.core.posted.home import COUNTED, home_view
from scheduling.core.posted.market import PostedMarket
from scheduling.core.posted.tariff import Side, tariff
from scheduling.core.scenario.fields import Section
from scheduling.core.types import REJECTED, Booking, Cluster, FloatArray, Job, Plan, Reason, Refusal, View

MOST_PARTS, MOST_TRIES, MOST_GAIN = 100, 10_000, 100.0


@dataclass(frozen=True)
class Pdors:
    """Instant admission on servers that host both kinds of units, at posted prices per amount and slot.

    `grid` is the least number of quanta in one worker's slot across servers: more are more exact and slower, and small
    jobs get more. `external` is the way to find gangs on several servers; `gain`, `tries` and `seed` are those of the
    rounding. `mode` decides how values and prices are read: as in a market, or as the paper's single provider does (see
    `posted.menu`).
    """

    name: ClassVar[str] = "pdors"

    price: Mapping[str, Any]
    grid: int = 4
    external: str = GREEDY
    gain: float = 1.0
    tries: int = 20
    seed: int = 1
    mode: str = menu.MARKET

    def decide(self, view: View) -> Plan:
        """Answer all waiting jobs in order of arrival, each at the prices that the job before left."""
        market = PostedMarket(view)
        bookings, refusals = [], []
        for job in view.waiting:
            answer = self._answer(job, market, view)
            if isinstance(answer, Booking):
                market.take(job, answer)
                bookings.append(answer)
            else:
                refusals.append(Refusal(job.number, answer, REJECTED))
        return Plan(bookings, refusals)

    def posted(self, view: View, slots: int) -> FloatArray:
        """Return (resources, slots) the price of one unit more. It is the same for workers and parameter servers."""
        hosts = view.cluster.hosts_workers | view.cluster.hosts_ps
        return tariff(view, (Side(PriceBounds(**self.price), hosts),), slots)

    def _answer(self, job: Job, market: PostedMarket, view: View) -> Booking | Reason:
        """Book the job on its tenant's own idle cells, or rented if that leaves the tenant more; or return why not."""
        if (reason := unservable(job)) is not None:
            return reason
        pairs = [(w, p) for w in range(len(job.worker_types)) for p in range(len(job.ps_types))]
        home = self._at_home(job, pairs, view)
        floor = home.value if home else 0.0
        counter = self._counter(market, PriceBounds(**self.price))
        answers = [best_schedule(job, w, p, counter, menu.to_beat(floor)) for w, p in pairs]
        schedules = [answer for answer in answers if isinstance(answer, BestGangs)]
        if schedules:  # `max` takes the first of equals: the lowest types
            return book(job, max(schedules, key=lambda best: best.choice.gain), market, self.mode, floor)
        return home or next(answer for answer in answers if isinstance(answer, Reason))

    def _at_home(self, job: Job, pairs: Sequence[tuple[int, int]], view: View) -> Booking | None:
        """Book the job on its tenant's own idle cells alone, where it costs nothing; None if it has no value there."""
        own = home_view(view) if self.mode == menu.MARKET else None
        if own is None:
            return None
        counter = self._counter(PostedMarket(own), COUNTED)
        schedules = [best for w, p in pairs if (best := soonest(job, w, p, counter)) is not None]
        if not schedules:
            return None
        best = max(schedules, key=lambda best: best.choice.value)
        return book(job, best, counter.market, self.mode, best.choice.value)

    def _counter(self, market: PostedMarket, bounds: PriceBounds) -> BuyingCounter:
        search = GangSearch(self.external, self.gain, self.tries, self.seed)
        return BuyingCounter(market, bounds, self.grid, search, self.mode)


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Pdors:
    """Build the policy from a scenario's fields. Bounds that are left out are proposed from the scenario's jobs."""
    section = Section(fields, "policy", ("price", "grid", "external", "gain", "tries", "seed", "mode"))
    mode = section.choice("mode", menu.MODES, Pdors.mode)
    if section.has("price"):
        bounds = read_bounds(section.raw("price"), "policy.price", cluster.resources)
    else:
        bounds = propose(cluster, jobs, mode)
    return Pdors(
        mode=mode,
        price=asdict(bounds),
        grid=section.whole("grid", Pdors.grid, most=MOST_PARTS),
        external=section.choice("external", EXTERNAL, Pdors.external),
        gain=section.number("gain", Pdors.gain, above=0.0, most=MOST_GAIN),
        tries=section.whole("tries", Pdors.tries, most=MOST_TRIES),
        seed=section.whole("seed", Pdors.seed, least=0),
    )
