"""Verifying that each open rent ended as a plan says, and that no award became cheaper than its own terms without one
(K4)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from scheduling.audit.verification.archived import Archives
from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.replay import Replayed
from scheduling.core.settlement import micro
from scheduling.core.types import Booking
from scheduling.feed import job_subject
from scheduling.market.decide import refunds_of
from scheduling.market.reads import contents_of
from scheduling.market.settle import rent_refund_key
from scheduling.models import Award, Interval, RentState
from tenants.ledger.selectors import transactions_about_all


def settlements_verify(interval: Interval, replayed: Replayed) -> list[Finding]:
    """Check what each settlement of the plan left in the row of its award."""
    settlements = replayed.plan.settlements
    if not settlements:
        return []
    rents: defaultdict[int, list[Booking]] = defaultdict(list)
    for rent in replayed.view.open_rents:
        rents[rent.job].append(rent)
    rows = Award.objects.filter(pool=interval.pool_id, job__in=[each.job for each in settlements]).exclude(rent="")
    awards = {(award.job_id, award.start): award for award in rows}
    findings = []
    for each in settlements:
        where, parts = f"the rent of job {each.job}", refunds_of(each.refund, [micro(r.paid) for r in rents[each.job]])
        for rent, refund in zip(rents[each.job], parts, strict=True):
            award = awards.get((each.job, rent.start))
            if award is None:
                findings.append(Finding(where, "it is settled, and there is no award of it"))
                continue
            state = (award.rent, RentState.CLOSED.value)
            findings += differences(where, {"its state": state, "what came back": (award.adjusted, refund)})
    return findings


def adjusted_verify(awards: Sequence[Award], archives: Archives) -> list[Finding]:
    """Check that each award that cost less than its terms did so by a settlement in the stored plan that its refund
    names. A plan in an archive that is not at hand is believed to have what names it."""
    cheaper = {award.pk: award for award in awards if award.adjusted}
    if not cheaper:
        return []
    named: defaultdict[tuple[int, int], set[int]] = defaultdict(set)  # (pool, interval) -> awards
    for transaction in transactions_about_all(subjects={job_subject(award.job_id) for award in cheaper.values()}):
        award = cheaper.get(transaction.facts.get("award", 0))
        if award is not None and transaction.key == rent_refund_key(award.pk):
            named[award.pool_id, transaction.facts.get("interval", 0)].add(award.pk)
    explained: set[int] = set()
    for (pool_id, number), pks in named.items():
        interval = Interval.objects.filter(pool=pool_id, number=number).first()
        if interval is not None and interval.is_archived and archives.filled(interval) is None:
            explained |= pks if archives.row_of(interval) else set()
            continue
        plan = json.loads(contents_of(interval).plan) if interval else {}
        settled = {row["job"] for row in plan.get("settlements", ())}
        explained |= {pk for pk in pks if cheaper[pk].job_id in settled}
    return archives.findings_take() + [
        Finding(f"award {pk} of job {cheaper[pk].job_id}", "it came cheaper, and no interval settled its rent")
        for pk in sorted(cheaper.keys() - explained)
    ]
