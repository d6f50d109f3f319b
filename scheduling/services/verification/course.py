"""Whether what became of an award is possible: its state, its slots and the slot from which it was cut short."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.models import Award, AwardState
from scheduling.services.settlement import ALIVE
from scheduling.services.verification.findings import Finding


def course_verify(awards: Iterable[Award], settled_slot: int) -> list[Finding]:
    """`settled_slot`: the last slot that was settled before the awards were read."""
    return [
        Finding(f"award {award.pk} of job {award.job_id}", flaw)
        for award in awards
        if (flaw := _flaw(award, settled_slot))
    ]


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
