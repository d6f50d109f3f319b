"""Astraea: jobs are collected, and at each boundary a window of slots is dealt out in two phases.

Phase one serves each owner's jobs, free of charge, from what it owns. Phase two sells what is left at posted prices,
and each payment is divided among the owners of what was for sale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduling.core.policies.astraea.home import renewal
from scheduling.core.policies.astraea.home.floors import award_at_home
from scheduling.core.policies.astraea.home.shares import award_from_shares
from scheduling.core.policies.astraea.renting.offers import rent_from_pool
from scheduling.core.policies.astraea.rules import trailing
from scheduling.core.policies.astraea.rules.clock import Turn, turn
from scheduling.core.policies.astraea.rules.settings import NOTHING, Settings, read_settings
from scheduling.core.policies.astraea.together import (
    Served,
    groups_of,
    plan_floors_together,
    reasons,
    sort_out,
    tries_among,
)
from scheduling.core.policies.astraea.ways.rests import Rest, rests_of, with_worth, worth_nothing, worths_changed
from scheduling.core.policies.astraea.what_if import OpenDecision
from scheduling.core.policies.astraea.window import refusals
from scheduling.core.policies.astraea.window.round import Round
from scheduling.core.policies.astraea.window.screening import (
    fits_a_window,
    last_chances,
    most_together,
    never_served,
    screen,
)
from scheduling.core.types import Booking, Cluster, Floor, Job, Plan, Reason, Refusal, View, Window


@dataclass(frozen=True)
class _Dealt:
    """The windows of one boundary, dealt out. `finished` are the jobs that were offered them and will be done by an
    award; `waiting` are the others that were offered them."""

    bookings: list[Booking]
    windows: list[Window]
    waiting: list[Job]
    finished: frozenset[int]
    last: Round

    def served(self) -> Served:
        """Return which jobs are served in full, and which get anything at all."""
        return Served(self.finished, frozenset(booking.job for booking in self.bookings))


@dataclass(frozen=True)
class Astraea(Settings):
    """The policy. It has no state but its settings."""

    name: ClassVar[str] = "astraea"

    def decide(self, view: View) -> Plan:
        """Return, at a boundary, the plan for the windows it opens; between boundaries, when the next one is."""
        return self.between_boundaries(view) or self.in_force(view)._decide_windows(view, turn(self, view))

    def in_force(self, view: View) -> Astraea:
        """Return the policy with the price base that holds at this view."""
        theta = trailing.price_base(self.theta, self.trailing, view.memory)
        unit_value = trailing.usual_value(self.unit_value, self.trailing, view.memory)
        if theta == self.theta and unit_value == self.unit_value:
            return self
        return replace(self, theta=theta, unit_value=unit_value)

    def memory_after(self, view: View, now: Turn, jobs: Sequence[Job]) -> Mapping[str, Any] | None:
        """Return the memory for the next call, once these jobs were dealt with; None if it stays as the view has it."""
        if self.trailing is None:
            return now.memory
        memory = view.memory if now.memory is None else now.memory
        return trailing.remembered(self.trailing, memory, view, jobs, exact=self.workers == "exact")

    def between_boundaries(self, view: View) -> Plan | None:
        """Return the plan of a slot at which nothing is dealt out; None at a boundary.

        Of the waiting jobs, it depends only on the first and on those that came with this slot.
        """
        now = turn(self, view)
        if now.windows:
            return None
        events = refusals.until_the_interval_closes(now, refusals.newly_seen(view))
        return Plan(refusals=tuple(events), memory=now.memory, frontier=now.frontier)

    def next_boundary(self, view: View) -> tuple[int, Mapping[str, Any]] | None:
        """Return (slot, memory) of the boundary after the view's slot. Return None where the slot is itself a boundary,
        or none follows."""
        now = turn(self, view)
        if now.windows or now.closes_at is None:
            return None
        return now.closes_at, view.memory if now.memory is None else now.memory

    def frontier_after(self, view: View) -> int | None:
        """Return the first slot that no turn up to the one at the view's slot touches; None if nothing is promised."""
        return turn(self, view).frontier

    def one_more(self, view: View) -> OpenDecision:
        """Return the decision at the view's slot, open for questions about the last of the view's waiting jobs."""
        return OpenDecision(self, view)

    def last_chances(self, view: View, plan: Plan) -> Mapping[int, Reason]:
        """Return, for each job that is outbid in the plan and will be worth nothing at the next boundary, the reason
        that the plan gives."""
        return last_chances(self, view, plan, turn(self, view).closes_at)

    @property
    def longest_window(self) -> int | None:
        """Return the slots of the longest window that there will ever be; None where windows grow without end."""
        return None if isinstance(self.clock, str) else int(self.clock["cap"])

    def fits_a_window(self, cluster: Cluster, job: Job) -> bool:
        """Return whether a decision may serve a new job, at whichever boundary and whatever the job is worth."""
        return fits_a_window(self, cluster, job, self.longest_window)

    def never_serves(self, cluster: Cluster, job: Job, slot: int) -> Reason | None:
        """Return why no decision from `slot` on could serve a new job, and what would help; None where one could."""
        return never_served(self, cluster, job, slot, self.longest_window)

    def most_together(self, cluster: Cluster, job: Job) -> int | None:
        """Return a number of jobs like this one, more of which no single decision will ever serve; None where that
        cannot be known. Fewer may be too many as well."""
        return most_together(self, cluster, job, self.longest_window)

    def promises(self, view: View) -> list[Floor]:
        """Return the new floors of `decide`, without the rest of the plan, on which they do not depend. Jobs that fit
        nowhere or are worth nothing any more are refused for good by `decide`, without a floor; here they have one of
        the value 0."""
        now = turn(self, view)
        return self._new_floors(view, [job for job in view.waiting if job.arrival < view.slot], now)

    def _decide_windows(self, view: View, now: Turn) -> Plan:
        collected = [job for job in view.waiting if job.arrival < view.slot]
        late = view.waiting[len(collected) :]  # they arrive at the boundary itself
        rests = rests_of(view) if self.floor else {}
        jobs, refused = screen(self, view, collected, now.cap, rests)
        memory = self.memory_after(view, now, jobs)
        new_floors = self._new_floors(view, jobs, now)
        floors = {**view.floors, **{floor.job: floor for floor in new_floors}} if new_floors else view.floors
        rests = self._with_worths(view, rests, floors, now.windows[0][0])
        over = {refusal.job for refusal in refused}
        if self.parts == NOTHING:
            rests = worth_nothing(rests, over)
        going_on = {job.number for job in view.waiting} - over
        settled = renewal.settlements(view, floors, rests, going_on)
        for each in settled:
            if each.job in rests:
                rests[each.job] = rests[each.job].after(0, -each.refund, rests[each.job].worth)
        groups = groups_of(collected, floors)

        def deal(left_out: frozenset[int]) -> _Dealt:
            asking = [job for job in jobs if job.number not in left_out]
            return self._deal(view, now, asking, floors, rests)

        sorted_out = sort_out(groups, view.slot, deal, _Dealt.served, tries=tries_among(len(jobs)))
        dealt, kept_back = sorted_out.answer, reasons(groups, sorted_out.left_out)
        refused += [refusals.waiting(dealt.last, job, floors.get(job.number)) for job in dealt.waiting]
        refused += [Refusal(job.number, kept_back[job.number]) for job in jobs if job.number in kept_back]
        refused += refusals.until_the_interval_closes(now, late)
        contents = (tuple(dealt.bookings), tuple(refused), tuple(new_floors), tuple(dealt.windows))
        rests = dealt.last.rests
        worths = worths_changed(view, rests)
        return Plan(*contents, memory, now.frontier, settlements=tuple(settled), worths=worths)

    def _deal(
        self, view: View, now: Turn, jobs: Sequence[Job], floors: Mapping[int, Floor], rests: Mapping[int, Rest]
    ) -> _Dealt:
        """Deal out the windows, one after the other, to these jobs."""
        bookings: list[Booking] = []
        windows: list[Window] = []
        finished: set[int] = set()
        waiting = list(jobs)
        for start, end in now.windows:
            round_ = Round(self, view, start, end, bookings, rests)
            round_, window = _decide_round(round_, waiting, floors)
            windows.append(window)
            bookings += [*round_.pieces.values(), *round_.awards.values()]
            finished |= round_.awards.keys()
            waiting = [job for job in waiting if job.number not in round_.awards]
            rests = round_.rests
        return _Dealt(bookings, windows, waiting, frozenset(finished), round_)

    def _with_worths(
        self, view: View, rests: Mapping[int, Rest], floors: Mapping[int, Floor], slot: int
    ) -> dict[int, Rest]:
        """Return the rests with the worths that hold from the boundary at `slot` on (D4)."""
        exact = self.workers == "exact"
        return {
            number: with_worth(view.cluster, rest, floors.get(number), slot, exact=exact)
            for number, rest in rests.items()
        }

    def at_the_end(self, view: View) -> Plan:
        """Settle open rents at the slot at which a run is cut (D9, D10). Nothing is booked any more, so no plan at home
        will come true."""
        rests = rests_of(view) if self.floor else {}
        if self.parts == NOTHING:
            rests = worth_nothing(rests, rests.keys())
        else:
            rests = self._with_worths(view, rests, {}, view.slot)
        settled = renewal.settlements_at_the_end(view, rests)
        return Plan(settlements=tuple(settled), worths=worths_changed(view, rests))

    def _new_floors(self, view: View, jobs: Sequence[Job], now: Turn) -> list[Floor]:
        """Return the renewed plans, then the floors that are kept for good, on what all other plans leave."""
        if not self.floor or not now.windows:
            return []
        new = [job for job in jobs if job.number not in view.floors]
        # Groups are formed of all collected jobs: a group with a job that was just refused for good is not whole.
        groups = groups_of([j for j in view.waiting if j.arrival < view.slot and j.number not in view.floors], {})
        if not renewal.renews(view, new):
            return plan_floors_together(self, view, new, now.windows[0], groups)
        # A draft is no promise, so jobs that are bought together have a plan that is kept, or none.
        renewed = renewal.renew(self, view, [job for job in new if job.together is None], now.windows)
        view = replace(view, floors={**view.floors, **{floor.job: floor for floor in renewed}})
        newcomers = [job for job in new if job.number not in view.floors]
        return renewed + plan_floors_together(self, view, newcomers, now.windows[0], groups)


def _decide_round(round_: Round, jobs: Sequence[Job], floors: Mapping[int, Floor]) -> tuple[Round, Window]:
    """Decide phase one, then phase two (Algorithm 2, G3, G5)."""
    if round_.settings.floor:
        award_at_home(round_, jobs, floors)
    else:
        award_from_shares(round_, jobs)
    return rent_from_pool(round_, jobs, floors)


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Astraea:
    """Build Astraea with the settings of a scenario. Raises BadScenario naming the field."""
    return Astraea(**read_settings(fields, cluster, jobs))
