"""Making one history from a log and from what is known of its machines and owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from scheduling.core.scenario import BadScenario
from scheduling.lab.histories.history import (
    DAY,
    HOUR,
    OTHERS,
    History,
    Log,
    LoggedJob,
    Machine,
    day_bounds,
    name_beside,
    peak_units,
    zone_of,
)
from scheduling.lab.histories.lines import digits
from scheduling.lab.histories.machines import MOST, alike, cells_of_counts, cells_of_nodes, shares_of

SLOTS = (3600, 1800, 1200, 900, 600, 300)  # lengths of a slot to choose from, in seconds
LONG_SLOT = 7200  # of more than 500 days, for which all of these are too many slots
ROUNDED = 0.05  # the longest slot that adds no more than this part to the work is taken
MOST_SLOTS = 12_000  # slots of the days themselves
MOST_DAYS = 1_000
UNITS_OF_A_SERVER = 8  # where nothing is known about the machines
MOST_NODES, MOST_PROCESSORS = 200_000, 10**8  # larger numbers in a log's heading are not believed


@dataclass(frozen=True)
class Wishes:
    """The choices of a study about its history that the log does not make. None leaves one open."""

    zone: str
    unit: str
    first_day: date | None = None
    days: int | None = None
    slot_seconds: int | None = None
    most_owners: int = 12
    nodes: Mapping[str, str] | None = None  # by owner, a list of nodes
    quotas: Mapping[str, int] | None = None  # by owner, a number of units


def assemble(log: Log, machines: tuple[Machine, ...] | None, wishes: Wishes) -> History:
    """Return the history of the days that the study asks for. Its notes say what had to be assumed."""
    jobs, first, days = _of_the_days(log, wishes)
    also_left_out = {"submitted on other days": len(log.jobs) - len(jobs)}
    machines, notes = _machines(jobs, machines, log.facts)
    jobs, also_left_out["larger than the cluster"] = _that_fit(jobs, sum(machine.units for machine in machines))
    wanted = wishes.nodes if wishes.nodes is not None else wishes.quotas if wishes.quotas is not None else {}
    jobs, count, joined = _join_small_owners(jobs, set(wanted), wishes.most_owners)
    owners = tuple(dict.fromkeys((*(job.owner for job in jobs), *(name for name in wanted if wanted[name]))))
    cells, how = _cells(machines, owners, jobs, wishes)
    if jobless := [name for name in wanted if wanted[name] and all(job.owner != name for job in jobs)]:
        notes.append(f"without a job: {', '.join(jobless)}")
    if count:
        notes.append(f"{count:,} owners with the least use are one, called {joined}")
    slot_seconds = wishes.slot_seconds or slot_choice(jobs, days)
    if days * DAY / slot_seconds > MOST_SLOTS:
        raise BadScenario("history.slot_minutes", f"makes more than {MOST_SLOTS:,} slots of {days} days")
    added = 100 * rounding_of(jobs, slot_seconds)
    notes.append(f"a slot is {slot_seconds // 60} minutes; whole slots add {added:.1f} % to the work")
    zone = zone_of(wishes.zone)
    return History(
        jobs=jobs,
        machines=machines,
        owners=owners,
        cells=cells,
        slot_seconds=slot_seconds,
        midnights=day_bounds(zone, first, days),
        dates=tuple((first + timedelta(days=k)).isoformat() for k in range(days)),
        zone=wishes.zone,
        unit=wishes.unit,
        notes=(how, *notes),
        rows=log.rows,
        left_out={**log.left_out, **{why: count for why, count in also_left_out.items() if count}},
        bad=log.bad,
        has_starts=any(job.started is not None for job in jobs),
    )


def slot_choice(jobs: tuple[LoggedJob, ...], days: int) -> int:
    """Return the longest slot in which whole slots add little to the work, or else the shortest that leaves few enough
    slots."""
    few_enough = [seconds for seconds in SLOTS if days * DAY / seconds <= MOST_SLOTS]
    near = [seconds for seconds in few_enough if rounding_of(jobs, seconds) <= ROUNDED]
    return (near or few_enough[-1:] or [LONG_SLOT])[0]


def rounding_of(jobs: tuple[LoggedJob, ...], slot_seconds: int) -> float:
    """Return by which part the work grows when every run takes whole slots."""
    work = sum(job.units * job.seconds for job in jobs)
    whole = sum(job.units * -(-job.seconds // slot_seconds) * slot_seconds for job in jobs)
    return whole / work - 1.0


def _of_the_days(log: Log, wishes: Wishes) -> tuple[tuple[LoggedJob, ...], date, int]:
    """Return the jobs submitted in the days asked for, in order of submission, with the first day and the number of
    days."""
    jobs = tuple(sorted(log.jobs, key=lambda job: job.submitted))
    if not jobs:
        others = ", ".join(f"{count:,} {why}" for why, count in log.left_out.items())
        raise BadScenario("history.file", f"tells of no job that ran{f': left out are {others}' if others else ''}")
    zone = zone_of(wishes.zone)
    first = wishes.first_day or datetime.fromtimestamp(jobs[0].submitted, zone).date()
    last = datetime.fromtimestamp(jobs[-1].submitted, zone).date()
    days = wishes.days or (last - first).days + 1
    if not 2 <= days <= MOST_DAYS:
        bounds = f"must be 2 to {MOST_DAYS:,} for draws of whole days"
        if wishes.days is not None:
            raise BadScenario("history.days", f"{bounds}, not {days:,}")
        span = f"jobs were submitted from {first.isoformat()} to {last.isoformat()}"
        raise BadScenario("history.days", f"{bounds}; {span}. Say first_day and days, or take another log")
    begin, *_, end = day_bounds(zone, first, days)
    inside = tuple(job for job in jobs if begin <= job.submitted < end)
    if not inside:
        raise BadScenario("history.first_day", f"no job was submitted in the {days} days from {first.isoformat()}")
    return inside, first, days


def _machines(
    jobs: tuple[LoggedJob, ...], machines: tuple[Machine, ...] | None, facts: Mapping[str, str]
) -> tuple[tuple[Machine, ...], list[str]]:
    """Return the machines, and what was assumed about them."""
    if machines is not None:
        return machines, []
    processors = _fact(facts, "MaxProcs", MOST_PROCESSORS)
    nodes = _fact(facts, "MaxNodes", MOST_NODES)
    if nodes and processors >= nodes:
        note = f"machines are those of the log's heading: {nodes:,} with {processors // nodes:,} processors"
        return alike(nodes, processors // nodes), [note]
    peak = processors or peak_units(jobs)
    each = max(UNITS_OF_A_SERVER, -(-peak // MOST))
    servers = -(-peak // each)
    why = "the log's heading" if processors else "the most that the log ever used at once"
    return alike(servers, each), [f"the machines are not known: {servers:,} with {each:,} units each, from {why}"]


def _fact(facts: Mapping[str, str], name: str, most: int) -> int:
    """Return a number of the log's heading, without the commas and words that some have, or 0 where it has none."""
    text = facts.get(name, "").split(" ", 1)[0].replace(",", "")
    if not (text.isascii() and text.isdigit()):
        return 0
    if (number := digits(text, most)) is None:
        message = f"the log's heading says {name}: {text[:20]!a}, more than {most:,}; say which machines there are"
        raise BadScenario("history.machines", message)
    return number


