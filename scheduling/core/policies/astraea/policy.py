"""Astraea: jobs are collected, and at each boundary a window of slots is dealt out in two phases.

Phase one serves each owner's jobs from what it owns, free. Phase two sells what is left at posted prices, and every
price is divided among the owners of what was for sale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduling.core.policies.astraea import refusals, trailing
from scheduling.core.policies.astraea.clock import Turn, turn
from scheduling.core.policies.astraea.floors import award_at_home, plan_floors
from scheduling.core.policies.astraea.renting import rent_from_pool
from scheduling.core.policies.astraea.round import Round
from scheduling.core.policies.astraea.screening import screen
from scheduling.core.policies.astraea.settings import Settings, read_settings
from scheduling.core.policies.astraea.shares import award_from_shares
from scheduling.core.types import Booking, Cluster, Floor, Job, Plan, View, Window


@dataclass(frozen=True)
class Astraea(Settings):
    """The policy; its settings are all there is to it."""

    name: ClassVar[str] = "astraea"

    def decide(self, view: View) -> Plan:
        """At a boundary, the plan for the windows it opens; between boundaries, when the next one is."""
        return self.between_boundaries(view) or self.in_force(view)._decide_windows(view, turn(self, view))

    def in_force(self, view: View) -> Astraea:
        """The policy with the price base that holds at this view."""
        theta = trailing.price_base(self.theta, self.trailing, view.memory)
        return self if theta == self.theta else replace(self, theta=theta)

    def memory_after(self, view: View, now: Turn, jobs: Sequence[Job]) -> Mapping[str, Any] | None:
        """What is to be told next time, once these jobs were dealt with; None: what was told now."""
        if self.trailing is None:
            return now.memory
        memory = view.memory if now.memory is None else now.memory
        return trailing.remembered(self.trailing, memory, view, jobs, exact=self.workers == "exact")

    def between_boundaries(self, view: View) -> Plan | None:
        """The plan of a slot at which nothing is dealt out; None at a boundary.

        It depends on no waiting jobs but the first and those that came with this slot.
        """
        now = turn(self, view)
        if now.windows:
            return None
        told = refusals.until_the_interval_closes(now, refusals.newly_seen(view))
        return Plan(refusals=tuple(told), memory=now.memory, frontier=now.frontier)

    def promises(self, view: View) -> list[Floor]:
        """The new floors of `decide`, which nothing else in a plan changes. Jobs that it refuses for good, for they
        fit nowhere or are worth nothing any more, have none there, and one of the value 0 here."""
        now = turn(self, view)
        return self._new_floors(view, [job for job in view.waiting if job.arrival < view.slot], now)

    def _decide_windows(self, view: View, now: Turn) -> Plan:
        collected = [job for job in view.waiting if job.arrival < view.slot]
        late = view.waiting[len(collected) :]  # they arrive at the boundary itself
        jobs, refused = screen(self, view, collected, now.cap)
        memory = self.memory_after(view, now, jobs)
        given = self._new_floors(view, jobs, now)
        floors = {**view.floors, **{floor.job: floor for floor in given}} if given else view.floors
        bookings: list[Booking] = []
        windows: list[Window] = []
        for start, end in now.windows:
            round_ = Round(self, view, start, end, bookings)
            windows.append(_decide_round(round_, jobs, floors))
            bookings += round_.awards.values()
            jobs = [job for job in jobs if job.number not in round_.awards]
        refused += [refusals.waiting(round_, job, floors.get(job.number)) for job in jobs]
        refused += refusals.until_the_interval_closes(now, late)
        return Plan(tuple(bookings), tuple(refused), tuple(given), tuple(windows), memory, now.frontier)

    def _new_floors(self, view: View, jobs: Sequence[Job], now: Turn) -> list[Floor]:
        if not self.floor or not now.windows:
            return []
        return plan_floors(self, view, [job for job in jobs if job.number not in view.floors], now.windows[0])


def _decide_round(round_: Round, jobs: Sequence[Job], floors: Mapping[int, Floor]) -> Window:
    """Phase one, then phase two (Algorithm 2, G3, G5)."""
    if round_.settings.floor:
        award_at_home(round_, jobs, floors)
    else:
        award_from_shares(round_, jobs)
    return rent_from_pool(round_, jobs, floors)


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Astraea:
    """Astraea with the settings of a scenario. Raises BadScenario naming the field."""
    return Astraea(**read_settings(fields, cluster, jobs))
