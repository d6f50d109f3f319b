"""Write views and plans as the bytes that stored intervals consist of, and read them back.

The bytes are canonical: the same value gives the same bytes on every machine, so that a replay can be compared with
what was stored, and a digest of the bytes stands for the value. Numbers are written so that they read back exactly.

What was stored by older versions is read for good, and written again to the same bytes. So a field that comes later is
left out where it has its usual value, and read as that where it is missing; and where the form of an answer changed,
`plan_bytes_like` writes it in the form of the stored one. `tests/core/test_records.py` finds a field of a job that is
forgotten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from scheduling.core.plain import Document, RowTexts, array_from, canonical, plain, plain_array, record
from scheduling.core.types import (
    KEEP,
    Allocation,
    Booking,
    Cluster,
    FloatArray,
    Floor,
    Job,
    Plan,
    Reason,
    Refusal,
    Resale,
    Samples,
    Settlement,
    Split,
    Supply,
    Tenant,
    UnitType,
    Value,
    View,
    Window,
    read_only,
)
from scheduling.core.value import KINDS


def to_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a document as the bytes of canonical JSON."""
    return canonical(document).encode("ascii")


def texts_to_bytes(texts: Mapping[str, str]) -> bytes:
    """Return the bytes of canonical JSON of an object whose fields are canonical JSON already."""
    return ("{" + ",".join(f'"{name}":{texts[name]}' for name in sorted(texts)) + "}").encode("ascii")


def digest(previous: str, *parts: bytes) -> str:
    """Return a link of a chain: SHA-256 in hexadecimal over the previous digest and each part with its length."""
    link = hashlib.sha256(previous.encode("ascii"))
    for part in parts:
        link.update(len(part).to_bytes(8, "big"))
        link.update(part)
    return link.hexdigest()


def view_bytes(view: View) -> bytes:
    """Return a view as bytes, with only those of its jobs that its other fields name. The text of a job that was
    written before is used again."""
    return texts_to_bytes(_texts(view) | {"cluster": canonical(cluster_document(view.cluster))})


def cluster_document(cluster: Cluster) -> Document:
    """Return the document of a cluster: its machines, their owners and the owners' terms."""
    document = record(cluster) | {"tenants": [_without(record(tenant), plan=KEEP) for tenant in cluster.tenants]}
    if not cluster.least_payment:
        del document["least_payment"]  # so that the bytes are those from before there was this field
    return document


def view_text(view: View) -> str:
    """Return the text of a view without its cluster, which many views have in common."""
    return texts_to_bytes(_texts(view)).decode("ascii")


def _texts(view: View) -> dict[str, str]:
    """Return the canonical JSON of each field but the cluster. `occupied` is written row by row, since most of its rows
    are the same from one decision to the next."""
    texts = {name: canonical(value) for name, value in _beside_jobs(view).items()}
    texts["jobs"] = "[" + ",".join(map(_job_text, _jobs_named(view))) + "]"
    texts["occupied"] = _row_texts.setdefault(view.cluster, RowTexts()).text(view.occupied)
    return texts


_row_texts: WeakKeyDictionary[Cluster, RowTexts] = WeakKeyDictionary()  # by the cluster whose servers are the columns


def _jobs_named(view: View) -> list[Job]:
    """Return the jobs that wait or that other fields of the view name, in order of their numbers."""
    named = {job.number for job in view.waiting} | {b.job for b in (*view.active, *view.open_rents)} | set(view.floors)
    jobs = {number: view.jobs[number] for number in named if number in view.jobs}
    jobs |= {job.number: job for job in view.waiting}
    return [jobs[number] for number in sorted(jobs)]


def _beside_jobs(view: View) -> Document:
    document = {
        "slot": view.slot,
        "horizon": view.horizon,
        "waiting": [job.number for job in view.waiting],
        "remaining": plain_array(view.remaining),
        "active": [_booking(booking) for booking in view.active],
        "floors": [_floor(view.floors[number]) for number in sorted(view.floors)],
        "windows": [_window(window) for window in view.windows],
        "tail": plain_array(view.tail),
        "spent": plain_array(view.spent),
        "funds": plain_array(view.funds),
        "memory": dict(view.memory),
    }
    if view.frontier > view.slot:  # else it adds nothing to the slot
        document["frontier"] = view.frontier
    if view.paid:
        document["paid"] = [[number, view.paid[number]] for number in sorted(view.paid)]
    if view.paid_for_lost:
        document["paid_for_lost"] = [[number, view.paid_for_lost[number]] for number in sorted(view.paid_for_lost)]
    if view.resale:
        document["resale"] = [record(resale) for resale in view.resale]
    if view.worths:
        document["worths"] = [[number, view.worths[number]] for number in sorted(view.worths)]
    if view.open_rents:
        document["open_rents"] = [_booking(booking) for booking in view.open_rents]
    if view.undone:
        document["undone"] = sorted(view.undone)
    if view.own_idle is not None:
        document["own_idle"] = plain_array(view.own_idle)
    return document


