"""Optimus as a policy: gather what jobs could use, allocate units, place gangs, and book the coming slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, ClassVar

import numpy as np

from scheduling.core.empty import possible_types
from scheduling.core.gangs import GangUnits
from scheduling.core.placement import Vacancies
from scheduling.core.policies.optimus.allocation import SKIP, JobDemands, allocate, dominant
from scheduling.core.policies.optimus.jobs import ElasticJob, Pair, facts_of, fit_speeds, remaining_seconds
from scheduling.core.policies.optimus.parts import EVEN, OWN, OWN_PLACES, Placer, numbers_of, rows_of
from scheduling.core.policies.optimus.placing import Order, PlacingServers, Row
from scheduling.core.policies.optimus.pools import choose_types, demands, free_now, gang_share, is_mixed, pools
from scheduling.core.slot_bookings import SlotPart, part_booking
from scheduling.core.speed import elastic_rate
from scheduling.core.types import CENTRALIZED, DISTRIBUTED, REJECTED, Booking, Cluster, Job, Plan, Reason, Refusal, View

YOUNG_EPOCHS, YOUNG_PART = 5, 0.1  # a job with fewer epochs, or a smaller part of all of them, done is young
WORTH = 2.0  # a restart must save more than this many times its cost
LONGEST_RESTART = 0.9  # the most of a slot that a restart takes, so that every slot trains something


class _Carried:
    """What the policy carries beside its settings: the other policies that do its parts. They are no fields."""

    _allocator: Placer | None
    _placer: Placer | None


@dataclass(frozen=True)
class Optimus(_Carried):
    """The policy and its settings.

    `max_ps` and `max_workers` limit every job, `young` weighs the gains of jobs that began only recently, `restart` is
    what a change costs in seconds, and after `max_restarts` changes a job keeps its numbers. `key` is the resource by
    which servers are sorted (None: cpu, or else the first). `unit` and `stop` are explained in `allocation`. With
    `retry` a gang that found no place is tried once more with its least numbers, anywhere. `allocation` and `placement`
    may name another policy that decides numbers, or places; `parts` explains Optimus' own placements and `scatter`."""

    name: ClassVar[str] = "optimus"
    max_ps: int = 16
    max_workers: int = 16
    unit: str = "share"
    stop: str = SKIP
    young: float = 0.95
    restart: float = 30.0
    max_restarts: int | None = None
    key: str | None = None
    retry: bool = True
    scatter: bool = True
    allocation: str = OWN
    placement: str = EVEN
    allocator: InitVar[Placer | None] = None
    placer: InitVar[Placer | None] = None

    def __post_init__(self, allocator: Placer | None, placer: Placer | None) -> None:
        own = self.allocation == OWN, self.placement in OWN_PLACES
        for name, other, is_own in zip((self.allocation, self.placement), (allocator, placer), own, strict=True):
            if is_own != (other is None):
                raise ValueError(f"the part of {name} is missing, or one too many is given")
        object.__setattr__(self, "_allocator", allocator)
        object.__setattr__(self, "_placer", placer)

    @property
    def heeds_reports(self) -> bool:
        """Return whether jobs' reports of their remaining work are heeded. In Optimus' own allocation a unit gains less
        for a job that has less to go; in another policy's perhaps not."""
        return self.allocation == OWN

    def heeded(self, job: Job, rest: float, reported: float) -> float:
        """Return the rest to count with: the `reported` one. Gains of a young job are multiplied by `young`. A job that
        is young by its declared `rest` but not by its report has at most `rest` * `young` left, so that it gains
        nothing by seeming old."""
        return min(reported, rest * self.young) if _is_young(job, rest) and not _is_young(job, reported) else reported

    def decide(self, view: View) -> Plan:
        """Book one slot for every job that gets a gang and a place."""
        rows: Mapping[str, Any] = view.memory.get("jobs", {})
        jobs: list[ElasticJob] = []
        refusals: list[Refusal] = []
        choices: list[Sequence[Pair]] = []
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            if types := possible_types(job, view.cluster):
                facts = facts_of(job, self.max_ps, self.max_workers)
                jobs.append(ElasticJob.read(job, facts, remaining, rows.get(str(job.number))))
                choices.append(types)
            else:
                refusals.append(Refusal(job.number, Reason("no_room", {"asked": job.min_workers}), REJECTED))
        if not jobs:
            return Plan((), refusals, memory={"jobs": {}})
        numbers = self._numbers(jobs, choices, view)
        bookings = self._placed(jobs, numbers, view)
        refusals += [
            Refusal(each.job.number, Reason("no_room", {"asked": each.job.min_workers}))
            for each in jobs
            if each.held is None
        ]
        return Plan(bookings, refusals, memory={"jobs": {str(each.job.number): each.memory() for each in jobs}})

    def _numbers(self, jobs: Sequence[ElasticJob], choices: Sequence[Sequence[Pair]], view: View) -> list[Pair]:
        """Return the (parameter servers, workers) of every job; (0, 0) for those that get nothing."""
        if self._allocator is not None:
            return numbers_of(self._allocator, jobs, view)
        cluster, mixed = view.cluster, is_mixed(view.cluster)
        total, free = pools(cluster, cluster.capacity), pools(cluster, free_now(view))
        choose_types(jobs, choices, free, mixed)
        limits = [self._most(each) for each in jobs]
        least, most = np.array([self._least(each) for each in jobs]), np.array(limits)
        fit_speeds(jobs, limits)
        shape = (int((most - least)[:, 0].max()) + 1, int((most - least)[:, 1].max()) + 1)
        demand = np.array([demands(each.job, each.types, mixed) for each in jobs])
        wishes = JobDemands(
            seconds=remaining_seconds(jobs, least, shape),
            least=least,
            most=most,
            demand=demand,
            weight=dominant(demand, total, self.unit),
            factor=np.array([self.young if _is_young(each.job, each.remaining) else 1.0 for each in jobs]),
        )
        pairs = map(tuple, allocate(wishes, free, self.stop).tolist())
        return [
            self._worth_it(each, pair, wishes, index)
            for index, (each, pair) in enumerate(zip(jobs, pairs, strict=True))
        ]

    def _frozen(self, each: ElasticJob) -> Pair | None:
        """Return the numbers of a job that may not be restarted any more, None for other jobs."""
        if self.max_restarts is None or each.restarts < self.max_restarts:
            return None
        return each.numbers

    def _least(self, each: ElasticJob) -> Pair:
        return self._frozen(each) or each.facts.least

    def _most(self, each: ElasticJob) -> Pair:
        return self._frozen(each) or each.facts.most

    def _worth_it(self, each: ElasticJob, pair: Pair, wishes: JobDemands, index: int) -> Pair:
        """Return the pair given, or what the job has now if growing would not save twice what it costs."""
        now = each.numbers
        if now is None or pair == now or pair[0] < now[0] or pair[1] < now[1]:
            return pair
        ps, workers = wishes.least[index].tolist()
        before, after = (wishes.seconds.item(index, p - ps, w - workers) for p, w in (now, pair))
        return pair if before - after > WORTH * self.restart else now

    def _placed(self, jobs: Sequence[ElasticJob], numbers: Sequence[Pair], view: View) -> list[Booking]:
        """Place the gangs, and return bookings in order of arrival. Jobs that keep their numbers keep their servers; of
        the others the smallest gang is placed first."""
        servers = PlacingServers(Vacancies(view.cluster, view.occupied), self._key(view.cluster))
        rows: dict[int, Sequence[Row]] = {}
        moving = []
        total = view.cluster.total.tolist()
        for index, (each, (ps, workers)) in enumerate(zip(jobs, numbers, strict=True)):
            if not workers:
                continue
            needs = each.needs
            if each.held is not None and each.numbers == (ps, workers) and servers.again(needs, each.held):
                rows[index] = each.held
            else:
                order = Order(workers, ps, *each.units)
                moving.append((gang_share(needs[workers, ps], total), index, order))
        moving.sort(key=lambda row: row[:2])  # jobs come in order of arrival
        placed_rows = self._found_by_another(servers, [(jobs[index], order) for _, index, order in moving], view)
        for _, index, order in moving:
            place = self._place(servers, order) if self._placer is None else placed_rows.get(jobs[index].job.number)
            if place is None and self.retry:
                ps, workers = self._least(jobs[index])
                place = servers.anywhere(Order(workers, ps, *jobs[index].units))
            if place is not None:
                rows[index] = place
        return [booking for index, each in enumerate(jobs) if (booking := self._book(each, rows.get(index), view))]

    def _place(self, servers: PlacingServers, order: Order) -> list[Row] | None:
        """Place the gang on the fewest servers. If there is no room that way, place it anywhere, provided that
        `scatter` is set or some servers host one kind only."""
        gang_rows = servers.nearly(order) if self.placement == EVEN else servers.evenly(order)
        if gang_rows is None and (self.scatter or servers.apart):
            gang_rows = servers.anywhere(order)
        return gang_rows

    def _found_by_another(
        self, servers: PlacingServers, moving: Sequence[tuple[ElasticJob, Order]], view: View
    ) -> dict[int, list[Row]]:
        """Return, by job, where the other policy places the gangs that do not keep their servers."""
        if self._placer is None:
            return {}
        gangs = {each.job.number: GangUnits(order.workers, order.ps, *each.types) for each, order in moving}
        orders = {each.job.number: order for each, order in moving}
        gang_rows = rows_of(self._placer, servers.vacancies, gangs, view)
        return {number: rows for number, rows in gang_rows.items() if servers.again(orders[number].needs, rows)}

    def _key(self, cluster: Cluster) -> int:
        name = self.key or "cpu"
        return cluster.resources.index(name) if name in cluster.resources else 0

    def _book(self, each: ElasticJob, rows: Sequence[Row] | None, view: View) -> Booking | None:
        """Book the coming slot, and remember it in the job. Only the last booking carries the value of the run."""
        moves = each.put(rows)
        if each.held is None or each.numbers is None:
            return None
        slot_seconds = view.cluster.slot_seconds
        ps, workers = each.numbers
        gang, centralized = GangUnits(workers, ps, *each.types), ps <= 1 and len(each.held) == 1
        spread = len(each.held) if each.job.all_reduce else None
        rate = elastic_rate(each.job, workers, ps, each.types, slot_seconds, centralized=centralized, servers=spread)
        each.note((ps, workers), rate / slot_seconds)
        if moves and each.remaining < each.job.work:
            each.restarts += 1
            rate *= 1.0 - min(self.restart / slot_seconds, LONGEST_RESTART)
        part = SlotPart(gang, CENTRALIZED if centralized else DISTRIBUTED, each.held)
        return part_booking(each.job, each.remaining, part, rate, view)


def _is_young(job: Job, remaining: float) -> bool:
    done = 1.0 - remaining / job.work
    return done * job.epochs < YOUNG_EPOCHS or done < YOUNG_PART
