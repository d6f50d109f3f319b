"""The results of verifications, in sentences that say what was compared with what, and how much of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.audit.verification import Finding, charge_verify, interval_verify
from scheduling.models import AuditKind, AuditRun, Pool, WorkState
from tenants.access import Refused
from tenants.ledger.amounts import exported

MOST_FINDINGS = 200  # so many are kept; their number is always kept


@dataclass(frozen=True)
class StoredVerdict:
    """The outcome of a request. `is_clean` is None where nothing was verified; `result` is plain JSON."""

    is_clean: bool | None
    sentence: str
    result: Mapping[str, Any] = field(default_factory=dict)


def verified(run: AuditRun) -> StoredVerdict | Refused:
    """Verify a charge or an interval."""
    if run.kind == AuditKind.INTERVAL and run.pool is not None:
        return _interval(run.pool, int(run.number or 0))
    return _charge(int(run.number or 0))


def _charge(job_id: int) -> StoredVerdict | Refused:
    verdict = charge_verify(job_id=job_id)
    if isinstance(verdict, Refused):
        return verdict
    paid = sum(award.paid - award.returned for award in verdict.awards)
    intervals = sorted({award.interval.number for award in verdict.awards if award.interval})
    decided = [f"interval{'s' * (len(intervals) != 1)} {_runs_text(intervals)}"] if intervals else []
    decided += ["the instant lane's answer"] if verdict.answers else []
    again = f"{' and '.join(decided)} decided again" if decided else "nothing to decide again"
    words = (
        f"Job {job_id} has {_counted(len(verdict.awards), 'award')} and pays {exported(paid)} in the end: {again}, "
        "each payment split again, and each part looked for in the book."
    )
    return _verdict(words, verdict.findings)


def _runs_text(numbers: Sequence[int]) -> str:
    """Return rising numbers with those that follow each other as "10 to 27": a job of an elastic pool has an interval
    for each slot."""
    all_of_them = set(numbers)
    firsts = [number for number in numbers if number - 1 not in all_of_them]
    lasts = [number for number in numbers if number + 1 not in all_of_them]
    runs = zip(firsts, lasts, strict=True)
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in runs)


def _interval(pool: Pool, number: int) -> StoredVerdict | Refused:
    verdict = interval_verify(pool_id=pool.pk, number=number, most_jobs=float("inf"))
    if isinstance(verdict, Refused):
        return verdict
    words = (
        f"Interval {number} decided again from its stored input: {verdict.plan_bytes} bytes of its answer compared, "
        f"with {_counted(verdict.jobs, 'waiting job')}, {_counted(verdict.awards, 'award')}, "
        f"{_counted(verdict.slots_settled, 'paid slot')}, its figures of fairness, and both links of the chain."
    )
    return _verdict(words, verdict.findings)


def everything(run: AuditRun) -> StoredVerdict | Refused:
    """Return the verdict on a verification whose walks are over: those over pools, with their intervals, answers,
    awards, jobs, payments, figures and sums, and the one over the book, the history and the feed."""
    walks = list(run.verifications.select_related("pool").order_by("pk"))
    findings = [Finding(where, what) for walk in walks for where, what in walk.findings]
    count = sum(walk.differences for walk in walks)
    failed = [walk for walk in walks if walk.state != WorkState.DONE]
    if failed:
        before = f" Before that, {_counted(count - len(failed), 'difference')}." if count > len(failed) else ""
        return Refused("failed", f"{Finding(*failed[0].findings[-1])}.{before}")
    transactions = sum(walk.bounds["transactions"] for walk in walks if walk.pool is None)
    intervals, answers = (sum(getattr(walk, name) for walk in walks) for name in ("intervals", "answer_number"))
    words = (
        f"{_counted(intervals, 'interval')} decided again and compared byte for byte, and "
        f"{_counted(answers, 'answer')} of instant lanes, with their chains, "
        f"{_counted(sum(walk.awards for walk in walks), 'award')}, every job, every payment and every figure of "
        f"fairness; {_counted(transactions, 'transaction')} of the book, the history, and the seals of the feed."
    )
    heads = {walk.pool.slug: walk.digest for walk in walks if walk.pool is not None}
    book: Mapping[str, Any] = next((walk.bounds for walk in walks if walk.pool is None), {})
    ends = {name: book.get(name, "") for name in ("ledger_head", "history_head")}
    return _verdict(words, findings, {"heads": heads, **ends, "count": count})


def _verdict(words: str, findings: Iterable[Finding], more: Mapping[str, Any] | None = None) -> StoredVerdict:
    rows = list(findings)
    result = {"count": len(rows), **(more or {})}
    result["findings"] = [{"where": one.where, "what": one.what} for one in rows[:MOST_FINDINGS]]
    return StoredVerdict(not result["count"], f"{words} {_counted(result['count'], 'difference')}.", result)


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