def view_from(stored: bytes) -> View:
    """Return the view that was stored."""
    document = json.loads(stored)
    return view_of(document, cluster_of(document["cluster"]))


def view_of(document: Mapping[str, Any], cluster: Cluster, jobs: Mapping[int, Job] | None = None) -> View:
    """Return the view that a document describes, in this cluster. `jobs` are its jobs if they were read already."""
    jobs = jobs_from(document["jobs"]) if jobs is None else jobs
    return View(
        slot=document["slot"],
        horizon=document["horizon"],
        cluster=cluster,
        waiting=tuple(jobs[number] for number in document["waiting"]),
        remaining=array_from(document["remaining"]),
        occupied=array_from(document["occupied"]),
        active=tuple(_booking_from(row) for row in document["active"]),
        jobs=jobs,
        floors={row["job"]: _floor_from(row) for row in document["floors"]},
        windows=tuple(_window_from(row) for row in document["windows"]),
        tail=None if document["tail"] is None else array_from(document["tail"]),
        spent=array_from(document["spent"]),
        funds=None if document["funds"] is None else array_from(document["funds"]),
        memory=document["memory"],
        frontier=document.get("frontier", 0),
        resale=tuple(Resale(**row) for row in document.get("resale", ())),
        paid=dict(document.get("paid", ())),
        paid_for_lost=dict(document.get("paid_for_lost", ())),
        open_rents=tuple(_booking_from(row) for row in document.get("open_rents", ())),
        undone=frozenset(document.get("undone", ())),
        own_idle=array_from(document["own_idle"]) if "own_idle" in document else None,
        worths=dict(document.get("worths", ())),
    )


def jobs_from(rows: Sequence[Mapping[str, Any]]) -> dict[int, Job]:
    """Return the jobs of a stored view by number."""
    units: dict[str, UnitType] = {}
    return {row["number"]: job_from(row, units) for row in rows}


WITH_PAYOUTS, WITH_SUPPLIES, WITH_SUMS = range(3)  # the forms of an answer, the oldest first
_IN_PAIRS = "in_pairs"


def plan_bytes(plan: Plan, *, form: int = WITH_SUMS) -> bytes:
    """Return a policy's whole answer as bytes. What the owners sell is stated once, for all bookings whose payouts
    follow from it, and a booking's payouts are left out where they are sums of those of its slots. In the oldest form
    each booking has all its payouts itself; in the one after it, payouts are left out only where they are added one
    slot after the other."""
    supplies: dict[Supply, int] = {}  # by identity, the place of each in the list
    document: Document = {
        "bookings": [_booking_in(booking, supplies, form) for booking in plan.bookings],
        "refusals": [{"job": r.job, "state": r.state, **_reason(r.reason)} for r in plan.refusals],
        "floors": [_floor(floor) for floor in plan.floors],
        "windows": [_window(window) for window in plan.windows],
        "memory": None if plan.memory is None else dict(plan.memory),
        "frontier": plan.frontier,
    }
    if plan.smaller:
        document["smaller"] = [{"job": number, **_reason(plan.smaller[number])} for number in sorted(plan.smaller)]
    if plan.worths:
        document["worths"] = [[number, plan.worths[number]] for number in sorted(plan.worths)]
    if plan.settlements:
        document["settlements"] = [_without(record(settlement), worth=None) for settlement in plan.settlements]
    if supplies:
        document["supplies"] = [{"start": supply.start, "units": plain_array(supply.units)} for supply in supplies]
    return to_bytes(document)


