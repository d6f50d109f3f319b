"""Who may see which finding, and that one person's replays take turns: each costs what the decision cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from django.core.cache import cache

from scheduling.audit.verification.findings import Finding
from tenants.access import Refused

PATIENCE = 60  # seconds for which one person's replay keeps that person from starting another
BUSY = Refused("still_verifying", "Another verification of yours is still running. Try again in a moment.")

Outcome = TypeVar("Outcome")


def in_turn(person_id: int, verify: Callable[[], Outcome]) -> Outcome | Refused:
    """One replay at a time for each person."""
    lock = f"interval-verify:{person_id}"
    if not cache.add(lock, 1, timeout=PATIENCE):
        return BUSY
    try:
        return verify()
    finally:
        cache.delete(lock)


def findings_for(findings: Iterable[Finding], own_jobs: Collection[int]) -> tuple[Finding, ...]:
    """Those that name no job but the reader's own."""
    return tuple(finding for finding in findings if _jobs_in(finding) <= set(own_jobs))


def _jobs_in(finding: Finding) -> set[int]:
    return {int(number) for number in re.findall(r"\bjob (\d+)", str(finding))}
