"""Verifying that the rows of jobs say what the feed says of them: what was submitted and estimated, what became of
them, and what was given up early."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import Q

from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.lives import Cut, JobEvent, Life, life_of
from scheduling.audit.verification.worths import worths_decided
from scheduling.feed import job_subject
from scheduling.jobs import freed_of
from scheduling.market.calendar import ROUNDING, CalendarUnit, amounts_in
from scheduling.market.decide import SoldAgain, sold_again, submission_digest, submission_document
from scheduling.market.reads import REPLAY_ERRORS
from scheduling.market.view import SpecReader, arrival_of
from scheduling.models import Award, FreedUnits, Pool, StartEstimate, TrainingJob


@dataclass(frozen=True)
class JobRows:
    """The rows that belong to some jobs, by the job's number; `freed` is by the award's."""

    estimates: Mapping[int, list[StartEstimate]]
    awards: Mapping[int, list[Award]]  # those that are cut, or of which the feed says so
    there: Mapping[int, int]  # by each award in the feed: for which attempt of its job it is
    freed: Mapping[int, list[FreedUnits]]
    sold: Mapping[int, SoldAgain]  # by given up units: how much of them answers have sold again
    first_paid: Mapping[tuple[int, int], int]  # (job, start) -> what its award pays
    worths: Mapping[int, float | None]  # by waiting job in pieces: worth of what is done


def jobs_verify(pool: Pool, jobs: Sequence[TrainingJob]) -> list[Finding]:
    """Verify some jobs of one pool. Needs the scope of all tenants."""
    events = _events(jobs)
    lives = {job.pk: life_of(events[job.pk], elastic=pool.is_elastic) for job in jobs}
    rows, reader = _rows(pool, jobs, lives.values()), SpecReader(pool)
    findings: list[Finding] = []
    for job in jobs:
        where, life = f"job {job.pk} of pool {pool.pk}", lives[job.pk]
        if life is None:
            findings.append(Finding(where, "nothing tells that it was submitted"))
            continue
        try:
            findings += _row_differs(where, pool, job, life, rows.estimates[job.pk])
            findings += _estimate_differs(where, job, life, rows)
            if job.pk in rows.worths:
                findings += differences(where, {"worth": (job.worth, rows.worths[job.pk])})
            absent = sorted(life.awards.keys() - rows.there.keys())
            findings += [Finding(where, f"award {number}, of which it was told, is gone") for number in absent]
            for number in sorted(life.awards.keys() & rows.there.keys()):
                about = f"award {number} of job {job.pk}"
                findings += differences(about, {"attempt": (rows.there[number], life.awards[number])})
            findings += _cuts_differ(job, life, rows, reader) if life.digest is not None else []
        except REPLAY_ERRORS as error:
            findings.append(Finding(where, f"its row cannot be read ({type(error).__name__}: {error})"))
    return findings


_EVENTS = """
SELECT about.job_id, event.kind, event.at, event.data::text
  FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS about (job_id, tenant_id, subject)
  JOIN scheduling_event event ON event.tenant_id = about.tenant_id AND event.subject = about.subject
 ORDER BY event.id
