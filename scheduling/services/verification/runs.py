"""The walks that make up a verification of everything: one over each pool, and one over the book and the history."""

from __future__ import annotations

from dataclasses import asdict

from scheduling.models import Award, Interval, Lane, Phase, PoolDay, VerificationRun
from scheduling.services.verification.walk import bounds_of, walk_from
from tenants.ledger import audit

POOL_PHASES = (Phase.INTERVALS, Phase.INSTANT, Phase.END, Phase.DAYS)


def pool_run(pool_id: int, *, first: int = 1) -> VerificationRun:
    """From interval `first` to the last one that is decided by now; not saved. Needs the scope of all tenants."""
    bounds, walk = bounds_of(pool_id), walk_from(pool_id, first)
    intervals = Interval.objects.filter(pool=pool_id, number__gte=first, slot__lte=bounds.decided_slot).count()
    at_once = Award.objects.filter(pool=pool_id, lane=Lane.INSTANT).count()
    days = PoolDay.objects.filter(pool=pool_id).count()
    return VerificationRun(
        pool_id=pool_id,
        first=first,
        bounds=asdict(bounds),
        number=walk.number,
        digest=walk.digest,
        memory=walk.memory,
        total=intervals + at_once + 1 + days,
    )


def book_run() -> VerificationRun:
    """The ledger as far as it goes by now, and the history; not saved. Needs the scope of all tenants."""
    bounds = {"newest": audit.newest(), "transactions": audit.count()}
    return VerificationRun(phase=Phase.BOOK, bounds=bounds, total=len(audit.steps(bounds["newest"])) + 1)


def phase_after(phase: str) -> str | None:
    """None: the run is done."""
    if phase == Phase.BOOK or phase == POOL_PHASES[-1]:
        return None
    return POOL_PHASES[POOL_PHASES.index(Phase(phase)) + 1]
