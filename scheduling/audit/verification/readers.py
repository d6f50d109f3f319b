"""Rules for who may see which finding. One person's replays also take turns here, as each costs what the decision
cost."""

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
    """Verify, but only one replay at a time for each person."""
    lock = f"interval-verify:{person_id}"
    if not cache.add(lock, 1, timeout=PATIENCE):
        return BUSY
    try:
        return verify()
    finally:
        cache.delete(lock)


def findings_for(findings: Iterable[Finding], own_jobs: Collection[int]) -> tuple[Finding, ...]:
    """Return the findings that name no job but the reader's own, and the figures of no tenant."""
    return tuple(
        finding for finding in findings if _jobs_in(finding) <= set(own_jobs) and not _OF_A_TENANT.search(str(finding))
    )


_OF_A_TENANT = re.compile(r"\btenant \d")


def _jobs_in(finding: Finding) -> set[int]:
    return {int(number) for number in re.findall(r"\bjob (\d+)", str(finding))}
