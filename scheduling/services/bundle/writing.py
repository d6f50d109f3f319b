"""Writing the audit bundle of a period: everything that is needed to recompute it, and the program that does."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from django.db.models import Q

from scheduling.models import Award, Interval, Pool
from scheduling.services.bundle import check, signature
from scheduling.services.chain import START, contents_of
from scheduling.services.moments import one_moment
from tenants.access import Refused
from tenants.ledger.export import balances_at, transactions_between
from tenants.scoping import scope_disabled

NO_PERIOD = Refused("no_period", "The period ends before it begins.")
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # of every file in it: the same period gives the same bundle

README = """An audit bundle of the pool {pool}, for what happened from {start} to {end}.

intervals.jsonl     every decision of the period: its whole input, its answer, its digest and the one it follows
awards.jsonl        what these decisions gave, and every award about which the book says something in the period
transactions.jsonl  the whole book of the period (all pools): amounts are micro-credits, lines are [account, amount]
balances.json       every account after the period
manifest.json       the period; every account before it; the digest that its first interval follows, and its last
                    digest; SHA-256 of each file. signature.json signs all of this with Ed25519
check.py            checks all of this: python3 check.py BUNDLE.zip --key PUBLIC_KEY

Accounts: 1 is the operator, 2 the outside; a tenant's are 8 times its number, + 0 available, + 1 held, + 2 earned.
Take check.py from a place that you trust, and read it: it is one file. The public key is {key}
"""


@dataclass(frozen=True)
class Bundle:
    intervals: int
    awards: int
    transactions: int
    public_key: str


def bundle_write(*, pool: Pool, start: datetime, end: datetime, seed: bytes, file: IO[bytes]) -> Bundle | Refused:
    """The period [start, end), by the time that decisions and money are about. One moment of the database."""
    if end <= start:
        return NO_PERIOD
    with scope_disabled("an audit looks at everybody's awards and payments"), one_moment():
        return _write(pool, start, end, seed, file)


def _write(pool: Pool, start: datetime, end: datetime, seed: bytes, file: IO[bytes]) -> Bundle:
    public = signature.public_key(seed).hex()
    with zipfile.ZipFile(file, "w") as bundle:
        written = _Writer(bundle)
        intervals = Interval.objects.filter(pool=pool, decided_at__gte=start, decided_at__lt=end).order_by("number")
        readme = README.format(pool=pool.slug, start=start.isoformat(), end=end.isoformat(), key=public)
        written.file("README.txt", [readme.encode()])
        count = written.rows("intervals.jsonl", (_interval(row) for row in intervals.iterator(chunk_size=20)))
        awards = written.rows("awards.jsonl", _awards(pool, start, end))
        told = written.rows("transactions.jsonl", transactions_between(start=start, end=end))
        written.file("balances.json", [_line({"closing": balances_at(moment=end)})])
        written.file("check.py", [Path(check.__file__).read_bytes()])
        period = {"start": start.astimezone(UTC).isoformat(), "end": end.astimezone(UTC).isoformat()}
        opening = {"period": period, "chain": _chain(pool, intervals), "opening": balances_at(moment=start)}
        manifest = _line({"format": check.FORMAT, **opening, "files": dict(written.digests)})
        written.file("manifest.json", [manifest])
        signed = {"public_key": public, "signature": signature.sign(seed, manifest).hex()}
        written.file("signature.json", [_line(signed)])
    return Bundle(count, awards, told, public)


class _Writer:
    """Files into the bundle, with the digest of each."""

    def __init__(self, bundle: zipfile.ZipFile) -> None:
        self.bundle = bundle
        self.digests: dict[str, str] = {}

    def file(self, name: str, parts: Iterable[bytes]) -> int:
        digest, count = hashlib.sha256(), 0
        about = zipfile.ZipInfo(name, LONG_AGO)
        about.compress_type = zipfile.ZIP_DEFLATED
        with self.bundle.open(about, "w", force_zip64=True) as file:
            for part in parts:
                file.write(part)
                digest.update(part)
                count += 1
        self.digests[name] = digest.hexdigest()
        return count

    def rows(self, name: str, rows: Iterable[dict[str, Any]]) -> int:
        return self.file(name, (_line(row) for row in rows))


def _chain(pool: Pool, intervals: Any) -> dict[str, Any]:
    """Where the period's intervals stand in the pool's chain: what the first of them follows is taken from here."""
    first, last = intervals.first(), intervals.last()
    return {
        "pool": pool.pk,
        "first_interval": first.number if first else 1,
        "previous_digest": first.previous if first else START,
        "last_digest": last.digest if last else START,
    }


def _interval(row: Interval) -> dict[str, Any]:
    contents = contents_of(row)
    return {
        "pool": row.pool_id,
        "number": row.number,
        "slot": row.slot,
        "decided_at": row.decided_at.astimezone(UTC).isoformat(timespec="microseconds"),
        "code_version": row.code_version,
        "previous": row.previous,
        "digest": row.digest,
        "policy": contents.policy.decode(),
        "view": contents.view.decode(),
        "plan": contents.plan.decode(),
        "windows": contents.windows.decode(),
    }


def _awards(pool: Pool, start: datetime, end: datetime) -> Iterator[dict[str, Any]]:
    """Those decided in the period, and those that ran in it."""
    ran = Q(start__lte=pool.slot_at(end), end__gte=pool.slot_at(start))
    decided = Q(awarded_at__gte=start, awarded_at__lt=end)
    rows = Award.objects.filter(ran | decided, pool=pool).select_related("interval").order_by("pk")
    for award in rows.defer("interval__view", "interval__plan", "interval__windows").iterator(chunk_size=500):
        yield {
            "id": award.pk,
            "job": award.job_id,
            "tenant": award.tenant_id,
            "interval": award.interval.number if award.interval else None,
            "start": award.start,
            "end": award.end,
            "paid": award.paid,
            "charges": award.charges,
        }


def _line(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