def plan_bytes_like(stored: bytes, plan: Plan) -> bytes:
    """Return an answer as bytes in the form of one that is stored, to be compared with it."""
    if b'"supplies":' not in stored:
        return plan_bytes(plan, form=WITH_PAYOUTS)
    return plan_bytes(plan, form=WITH_SUMS if f'"sum":"{_IN_PAIRS}"'.encode() in stored else WITH_SUPPLIES)


def plan_from(stored: bytes) -> Plan:
    """Return the plan that was stored."""
    document = json.loads(stored)
    supplies = [Supply(row["start"], array_from(row["units"])) for row in document.get("supplies", ())]
    return Plan(
        bookings=tuple(_booking_from(row, supplies) for row in document["bookings"]),
        refusals=tuple(
            Refusal(row["job"], Reason(row["code"], row["numbers"]), row["state"]) for row in document["refusals"]
        ),
        floors=tuple(_floor_from(row) for row in document["floors"]),
        windows=tuple(_window_from(row) for row in document["windows"]),
        memory=document["memory"],
        frontier=document["frontier"],
        smaller={row["job"]: Reason(row["code"], row["numbers"]) for row in document.get("smaller", ())},
        settlements=tuple(
            Settlement(**{**row, "reversal": array_from(row["reversal"])}) for row in document.get("settlements", ())
        ),
        worths=dict(document.get("worths", ())),
    )


def _reason(reason: Reason) -> Document:
    return {"code": reason.code, "numbers": plain(dict(reason.numbers))}


_job_texts: WeakKeyDictionary[Job, str] = WeakKeyDictionary()  # compared by identity; a job never changes


def _job_text(job: Job) -> str:
    """Return the canonical JSON of a job, and remember it: a long queue holds mostly the same jobs from one interval to
    the next, as the same objects."""
    text = _job_texts.get(job)
    if text is None:
        text = _job_texts[job] = canonical(_job(job))
    return text


def _job(job: Job) -> Document:
    kind = next(kind for kind, form in KINDS.items() if type(job.value) is form)
    seldom = {"divisible": False, "save_slots": 0.0, "unbroken": False, "together": None, "asked_workers": None}
    return _without(record(job), **seldom) | {
        "worker_types": [record(unit) for unit in job.worker_types],
        "ps_types": [] if job.all_reduce else [record(unit) for unit in job.ps_types],
        "value": record(job.value) | {"kind": kind},
        "samples": record(job.samples),
    }


def job_from(row: Mapping[str, Any], units: dict[str, UnitType]) -> Job:
    """Return the job that a row describes. `units` holds the unit types that other jobs of the document have."""
    samples = dict(row["samples"])
    return Job(
        **{
            **row,
            "worker_types": tuple(_unit_from(unit, units) for unit in row["worker_types"]),
            "ps_types": tuple(_unit_from(unit, units) for unit in row["ps_types"]),
            "value": value_from(row["value"]),
            "samples": Samples(**{**samples, "speed": tuple(samples["speed"])}),
        }
    )


def value_from(row: Mapping[str, Any]) -> Value:
    """Return the value function that a row describes: its kind and that kind's terms."""
    terms = dict(row)
    return KINDS[terms.pop("kind")](**terms)


def _unit_from(row: Mapping[str, Any], units: dict[str, UnitType]) -> UnitType:
    """Return the unit type that a row describes. Most jobs request one of a few types, so equal ones are shared."""
    key = str(row)
    if key not in units:
        units[key] = UnitType(**{**row, "demand": array_from(row["demand"])})
    return units[key]


def cluster_of(row: Mapping[str, Any]) -> Cluster:
    """Return the cluster that a document describes."""
    arrays = {name: array_from(row[name]) for name in ("capacity", "quota", "hosts_workers", "hosts_ps")}
    return Cluster(
        resources=tuple(row["resources"]),
        servers=tuple(row["servers"]),
        tenants=_tenants_from(row["tenants"]),
        slot_seconds=row["slot_seconds"],
        cells=None if row["cells"] is None else array_from(row["cells"]),
        least_payment=row.get("least_payment", 0.0),
        **arrays,
    )


def _tenants_from(rows: Sequence[Mapping[str, Any]]) -> tuple[Tenant, ...]:
    """Return the tenants that rows describe. Most have the same reserve prices: equal ones share an array."""
    texts = [repr(row["reserve_price"]) for row in rows]
    shared = {
        text: read_only(array_from(row["reserve_price"])) for text, row in dict(zip(texts, rows, strict=True)).items()
    }
    return tuple(Tenant(**{**row, "reserve_price": shared[text]}) for text, row in zip(texts, rows, strict=True))