def _that_fit(jobs: tuple[LoggedJob, ...], units: int) -> tuple[tuple[LoggedJob, ...], int]:
    fitting = tuple(job for job in jobs if job.units <= units)
    if not fitting:
        raise BadScenario("history.machines", f"every job is larger than the cluster of {units:,} units")
    return fitting, len(jobs) - len(fitting)


def _join_small_owners(
    jobs: tuple[LoggedJob, ...], with_cells: set[str], most: int
) -> tuple[tuple[LoggedJob, ...], int, str]:
    """Return the jobs, with all owners under one name but for those that own cells and the largest others. Also return
    the number of owners that were joined, and their name, which none of the rest has."""
    use: Counter[str] = Counter()
    for job in jobs:
        use[job.owner] += job.units * job.seconds
    order = {name: number for number, name in enumerate(use)}  # order of first submission, so that names decide nothing
    ranked = sorted(use, key=lambda name: (name not in with_cells, -use[name], order[name]))
    small = set(ranked[max(most - 1, len(with_cells & use.keys())) :]) if len(ranked) > most else set()
    name = name_beside(OTHERS, use.keys() - small)
    return tuple(replace(job, owner=name) if job.owner in small else job for job in jobs), len(small), name


def _cells(
    machines: tuple[Machine, ...], owners: tuple[str, ...], jobs: tuple[LoggedJob, ...], wishes: Wishes
) -> tuple[tuple[tuple[int, ...], ...], str]:
    """Return the units of each owner on each machine, and how that is known."""
    if wishes.nodes is not None:
        return cells_of_nodes(machines, owners, wishes.nodes, "history.nodes"), "each owner has the nodes of the table"
    total = sum(machine.units for machine in machines)
    if wishes.quotas is not None:
        counts = tuple(wishes.quotas.get(owner, 0) for owner in owners)
        if sum(counts) > total:
            raise BadScenario("history.quotas", f"sum to {sum(counts):,} units; the cluster has {total:,}")
        return cells_of_counts(machines, counts), "each owner has the units that the study names"
    use = dict.fromkeys(owners, 0.0)
    for job in jobs:
        use[job.owner] += job.units * job.seconds / HOUR
    counts = shares_of(total, tuple(use.values()))
    return cells_of_counts(machines, counts), "who owns what is not known: units are dealt in proportion to use"
