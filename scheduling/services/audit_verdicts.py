"""What a verification found, in sentences that say what was compared with what, and how much of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.models import AuditKind, AuditRun, Pool
from scheduling.services.verification import Finding, charge_verify, days_verify, interval_verify, intervals_verify
from tenants import history
from tenants.access import Refused
from tenants.ledger import audit
from tenants.ledger.postings import MICRO
from tenants.scoping import scope_disabled

MOST_FINDINGS = 200  # that are kept; their number always is

Tell = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Verdict:
    """`is_clean` None: nothing was verified. `result`: plain JSON."""

    is_clean: bool | None
    sentence: str
    result: Mapping[str, Any] = field(default_factory=dict)


def verified(run: AuditRun, tell: Tell) -> Verdict | Refused:
    if run.kind == AuditKind.CHARGE:
        return _charge(int(run.number or 0))
    if run.kind == AuditKind.INTERVAL and run.pool is not None:
        return _interval(run.pool, int(run.number or 0))
    return _everything(run.pool, tell)


def _charge(job_id: int) -> Verdict | Refused:
    found = charge_verify(job_id=job_id)
    if isinstance(found, Refused):
        return found
    paid = sum(award.paid - award.returned for award in found.awards)
    intervals = sorted({award.interval.number for award in found.awards if award.interval})
    again = f"interval {', '.join(map(str, intervals))} decided again" if intervals else "nothing to decide again"
    words = (
        f"Job {job_id} has {_counted(len(found.awards), 'award')} and pays {paid / MICRO:.6f} in the end: {again}, "
        "each payment split again, and each part looked for in the book."
    )
    return _verdict(words, found.findings)


def _interval(pool: Pool, number: int) -> Verdict | Refused:
    found = interval_verify(pool_id=pool.pk, number=number, most_jobs=float("inf"))
    if isinstance(found, Refused):
        return found
    words = (
        f"Interval {number} decided again from its stored input: {found.plan_bytes} bytes of its answer compared, with "
        f"{_counted(found.jobs, 'waiting job')}, {_counted(found.awards, 'award')}, "
        f"{_counted(found.slots_settled, 'paid slot')}, its figures of fairness, and both links of the chain."
    )
    return _verdict(words, found.findings)


def _everything(pool: Pool | None, tell: Tell) -> Verdict:
    """Of one pool or of all: intervals, awards, payments, figures and their sums; then the book and the history."""
    ids = [pool.pk] if pool else list(Pool.objects.order_by("pk").values_list("pk", flat=True))
    found = intervals_verify(pool_ids=ids, on_progress=lambda done, total: tell(done, total, "intervals"))
    days = days_verify(pool_ids=ids)
    with scope_disabled("the audit reads everybody's entries"):
        book = audit.verify()
    chain = history.verify()
    findings = [*found.findings, *days, *(Finding("the book", str(one)) for one in book.findings)]
    if isinstance(chain, history.Broken):
        findings.append(Finding("the history", f"entry {chain.sequence}: {chain.what}"))
    words = (
        f"{_counted(found.intervals, 'interval')} decided again and compared byte for byte, with their chain, "
        f"{_counted(found.awards, 'award')}, every payment and every figure of fairness; "
        f"{_counted(book.transactions, 'transaction')} of the book, and the history."
    )
    heads = {Pool.objects.get(pk=pk).slug: head for pk, head in found.heads.items()}
    return _verdict(words, findings, {"heads": heads})


def _verdict(words: str, findings: Iterable[Finding], more: Mapping[str, Any] | None = None) -> Verdict:
    listed = list(findings)
    told = f"{len(listed)} difference{'' if len(listed) == 1 else 's'}."
    shown = [{"where": one.where, "what": one.what} for one in listed[:MOST_FINDINGS]]
    return Verdict(not listed, f"{words} {told}", {"findings": shown, "count": len(listed), **(more or {})})


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