def _booking(booking: Booking) -> Document:
    return _without(record(booking), dividend=0.0, provisional=False) | {"allocation": _rows(booking.allocation)}


def _booking_in(booking: Booking, supplies: dict[Supply, int], form: int) -> Document:
    """Return the document of a booking of an answer. Its payouts are told by a supply, which is put among `supplies`,
    where the same bits follow from it, and stated in full where they do not."""
    split = booking.split
    if form == WITH_PAYOUTS or split is None or not split.supply.adds_exactly:
        return _booking(booking)
    by_slot = split.slot_payouts()
    if not _same_bits(by_slot, booking.slot_payouts):
        return _booking(booking)
    row: Document = {
        "supply": supplies.setdefault(split.supply, len(supplies)),
        "costs": plain_array(split.costs),
        "payer": split.payer,
    }
    total = None if _same_bits(by_slot.sum(axis=0), booking.payouts) else booking.payouts
    if total is not None and form == WITH_SUMS and _same_bits(_sum_in_pairs(by_slot), total):
        total, row["sum"] = None, _IN_PAIRS
    return _booking(replace(booking, payouts=total, slot_payouts=None)) | {"slot_payouts": row}


def _sum_in_pairs(by_slot: FloatArray) -> FloatArray:
    """Return the sums (owners,) over the slots of (slots, owners), as most policies make them: where numbers lie next
    to each other in memory, numpy adds every eighth, then these eight in pairs, then those that are left over. Written
    out, so that it stays the same to the bit."""
    whole = len(by_slot) - len(by_slot) % 8
    if not whole:
        return by_slot.sum(axis=0)
    eight = by_slot[:8].copy()
    for begin in range(8, whole, 8):
        eight += by_slot[begin : begin + 8]
    pairs = eight[0::2] + eight[1::2]
    total: FloatArray = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
    for slot in by_slot[whole:]:
        total += slot
    return total


def _same_bits(one: FloatArray, other: FloatArray | None) -> bool:
    return other is not None and one.tobytes() == other.tobytes()


def _booking_from(row: Mapping[str, Any], supplies: Sequence[Supply] = ()) -> Booking:
    arrays = {name: row[name] for name in ("payouts", "slot_payouts")}
    values: dict[str, Any] = {name: array_from(array) for name, array in arrays.items() if array and "runs" in array}
    if "supply" in (arrays["slot_payouts"] or {}):
        split = _split_from(row["start"], arrays["slot_payouts"], supplies)
        by_slot = split.slot_payouts()
        total = _sum_in_pairs(by_slot) if "sum" in arrays["slot_payouts"] else by_slot.sum(axis=0)
        values = {"split": split, "slot_payouts": by_slot, "payouts": total} | values
    return Booking(**{**row, **values, "allocation": _rows_from(row["allocation"])})


def _split_from(start: int, row: Mapping[str, Any], supplies: Sequence[Supply]) -> Split:
    return Split(supplies[row["supply"]], start, array_from(row["costs"]), row["payer"])


def _floor(floor: Floor) -> Document:
    return _without(record(floor), draft=False) | {"allocation": _rows(floor.allocation)}


def _floor_from(row: Mapping[str, Any]) -> Floor:
    return Floor(**{**row, "allocation": _rows_from(row["allocation"])})


def _window(window: Window) -> Document:
    return _without(record(window), kappa=None, scores=[])


def _window_from(row: Mapping[str, Any]) -> Window:
    prices, idle, rented = (array_from(row[name]) for name in ("prices", "idle", "rented"))
    kappa, scores = row.get("kappa"), tuple(row.get("scores", ()))
    return Window(row["start"], row["end"], prices, idle, rented, kappa, scores)


def _without(document: Document, **usual: object) -> Document:
    """Return the document without those fields that have their usual value, so that it is written as it was before
    there were such fields."""
    return {name: value for name, value in document.items() if name not in usual or value != usual[name]}


def _rows(allocation: tuple[Allocation, ...]) -> list[list[int]]:
    return [[int(row.server), int(row.start), int(row.end), int(row.workers), int(row.ps)] for row in allocation]


def _rows_from(rows: list[list[int]]) -> tuple[Allocation, ...]:
    return tuple(Allocation(*row) for row in rows)
