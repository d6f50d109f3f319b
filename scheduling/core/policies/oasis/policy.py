"""OASiS as a policy: price each completion slot of a job, take the best, charge and book it (O1 to O13, C9 to C12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from scheduling.core.policies.oasis.booking import book
from scheduling.core.policies.oasis.bounds import propose
from scheduling.core.policies.oasis.market import OasisMarket
from scheduling.core.policies.oasis.quote import BestSchedule, best_schedule, soonest, unservable
from scheduling.core.posted import menu
from scheduling.core.posted.bounds import PriceBounds, read_bounds
from scheduling.core.posted.home import COUNTED, home_view, on_its_servers, on_whole_cluster
from scheduling.core.posted.tariff import Side, tariff
from scheduling.core.scenario.fields import Section
from scheduling.core.speed import most_servers
from scheduling.core.types import REJECTED, Booking, Cluster, FloatArray, Job, Plan, Reason, Refusal, View

UNITS = ("worker_slots", "chunks")


@dataclass(frozen=True)
class Oasis:
    """Instant admission at posted prices. Prices are in credits per unit and slot; see `bounds`. `mode` decides how
    values and prices are read: as in a market, or as the paper's single provider does (see `posted.menu`)."""

    name: ClassVar[str] = "oasis"

    worker_price: Mapping[str, Any]
    ps_price: Mapping[str, Any]
    units: str = "worker_slots"
    mode: str = menu.MARKET

    def decide(self, view: View) -> Plan:
        """Answer all waiting jobs in order of arrival, each at the prices that the job before left."""
        market = OasisMarket(view, PriceBounds(**self.worker_price), PriceBounds(**self.ps_price))
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
        """Return (resources, slots) the price of one unit more. A gang of one worker and one parameter server pays the
        sum over what the two take. For a resource that both take, the larger of the two prices is returned."""
        workers = Side(PriceBounds(**self.worker_price), view.cluster.hosts_workers)
        ps = Side(PriceBounds(**self.ps_price), view.cluster.hosts_ps)
        return tariff(view, (workers, ps), slots)

    def _answer(self, job: Job, market: OasisMarket, view: View) -> Booking | Reason:
        """Book the job on its tenant's own idle cells, or rented if that leaves the tenant more; or return why not."""
        if (reason := unservable(job, market.cluster)) is not None:
            return reason
        pairs = [(w, p) for w in range(len(job.worker_types)) for p in range(len(job.ps_types))]
        home = self._at_home(job, pairs, view)
        floor = home.value if home else 0.0
        least = menu.to_beat(floor)
        answers = [best_schedule(job, w, p, market, self.units, self.mode, least) for w, p in pairs]
        schedules = [answer for answer in answers if isinstance(answer, BestSchedule)]
        if schedules:  # `max` takes the first of equals: the lowest types
            return book(job, max(schedules, key=lambda best: best.choice.gain), market, self.mode, floor)
        return home or next(answer for answer in answers if isinstance(answer, Reason))

    def _at_home(self, job: Job, pairs: Sequence[tuple[int, int]], view: View) -> Booking | None:
        """Book the job on its tenant's own idle cells alone, where it costs nothing; None if it has no value there."""
        if self.mode != menu.MARKET or view.own_idle is None:
            return None
        there, servers = on_its_servers(view, view.own_idle)
        if (own := home_view(there)) is None:
            return None
        market, spread = OasisMarket(own, COUNTED, COUNTED), most_servers(job, view.cluster)
        offers = [soonest(job, w, p, market, spread, self.units, self.mode) for w, p in pairs]
        schedules = [best for best in offers if best is not None]
        if not schedules:
            return None
        best = max(schedules, key=lambda best: best.choice.value)
        return on_whole_cluster(book(job, best, market, self.mode, best.choice.value), servers)


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Oasis:
    """Build the policy from a scenario's fields. Bounds that are left out are proposed from the scenario's jobs."""
    section = Section(fields, "policy", ("worker_price", "ps_price", "units", "mode"))
    units = section.choice("units", UNITS, Oasis.units)
    mode = section.choice("mode", menu.MODES, Oasis.mode)
    proposed = dict(zip(("worker_price", "ps_price"), propose(cluster, jobs, mode), strict=True))
    bounds = {
        name: read_bounds(fields[name], f"policy.{name}", cluster.resources) if name in fields else proposal
        for name, proposal in proposed.items()
    }
    return Oasis(asdict(bounds["worker_price"]), asdict(bounds["ps_price"]), units, mode)
