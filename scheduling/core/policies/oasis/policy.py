"""The policy: quote a job every completion slot, take the best, charge it, book it (rules O1 to O12, C9 to C12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from scheduling.core.policies.oasis.booking import book
from scheduling.core.policies.oasis.bounds import propose
from scheduling.core.policies.oasis.market import Market
from scheduling.core.policies.oasis.quote import Best, best_schedule, unservable
from scheduling.core.posted.bounds import Bounds, read_bounds
from scheduling.core.posted.tariff import Side, tariff
from scheduling.core.scenario import BadScenario
from scheduling.core.types import REJECTED, Booking, Cluster, FloatArray, Job, Plan, Reason, Refusal, View

UNITS = ("worker_slots", "chunks")


@dataclass(frozen=True)
class Oasis:
    """Instant admission at posted prices. Settings are credits per unit and slot; see `bounds`."""

    name: ClassVar[str] = "oasis"

    worker_price: Mapping[str, Any]
    ps_price: Mapping[str, Any]
    units: str = "worker_slots"

    def decide(self, view: View) -> Plan:
        """Every waiting job, one by one in order of arrival, each at the prices that the one before left."""
        market = Market(view, Bounds(**self.worker_price), Bounds(**self.ps_price))
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
        """(resources, slots) the price of one unit more. A job's gang of one worker and one parameter server pays the
        sum over what the two take; a resource that both take shows the larger of the two prices."""
        workers = Side(Bounds(**self.worker_price), view.cluster.hosts_workers)
        ps = Side(Bounds(**self.ps_price), view.cluster.hosts_ps)
        return tariff(view, (workers, ps), slots)

    def _answer(self, job: Job, market: Market) -> Booking | Reason:
        if (reason := unservable(job, market.cluster)) is not None:
            return reason
        pairs = [(w, p) for w in range(len(job.worker_types)) for p in range(len(job.ps_types))]
        answers = [best_schedule(job, w, p, market, self.units) for w, p in pairs]
        schedules = [answer for answer in answers if isinstance(answer, Best)]
        if not schedules:
            return next(answer for answer in answers if isinstance(answer, Reason))
        return book(job, max(schedules, key=lambda best: best.surplus), market)  # of equals the first: lowest types


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Oasis:
    """The policy from a scenario's fields. Bounds that are left out are proposed from the scenario's own jobs."""
    unknown = sorted(set(fields) - {"worker_price", "ps_price", "units"})
    if unknown:
        raise BadScenario(f"policy.{unknown[0]}", "no such field; known: worker_price, ps_price, units")
    units = fields.get("units", "worker_slots")
    if units not in UNITS:
        raise BadScenario("policy.units", f"must be one of {', '.join(UNITS)}")
    proposed = dict(zip(("worker_price", "ps_price"), propose(cluster, jobs), strict=True))
    bounds = {
        name: read_bounds(fields[name], f"policy.{name}", cluster.resources) if name in fields else proposal
        for name, proposal in proposed.items()
    }
    return Oasis(asdict(bounds["worker_price"]), asdict(bounds["ps_price"]), units)
