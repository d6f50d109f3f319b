"""The walks that make up a verification of everything: one over each pool, and one over the book and the history."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import pairwise

from django.db.models import Max

from scheduling.audit.verification.walk import bounds_of, walk_from
from scheduling.market.decide import START
from scheduling.models import (
    Award,
    FeedSeal,
    InstantAnswer,
    Interval,
    Lane,
    Phase,
    PoolDay,
    TrainingJob,
    VerificationRun,
)
from tenants import history
from tenants.ledger import audit
from tenants.ledger.seals import head

POOL_PHASES = (Phase.INTERVALS, Phase.ANSWERS, Phase.INSTANT, Phase.JOBS, Phase.END, Phase.DAYS)
BESIDE_THE_LEDGER = 4  # four steps: the history, who may do what, the rules of the database, what was set
COMMON_PHASES = (Phase.BOOK, Phase.FEED)  # the phases over what all pools have in common


def pool_run(pool_id: int, *, first: int = 1) -> VerificationRun:
    """Make the walk over a pool, from interval `first` to the last one that is decided by now; it is not saved. Needs
    the scope of all tenants. A pool that has not come as far as `first` is followed from the end of its chain on."""
    bounds = bounds_of(pool_id)
    decided = Interval.objects.filter(pool=pool_id, slot__lte=bounds.decided_slot)
    first = min(first, (decided.aggregate(last=Max("number"))["last"] or 0) + 1)
    walk, intervals = walk_from(pool_id, first), decided.filter(number__gte=first).count()
    answers, answers_digest = answers_before(pool_id, first)
    at_once = Award.objects.filter(pool=pool_id, lane=Lane.INSTANT).count()
    jobs = TrainingJob.objects.filter(pool=pool_id).count()
    days = PoolDay.objects.filter(pool=pool_id).count()
    return VerificationRun(
        pool_id=pool_id,
        first=first,
        bounds=asdict(bounds),
        number=walk.number,
        digest=walk.digest,
        memory=walk.memory,
        answer_number=answers,
        answer_digest=answers_digest,
        total=intervals + bounds.answers - answers + at_once + jobs + 1 + days,
    )


def answers_before(pool_id: int, first: int) -> tuple[int, str]:
    """Return number and digest of the last answer that the interval before interval `first` saw."""
    before = Interval.objects.filter(pool=pool_id, number=first - 1).values_list("heads", flat=True).first()
    number = json.loads(bytes(before))["answers"][0] if before else 0
    digest = InstantAnswer.objects.filter(pool=pool_id, number=number).values_list("digest", flat=True).first()
    return (number, digest) if digest else (0, START)


def book_run() -> VerificationRun:
    """Make the walk over the ledger as far as it goes by now, the history, the rules and what was set, and the feed; it
    is not saved. Needs the scope of all tenants."""
    last, end, seals = audit.newest(), history.head(), _seals()
    bounds = {
        "newest": last,
        "transactions": audit.count(),
        "seals": seals,
        "ledger_head": head(),
        "history_head": end.digest if end else "",
    }
    total = len(audit.steps(last)) + BESIDE_THE_LEDGER + seals
    return VerificationRun(phase=Phase.BOOK, bounds=bounds, total=total)


def feed_run() -> VerificationRun:
    """Make a walk over the feed alone; it is not saved."""
    bounds = {"seals": _seals()}
    return VerificationRun(phase=Phase.FEED, bounds=bounds, total=bounds["seals"])


def _seals() -> int:
    """Return the number of the feed's last seal."""
    return FeedSeal.objects.aggregate(last=Max("number"))["last"] or 0


def phase_after(phase: str) -> str | None:
    """Return the next phase, or None where the run is done."""
    phases = COMMON_PHASES if phase in COMMON_PHASES else POOL_PHASES
    return dict(pairwise(phases)).get(Phase(phase))
