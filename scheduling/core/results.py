"""Write result files: the decision about every job, its consequences for every tenant, and the figures of the run.

The same scenario and the same policy give the same document, byte for byte, except for `seconds`: rows are in the
order of submission, servers in that of the cluster, and amounts are written to twelve decimals, which is finer
than the market counts and coarser than what another processor's arithmetic may change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from scheduling.core import metrics
from scheduling.core.metrics.books import realised
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, Track
from scheduling.core.types import AWARDED, BATCH, INSTANT, WAITING, Allocation, Cluster, Job, Policy

FORMAT = "result/1"
DECIMALS = 12
UNEXPLAINED = {"code": "waiting_for_interval"}  # nobody decided about the job yet

PLAIN = {int, str, bool, type(None)}

Document = dict[str, Any]


def document(
    scenario: Scenario,
    policies: Mapping[str, Policy],
    outcome: Outcome,
    alone: Sequence[float | None],
    seconds: Mapping[str, float],
) -> Document:
    """Return the result of a run. `alone` (tenants,) is what each tenant would have gained alone; `seconds` is the time
    that the run took, in total and to decide."""
    batch = policies[BATCH]
    result: Document = {"format": FORMAT, "policy": settings(batch)}
    if INSTANT in policies:
        result["instant"] = settings(policies[INSTANT])
    if guard := outcome.memory.get(BATCH, {}).get("guard"):
        result["guard"] = guard  # the slot from which a teacher decided in place of a network, and why
    result["jobs"] = [job_row(scenario.cluster, track) for track in outcome.tracks]
    result["tenants"] = metrics.tenant_rows(scenario, outcome, alone)
    result["metrics"] = dict(metrics.summary(scenario, outcome))
    cleaned: Document = plain(result)
    cleaned["seconds"] = {name: round(length, 6) for name, length in seconds.items()}
    return cleaned


def settings(policy: Policy) -> Document:
    """Return the policy's name and its fields as used, so that it can be built again. A field that was added later than
    others is left out where it has its default, so that results read as they did before."""
    used = {field.name: (getattr(policy, field.name), field) for field in _fields(policy)}
    return {"name": policy.name} | {
        name: value for name, (value, field) in used.items() if not field.metadata or value != _default(field)
    }


def _default(field: Any) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _fields(policy: object) -> Iterable[Any]:
    return fields(policy) if is_dataclass(policy) else ()


def job_row(cluster: Cluster, track: Track) -> Document:
    """Return the row of one job: its state, its schedule and its terms; the schedule is null where there is none."""
    bookings = track.bookings
    first = bookings[0] if bookings else None
    done = track.state == AWARDED
    value, paid = _value(track), sum((booking.paid for booking in bookings), 0.0)
    refund = track.settlement.refund if track.settlement else 0.0
    row: Document = {
        "name": track.job.name,
        "state": track.state,
        "reason": _reason(track),
        "phase": first.phase if first else None,
        "placement": first.placement if first else None,
        "start": min(booking.start for booking in bookings) if bookings else None,
        "end": max(booking.end for booking in bookings) if done else None,
        "workers": max((booking.workers for booking in bookings), default=0),
        "ps": max((booking.ps for booking in bookings), default=0),
        "allocation": _allocation(cluster, track),
        "value": value,
        "floor": track.floor.value if track.floor else sum((booking.floor for booking in bookings), 0.0),
        "cost": sum((booking.cost for booking in bookings), 0.0),
        "surplus": value - paid + refund,  # where payment is gross, `paid` is `cost`
        "paid": paid,
        "payouts": _payouts(cluster, track),
    }
    shadow = sum(booking.shadow_cost for booking in bookings)
    second = _second_edition(track) | _pieces(track)
    return row | ({"shadow_cost": shadow} if shadow else {}) | second | _types(track.job, track)


def _second_edition(track: Track) -> Document:
    """Return the fields that only renewed plans and dividends have; they are left out where there are none.

    `payouts` add up to `paid` less `refund`. `alone` is what the job is worth in the world in which its owner is alone:
    it is missing as long as the job waits there.
    """
    dividend = sum((booking.dividend for booking in track.bookings), 0.0)
    row: Document = {"dividend": dividend} if dividend else {}
    if track.settlement is not None:
        row |= {"refund": track.settlement.refund, "alone": track.settlement.alone}
    elif track.floor is not None and track.floor.draft:
        row |= {"draft": True}
    return row


def _pieces(track: Track) -> Document:
    """Return the pieces of a job that was done in several: for each the share of the job that was done after it, what
    the job was worth to its owner then (D5), and what was paid for it."""
    if not track.job.divisible or not track.bookings or sum(b.work for b in track.bookings[:1]) >= track.job.work:
        return {}
    done, rows = 0.0, []
    for booking in track.bookings:
        done += booking.work
        share = done / track.job.work
        rows.append(
            {
                "slots": [booking.start, booking.end],
                "phase": booking.phase,
                "workers": booking.workers,
                "share_done": share,
                "worth": booking.value,
                "paid": booking.paid,
            }
        )
    return {"pieces": rows}


def _reason(track: Track) -> Document | None:
    if track.state == AWARDED:
        return None
    if track.reason is None:
        return dict(UNEXPLAINED) if track.state == WAITING else None
    return {"code": track.reason.code, **track.reason.numbers}


def _value(track: Track) -> float:
    """Return the value that the policy maximised. For a policy that considers no values, and for a job that was done in
    pieces, return the value of the completion; for a job in pieces that was not finished, the worth that was stored."""
    if track.worth or (track.job.divisible and (len(track.bookings) > 1 or track.state != AWARDED)):
        return realised(track)
    total = sum((booking.value for booking in track.bookings), 0.0)
    if total == 0 and track.state == AWARDED:
        end = max(booking.end for booking in track.bookings)
        return float(track.job.value(end - track.job.arrival))
    return total


def _payouts(cluster: Cluster, track: Track) -> dict[str, float]:
    """Return what each owner receives, by its name; owners that receive nothing are left out."""
    total = np.zeros(len(cluster.owners))
    for booking in track.bookings:
        if booking.payouts is not None:
            total += booking.payouts
    if track.settlement is not None:
        total -= track.settlement.reversal
    received = zip(cluster.owners, total.tolist(), strict=True)
    return {owner: amount for owner, amount in received if round(amount, DECIMALS)}


def _types(job: Job, track: Track) -> Document:
    """Return the indexes of the unit types that the job runs on, for those kinds of which it has several."""
    used: Document = {}
    for name, alternatives in (("worker_type", job.worker_types), ("ps_type", job.ps_types)):
        if len(alternatives) > 1 and track.bookings:
            used[name] = getattr(track.bookings[0], name)
    return used


def _allocation(cluster: Cluster, track: Track) -> list[Document]:
    """Return a row for each server and run of slots with the same numbers, whatever bookings they belong to."""
    parts = [part for booking in track.bookings for part in booking.allocation]
    if len({part.server for part in parts}) == len(parts):  # nothing to merge, as in most jobs
        runs = sorted((part.server, part.start, part.end, part.workers, part.ps) for part in parts)
    else:
        runs = _merged(parts)
    return [
        {"server": cluster.servers[server], "slots": [start, end], "workers": workers, "ps": ps}
        for server, start, end, workers, ps in runs
        if workers or ps
    ]


def _merged(parts: Iterable[Allocation]) -> list[tuple[int, int, int, int, int]]:
    """Return rows (server, start, end, workers, ps): adjacent parts are joined, and overlapping parts are added up."""
    changes: defaultdict[int, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for part in parts:
        for slot, sign in ((part.start, 1), (part.end, -1)):
            change = changes[part.server][slot]
            change[0] += sign * part.workers
            change[1] += sign * part.ps
    return [(server, *run) for server in sorted(changes) for run in _runs(changes[server])]


def _runs(changes: Mapping[int, Sequence[int]]) -> Iterable[tuple[int, int, int, int]]:
    """Yield (start, end, workers, ps) of the stretches between changes; changes that cancel out do not count."""
    slots = [slot for slot in sorted(changes) if any(changes[slot])]
    workers = ps = 0
    for start, end in pairwise(slots):
        workers, ps = workers + changes[start][0], ps + changes[start][1]
        yield start, end, workers, ps


def plain(value: Any) -> Any:
    """Return the value as plain JSON: floats to twelve decimals and never -0.0, containers as lists and objects."""
    kind = type(value)
    if kind is float:
        return round(value, DECIMALS) + 0.0
    if kind in PLAIN:
        return value
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value
