"""The policy: quote a job every completion slot, take the best, charge it, book it (rules P1 to P6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from scheduling.core.policies.pdors.booking import book
from scheduling.core.policies.pdors.bounds import propose
from scheduling.core.policies.pdors.quote import Best, best_schedule, unservable
from scheduling.core.policies.pdors.slots import EXTERNAL, GREEDY, Search
from scheduling.core.posted.bounds import Bounds, read_bounds
from scheduling.core.posted.market import Market
from scheduling.core.posted.tariff import Side, tariff
from scheduling.core.scenario.fields import Section
from scheduling.core.types import REJECTED, Booking, Cluster, FloatArray, Job, Plan, Reason, Refusal, View

MOST_PARTS, MOST_TRIES, MOST_GAIN = 100, 10_000, 100.0


@dataclass(frozen=True)
class Pdors:
    """Instant admission on servers that host both kinds of units, at posted prices per amount and slot.

    `grid` is the least number of quanta in one worker's slot across servers: more are more exact and slower, and small
    jobs get more. `external` says how gangs on several servers are found; `gain`, `tries` and `seed` are those of the
    rounding.
    """

    name: ClassVar[str] = "pdors"

    price: Mapping[str, Any]
    grid: int = 4
    external: str = GREEDY
    gain: float = 1.0
    tries: int = 20
    seed: int = 1

    def decide(self, view: View) -> Plan:
        """Every waiting job, one by one in order of arrival, each at the prices that the one before left."""
        market = Market(view)
        bookings, refusals = [], []
        for job in view.waiting:
            answer = self._answer(job, market)
            if isinstance(answer, Booking):
                market.take(job, answer)
                bookings.append(answer)
            else:
                refusals.append(Refusal(job.number, answer, REJECTED))
        return Plan(bookings, refusals)

    def posted(self, view: View, slots: int) -> FloatArray:
        """(resources, slots) the price of one unit more; the same for workers and parameter servers."""
        hosts = view.cluster.hosts_workers | view.cluster.hosts_ps
        return tariff(view, (Side(Bounds(**self.price), hosts),), slots)

    def _answer(self, job: Job, market: Market) -> Booking | Reason:
        if (reason := unservable(job)) is not None:
            return reason
        bounds, search = Bounds(**self.price), Search(self.external, self.gain, self.tries, self.seed)
        pairs = [(w, p) for w in range(len(job.worker_types)) for p in range(len(job.ps_types))]
        answers = [best_schedule(job, w, p, market, bounds, self.grid, search) for w, p in pairs]
        schedules = [answer for answer in answers if isinstance(answer, Best)]
        if not schedules:
            return next(answer for answer in answers if isinstance(answer, Reason))
        return book(job, max(schedules, key=lambda best: best.surplus), market)  # of equals the first: lowest types


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Pdors:
    """The policy from a scenario's fields. Bounds that are left out are proposed from the scenario's own jobs."""
    section = Section(fields, "policy", ("price", "grid", "external", "gain", "tries", "seed"))
    given = section.given("price")
    bounds = read_bounds(section.raw("price"), "policy.price", cluster.resources) if given else propose(cluster, jobs)
    return Pdors(
        price=asdict(bounds),
        grid=section.whole("grid", Pdors.grid, most=MOST_PARTS),
        external=section.choice("external", EXTERNAL, Pdors.external),
        gain=section.number("gain", Pdors.gain, above=0.0, most=MOST_GAIN),
        tries=section.whole("tries", Pdors.tries, most=MOST_TRIES),
        seed=section.whole("seed", Pdors.seed, least=0),
    )