"""


def _events(jobs: Sequence[TrainingJob]) -> Mapping[int, list[JobEvent]]:
    """Return the events of each job in their order, by one range of an index for each job."""
    tenants, subjects = [job.tenant_id for job in jobs], [job_subject(job.pk) for job in jobs]
    events: defaultdict[int, list[JobEvent]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_EVENTS, [[job.pk for job in jobs], tenants, subjects])
        for job_id, kind, at, data in cursor.fetchall():
            events[job_id].append(JobEvent(kind, at, json.loads(data)))
    return events


def _rows(pool: Pool, jobs: Sequence[TrainingJob], lives: Iterable[Life | None]) -> JobRows:
    ids = [job.pk for job in jobs]
    readable = [life for life in lives if life is not None]
    awards_cut = {award for life in readable for award in life.cuts}
    there = Award.objects.filter(pk__in={award for life in readable for award in life.awards}, job__in=ids)
    estimates, awards = defaultdict[int, list[StartEstimate]](list), defaultdict[int, list[Award]](list)
    freed, paid = defaultdict[int, list[FreedUnits]](list), dict[tuple[int, int], int]()
    for estimate in StartEstimate.objects.filter(job__in=ids).order_by("pk"):
        estimates[estimate.job_id].append(estimate)
    for award in Award.objects.filter(Q(cut_at__isnull=False) | Q(pk__in=awards_cut), job__in=ids).order_by("pk"):
        awards[award.job_id].append(award)
    for units in FreedUnits.objects.filter(award__job__in=ids).order_by("pk"):
        freed[units.award_id].append(units)
    for job_id, start, amount in Award.objects.filter(job__in=estimates).values_list("job_id", "start", "paid"):
        paid[job_id, start] = amount
    sold = sold_again(pool.pk) if freed else {}
    attempts = dict(there.values_list("pk", "attempt"))
    return JobRows(estimates, awards, attempts, freed, sold, paid, worths_decided(pool, jobs))


def _row_differs(
    where: str, pool: Pool, job: TrainingJob, life: Life, estimates: Sequence[StartEstimate]
) -> list[Finding]:
    arrival = arrival_of(pool, life.arrived_at)
    right = {
        "pool": (job.pool_id, pool.pk),
        "lane": (job.lane, life.lane),
        "arrival": (job.arrival, arrival),
        "worth_from": (job.worth_from, None if life.worth_from is None else arrival_of(pool, life.worth_from)),
        "state": (job.state, life.state),
        "attempt": (job.attempt, life.attempt),
        "not_before": (job.not_before, life.not_before),
        "ended_at": (job.ended_at, life.ended_at),
    }
    if life.reason is not None:
        code, numbers = life.reason
        right |= {"reason_code": (job.reason_code, code), "reason_numbers": (job.reason_numbers, dict(numbers))}
    findings = differences(where, right)
    if life.digest is None:  # the seals of the feed close over submissions of older versions
        return findings
    document = submission_document(job, lane=life.submitted_lane, estimate=estimates[0] if estimates else None)
    if submission_digest(document) != life.digest:
        findings.append(Finding(where, "it, or the estimate of its start, is not what was submitted"))
    return findings


def _estimate_differs(where: str, job: TrainingJob, life: Life, rows: JobRows) -> list[Finding]:
    """Compare what the market said about the job's start with what came of it."""
    estimates = rows.estimates[job.pk]
    findings = [Finding(where, "there is more than one estimate of its start")] if len(estimates) > 1 else []
    for estimate in estimates[:1]:
        begun = None if life.started is None else rows.first_paid.get((job.pk, life.started))
        right = {
            "tenant": (estimate.tenant_id, job.tenant_id),
            "made_at": (estimate.made_at, job.submitted_at),
            "started": (estimate.started, life.started),
            "paid": (estimate.paid, begun),
        }
        findings += differences(f"the estimate of job {job.pk}", right)
    return findings


def _cuts_differ(job: TrainingJob, life: Life, rows: JobRows, reader: SpecReader) -> list[Finding]:
    """Compare the slot from which each award delivers nothing, and what was given up of it, with the feed."""
    awards, findings = {award.pk: award for award in rows.awards[job.pk]}, list[Finding]()
    for number in sorted(awards.keys() | life.cuts.keys()):
        award, cut = awards.get(number), life.cuts.get(number, Cut(None, None, void=False))
        where = f"award {number} of job {job.pk}"
        if award is None:  # it is gone, which is a finding already
            continue
        pairs = {"cut_at": (award.cut_at, cut.cut_at), "pays_from": (award.pays_from, cut.pays_from)}
        findings += differences(where, pairs)
        findings += _freed_differ(where, job, award, cut, rows, reader)
    return findings


def _freed_differ(
    where: str, job: TrainingJob, award: Award, cut: Cut, rows: JobRows, reader: SpecReader
) -> list[Finding]:
    """Check that each of the units that the award gave up has a row. Once the platform cut the award short, what was
    not sold of them by then belongs to nobody any more."""
    right = {unit: freed_of(award, unit, amount) for unit, amount in _given_up(job, award, cut, reader).items()}
    findings = []
    for row in rows.freed[award.pk]:
        place = CalendarUnit(row.server_id, row.resource_id, row.part, row.slot)
        about, expected = f"{where}: {row.amount:g} given up units ({row.pk})", right.pop(place, None)
        if expected is None:
            findings.append(Finding(about, "it did not give them up"))
            continue
        amount = row.sold if _taken_back(award, cut, row.slot) else expected.amount
        pairs = {name: (getattr(row, name), getattr(expected, name)) for name in ("tenant_id", "pool_id")}
        findings += differences(about, pairs | {"amount": (row.amount, amount)})
        sold = rows.sold.get(row.pk, SoldAgain(0.0, 0.0))
        # Sales are not taken back once the award that gave them up is cut short, and older versions took none back.
        if not sold.now - ROUNDING <= row.sold <= sold.ever + ROUNDING:
            findings.append(Finding(about, f"{row.sold:g} are sold again; by answers {sold.now:g}"))
    missing = [unit for unit in right if not _taken_back(award, cut, unit.slot)]
    return findings + [Finding(where, f"its given up units of slot {unit.slot} are missing") for unit in missing]


def _given_up(job: TrainingJob, award: Award, cut: Cut, reader: SpecReader) -> Mapping[CalendarUnit, float]:
    if cut.freed is None:
        return {}
    begin, end = cut.freed
    spec = reader.read(job)
    worker, ps = spec.worker_types[award.worker_type].demand, spec.ps_types[award.ps_type].demand
    units = amounts_in(award.allocation, award.on_operator, worker, ps, reader.resource_ids, since=begin)
    return {unit: amount for unit, amount in units.items() if unit.slot < end}


def _taken_back(award: Award, cut: Cut, slot: int) -> bool:
    return cut.void and award.cut_at is not None and slot >= award.cut_at
