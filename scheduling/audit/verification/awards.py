"""Verifying that the rows that an interval left behind say what its plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.replay import Replayed, name_of
from scheduling.core import settlement
from scheduling.core.settlement import micro
from scheduling.core.stored_charges import UnreadableCharges, charges_listed, packed
from scheduling.core.types import Booking
from scheduling.market.decide import dividend_of, drafts_after, is_open, work_in_pieces, work_left
from scheduling.models import Award, AwardState, Interval, JobFloor, Lane, RentState


def awards_verify(
    interval: Interval, replayed: Replayed, awards: Sequence[Award], attempts: Mapping[int, int]
) -> list[Finding]:
    """Check that each booking of the plan has one award on its terms, and that no award is without a booking.
    `attempts` is by job."""
    where, rows = name_of(interval), {award_place(replayed, award.job_id, award.start): award for award in awards}
    amounts, drafts = settlement.charges_of_all(replayed.plan.bookings), drafts_after(replayed.view, replayed.plan)
    findings = differences(where, {"what its awards pay": (interval.paid, sum(award.paid for award in awards))})
    for booking, due in zip(replayed.plan.bookings, amounts, strict=True):
        award = rows.pop(award_place(replayed, booking.job, booking.start), None)
        if award is None:
            findings.append(Finding(where, f"job {booking.job} has no award"))
        else:
            findings += terms_verify(award, booking, replayed, due)
            findings += _origin(award, interval, attempts.get(award.job_id, 0))
            about, rented = f"award {award.pk} of job {award.job_id}", is_open(booking, drafts)
            findings += differences(
                about, {"whether its rent is settled alone": (award.rent != RentState.NONE, rented)}
            )
    more = [
        job
        for (job, _), number in Counter(award_place(replayed, a.job_id, a.start) for a in awards).items()
        if number > 1
    ]
    findings += [Finding(where, f"job {job} has more than one award") for job in more]
    return findings + [Finding(where, f"job {job} has an award and no booking") for job, _ in rows]


def award_place(replayed: Replayed, job_id: int, start: int) -> tuple[int, int]:
    """Return the key by which a booking's award is known: its job, and its start where the job may be in pieces."""
    job = replayed.view.jobs.get(job_id)
    return job_id, start if job is not None and job.divisible else 0


def terms_verify(
    award: Award,
    booking: Booking,
    replayed: Replayed,
    amounts: settlement.Amounts | None = None,
    *,
    on_operator: Sequence[Sequence[int]] = (),
) -> list[Finding]:
    """Compare the award's terms with the booking, its charges worked out anew; `amounts` has them where they are worked
    out already. `on_operator` are the rows of the operator's units among those of the booking. The batch lane
    distinguishes home cells from the operator's units by servers alone, so it names none."""
    amounts = settlement.charges(booking) if amounts is None else amounts
    right = {
        "tenant_id": replayed.owner_ids[replayed.view.jobs[booking.job].tenant],
        "start": booking.start,
        "end": booking.end,
        "workers": booking.workers,
        "ps": booking.ps,
        "worker_type": booking.worker_type,
        "ps_type": booking.ps_type,
        "phase": booking.phase or "",
        "placement": booking.placement or "",
        "allocation": replayed.rows(booking.allocation),
        "value": booking.value,
        "floor": booking.floor,
        "cost": booking.cost,
        "paid": int(amounts.sum()),
        "dividend": dividend_of(booking, int(amounts.sum())),
        "on_operator": list(on_operator),
    }
    if replayed.elastic:
        right |= _so_far(booking, replayed)
    else:
        in_batch = award.lane == Lane.BATCH  # the instant lane only sells whole jobs
        work = work_in_pieces(replayed.view.jobs[booking.job], booking) if in_batch else None
        right |= {"work_left": None, "paid_before": 0, "work": work}
    where = f"award {award.pk} of job {award.job_id}"
    findings = differences(where, {name: (getattr(award, name), value) for name, value in right.items()})
    return findings + _charges_differ(where, award, replayed.owner_ids, amounts)


def _charges_differ(where: str, award: Award, owner_ids: Sequence[int], amounts: settlement.Amounts) -> list[Finding]:
    """Compare what the award's slots cost, and who earns it. The same bytes say the same, so lists, which take long
    where owners are many, are compared only where bytes differ. Lists beside bytes belong to no award."""
    owners, stored = packed(owner_ids, amounts)
    in_bytes = award.amounts is not None
    findings = differences(where, {"owners": (award.owners, owners if in_bytes else None)})
    if in_bytes:
        findings += differences(where, {"lists": (award.lists, None)})
    if award.amounts == stored:
        return findings
    try:
        return findings + differences(where, {"charges": (award.charges, charges_listed(owner_ids, amounts))})
    except UnreadableCharges as error:
        return [*findings, Finding(where, f"what its slots cost cannot be read ({error})")]


def _so_far(booking: Booking, replayed: Replayed) -> dict[str, Any]:
    """Return what the job has left after a single slot, and what it paid before."""
    view = replayed.view
    place = next(index for index, job in enumerate(view.waiting) if job.number == booking.job)
    rest = work_left(view.jobs[booking.job], float(view.remaining[place]), booking)
    return {"work_left": rest, "paid_before": micro(view.paid.get(booking.job, 0.0))}


def _origin(award: Award, interval: Interval, attempt: int) -> list[Finding]:
    """Compare when and where the award was decided, and for which attempt of its job: a job waits again only if its
    award is void, was a piece of it, or was over when its loss was heard of. The feed, which names the award, has the
    attempt of each of these (`jobs_verify`)."""
    where = f"award {award.pk} of job {award.job_id}"
    right = {"pool": (award.pool_id, interval.pool_id), "lane": (award.lane, str(Lane.BATCH))}
    right["awarded_at"] = (award.awarded_at, interval.decided_at)
    may_wait_again = award.state in (AwardState.VOID, AwardState.DONE) or award.work is not None
    if award.attempt > attempt or not may_wait_again:
        right["attempt"] = (award.attempt, attempt)
    return differences(where, right)


def floors_verify(
    interval: Interval, replayed: Replayed, rows: Sequence[JobFloor], attempts: Mapping[int, int]
) -> list[Finding]:
    """Check that the floors given are the floors kept. `attempts` are those of the jobs, as their rows say; a floor of
    an earlier attempt is void."""
    stored = {row.job_id: [getattr(row, name) for name in FLOOR] for row in rows}
    right = {
        floor.job: [
            replayed.owner_ids[replayed.view.jobs[floor.job].tenant],
            *(floor.value, floor.start, floor.end, floor.worker_type, floor.ps_type),
            replayed.rows(floor.allocation),
            floor.draft,
        ]
        for floor in replayed.plan.floors
    }
    if len(stored) != len(rows):
        return [Finding(name_of(interval), "a job has more than one floor")]
    jobs = sorted(stored.keys() | right.keys())
    pairs = {f"the floor of job {job}": (stored.get(job), right.get(job)) for job in jobs}
    return differences(name_of(interval), pairs) + [
        Finding(
            name_of(interval), f"the floor of job {row.job_id} is for attempt {row.attempt}, which is none of its own"
        )
        for row in rows
        if row.attempt > attempts.get(row.job_id, 0)
    ]


FLOOR = ("tenant_id", "value", "start", "end", "worker_type", "ps_type", "allocation", "draft")
