"""Verifying that what became of an award is possible: its state, its slots, and the slot from which it was cut
short."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.audit.verification.findings import Finding, differences
from scheduling.audit.verification.replay import read_or_named
from scheduling.models import ALIVE, Award, AwardState


def course_verify(awards: Iterable[Award], settled_slot: int) -> list[Finding]:
    """Name the awards whose state or cut is impossible. `settled_slot` is the last slot that was settled before the
    awards were read."""
    return [
        Finding(f"award {award.pk} of job {award.job_id}", flaw)
        for award in awards
        if (flaw := _flaw(award, settled_slot))
    ]


def sums_differ(award: Award) -> list[Finding]:
    """Check that the award pays what its slots cost."""
    where = f"award {award.pk} of job {award.job_id}"

    def compare() -> list[Finding]:
        charged = sum(amount for slot in award.charges for _, amount in slot)
        return differences(where, {"the sum of its charges": (charged, award.paid)})

    return read_or_named(where, compare)


def _flaw(award: Award, settled_slot: int) -> str:
    if award.state in ALIVE and award.end <= settled_slot + 1:
        return f"it is {award.state}, and its last slot is settled"
    if award.cut_at is None:
        short = award.state in (AwardState.VOID, AwardState.ENDED)
        return f"it is {award.state}, and nothing says from which slot on" if short else ""
    if award.state == AwardState.DONE:
        return f"it was cut in slot {award.cut_at}, and is done"
    if not award.start <= award.cut_at <= award.end:
        return f"it was cut in slot {award.cut_at}, which is none of its own"
    return ""
