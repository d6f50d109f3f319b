"""Audit the whole book: every cached figure against the entries, every row against its digest, every seal.

Each check is one statement, so it sees one moment of the book and may run beside writers.
docs/decisions/0011-ledger-seals.md says what a person with write access to the database can and cannot hide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tenants.ledger import checks
from tenants.ledger.findings import MOST, LedgerFinding, rows_of

CHUNK = 50_000  # transactions per step of the progress bar
_MEMBER = 40  # bytes in a seal per transaction: 8 of id, 32 of digest

Progress = Callable[[int, int], None]  # steps done, steps in all
Step = Callable[[], Iterator[LedgerFinding]]
# Checks of other parts that hold money in the book: whether it still has a purpose. They add themselves when Django
# starts.
purposes: list[Step] = []


@dataclass(frozen=True)
class Audit:
    findings: tuple[LedgerFinding, ...]
    transactions: int
    entries: int
    sealed: int  # transactions covered by seals; the rest can still be removed without a trace
    head: str

    @property
    def is_clean(self) -> bool:
        return not self.findings


def verify(*, known_heads: Sequence[str] = (), progress: Progress = lambda done, total: None) -> Audit:
    """Audit everything. `known_heads` are digests of seals that were noted earlier outside the database."""
    all_steps: list[Step] = [*steps(newest()), partial(_known_heads, known_heads)]
    findings: list[LedgerFinding] = []
    for done, step in enumerate(all_steps, 1):
        findings += step()
        progress(done, len(all_steps))
    return Audit(tuple(findings), *_counts())


def newest() -> int:
    """Return the number of the newest transaction, by its own row or by its entries."""
    ((last,),) = rows_of(
        "SELECT greatest((SELECT max(id) FROM ledger_transaction), (SELECT max(transaction_id) FROM ledger_entry), 0)"
    )
    return int(last)


def count() -> int:
    """Return the number of transactions."""
    return _counts()[0]


def steps(last: int) -> list[Step]:
    """Return all checks, those of transactions up to number `last`. Each can run by itself, in any order."""
    chunks = [(start, start + CHUNK) for start in range(0, last, CHUNK)]
    of_chunks = (checks.transactions, checks.movements, checks.orphans)
    return [
        *(partial(check, *chunk) for chunk in chunks for check in of_chunks),
        checks.numbers,
        checks.keys,
        checks.accounts,
        checks.day_totals,
        *(partial(checks.sheets, part) for part in range(checks.SHEET_PARTS)),
        checks.balances,
        checks.guarded,
        checks.sum_of_all,
        checks.rules,
        _seals,
        _end_of_seals,
        _noted_seals,
        *purposes,
    ]


def _counts() -> tuple[int, int, int, str]:
    ((transactions, entries, sealed, head),) = rows_of(
        "SELECT (SELECT count(*) FROM ledger_transaction), (SELECT count(*) FROM ledger_entry),"
        " (SELECT coalesce(sum(length(members)), 0) / %s FROM ledger_seal),"
        " coalesce((SELECT encode(digest, 'hex') FROM ledger_seal ORDER BY number DESC LIMIT 1), '')",
        _MEMBER,
    )
    return int(transactions), int(entries), int(sealed), str(head)


def _seals() -> Iterator[LedgerFinding]:
    rows = rows_of(
        """
        WITH chain AS (
            SELECT number, last_transaction_id, sealed_at, members, heads, digest,
                   lag(number) OVER w AS before, lag(digest) OVER w AS previous,
                   coalesce(lag(last_transaction_id) OVER w, 0) AS after
              FROM ledger_seal WINDOW w AS (ORDER BY number)
        ), checked AS (
            SELECT number, after, last_transaction_id, members,
                   number = coalesce(before, 0) + 1
                   AND digest = ledger_seal_digest(previous, number, sealed_at, members, heads) AS chained,
                   (SELECT coalesce(string_agg(int8send(t.id) || t.digest, ''::bytea ORDER BY t.id), '')
                      FROM ledger_transaction t WHERE t.id > after AND t.id <= last_transaction_id) AS present
              FROM chain
        )
        SELECT number, after, last_transaction_id, members, present, chained FROM checked
         WHERE NOT chained OR present IS DISTINCT FROM members
            OR last_transaction_id <> CASE WHEN members = '' THEN after
                    ELSE ('x' || encode(substr(members, length(members) - 39, 8), 'hex'))::bit(64)::bigint END
         ORDER BY number LIMIT %s
        """,
        MOST,
    )
    for number, after, last, members, present, chained in rows:
        if not chained:
            yield LedgerFinding("seal", f"seal {number}", "was changed, or the seal before it was changed or removed")
        yield from _changed_members(number, _members(members), _members(present))
        if not after <= max(_members(members), default=after) == last:
            yield LedgerFinding("seal", f"seal {number}", f"does not end at transaction {last}")


def _end_of_seals() -> Iterator[LedgerFinding]:
    """Check that the row that the database updates with every seal names the newest seal."""
    rows = rows_of(
        "SELECT h.number, h.digest = s.digest, s.number, n.newest"
        "  FROM (SELECT coalesce(max(number), 0) AS newest FROM ledger_seal) n"
        "  LEFT JOIN ledger_sealhead h ON true LEFT JOIN ledger_seal s ON s.number = h.number"
    )
    for number, is_same, present, newest in rows:
        if number is None and newest:
            yield LedgerFinding("seal", "the end of the seals", f"is gone; the newest seal is number {newest}")
        elif number is not None and (number > newest or present is None):
            yield LedgerFinding("seal", f"seal {newest + 1}", f"was removed: the seals went on to number {number}")
        elif number is not None and (number < newest or not is_same):
            yield LedgerFinding("seal", "the end of the seals", f"names seal {number}; the newest is number {newest}")


def _noted_seals() -> Iterator[LedgerFinding]:
    """Check that the seals are still there that entries of the history note as the newest of their time."""
    rows = rows_of(
        "SELECT min(e.sequence), e.seal_number, s.number IS NULL"
        "  FROM tenants_auditentry e LEFT JOIN ledger_seal s ON s.number = e.seal_number"
        " WHERE e.seal_number IS NOT NULL AND s.digest IS DISTINCT FROM decode(e.seal_digest, 'hex')"
        " GROUP BY 2, 3 ORDER BY 2 LIMIT %s",
        MOST,
    )
    for sequence, number, is_gone in rows:
        what = "was removed" if is_gone else "was rewritten"
        yield LedgerFinding("seal", f"seal {number}", f"{what}: entry {sequence} of the history noted it")


def _changed_members(number: int, sealed: dict[int, bytes], present: dict[int, bytes]) -> Iterator[LedgerFinding]:
    changed = [member for member in sorted(sealed | present) if sealed.get(member) != present.get(member)]
    for member in changed[:MOST]:
        story = "was added" if member not in sealed else "was removed" if member not in present else "was replaced"
        yield LedgerFinding("seal", f"transaction {member}", f"{story} after seal {number} closed over it")


def _members(packed: bytes) -> dict[int, bytes]:
    whole = bytes(packed)
    pieces = (whole[start : start + _MEMBER] for start in range(0, len(whole), _MEMBER))
    return {int.from_bytes(piece[:8], "big", signed=True): piece[8:] for piece in pieces}


def _known_heads(heads: Sequence[str]) -> Iterator[LedgerFinding]:
    for one in heads:
        if not rows_of("SELECT FROM ledger_seal WHERE digest = decode(%s, 'hex')", one):
            yield LedgerFinding(
                "seal", f"head {one}", "was noted earlier and is not in the chain: the seals were rewritten"
            )
