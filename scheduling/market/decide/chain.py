"""What a stored interval consists of: bytes with all input and output of the decision, and the digest that links it to
the interval before."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, cast

from django.db import connection
from django.db.models import OuterRef

from scheduling import core
from scheduling.core import records
from scheduling.core.types import AsksAnother, Policy
from scheduling.market.reads.deltas import Original
from scheduling.market.reads.stored_intervals import Contents, contents_of, delta_to, packed, text_of
from scheduling.models import FeedSeal, InstantAnswer, Interval, Lane, Pool
from tenants.common.zones import day_of
from tenants.ledger.seals import ChainHead

START = "0" * 64  # stands for the digest before the first interval of a pool
FEED = "feed"  # the name of the chain of the feed's seals
REACH = 16  # how many intervals one whole interval serves: itself, and those stored as deltas from it
WORTH_IT = 0.5  # the longest delta that is written, as a part of the base's stored input


def policy_bytes(policy: Policy) -> bytes:
    """Return the policy's name and the values of all its fields in use, as canonical bytes."""
    return records.to_bytes(policy_document(policy))


def policy_document(policy: Policy) -> dict[str, Any]:
    """Return the policy's name and fields. For a policy that asks another one, include that one's document too:
    `asdict` alone would leave out its name."""
    document = {"name": policy.name, **asdict(cast(Any, policy))}
    return document | ({"policy": policy_document(policy.policy)} if isinstance(policy, AsksAnother) else {})


def link(interval: Interval, contents: Contents) -> str:
    """Return the digest of an interval: over the digest before it, its place and time, and all its bytes."""
    where = {
        "pool": interval.pool_id,
        "number": interval.number,
        "slot": interval.slot,
        "decided_at": interval.decided_at.astimezone(UTC).isoformat(timespec="microseconds"),
        "code_version": interval.code_version,
    }
    parts = (contents.policy, contents.view, contents.plan, contents.windows)
    beside = (contents.heads,) if contents.heads else ()  # intervals of early versions name no heads
    return records.digest(interval.previous, records.to_bytes(where), *parts, *beside)


def base_for(pool_id: int, number: int, at: datetime) -> Interval | None:
    """Return the whole interval from which interval `number`, decided now, may be stored as a delta. Return None if it
    must be stored whole.

    The base is always of the same day: archives take whole days (`audit.archiving`), so no delta loses its base.
    """
    base = Interval.objects.filter(pool=pool_id, base=None).order_by("-number").first()
    if base is None or base.is_archived or number - base.number >= REACH:
        return None
    return base if day_of(base.decided_at, UTC) == day_of(at, UTC) else None


def interval_new(
    *,
    pool_id: int,
    number: int,
    slot: int,
    at: datetime,
    previous: str,
    contents: Contents,
    base: Interval | None = None,
) -> Interval:
    """Return a row that has its digest in the chain and is not yet saved. It is stored as a delta from `base` where
    that is much shorter."""
    interval = Interval(
        pool_id=pool_id,
        number=number,
        slot=slot,
        decided_at=at,
        code_version=code_version(),
        policy=contents.policy,
        windows=contents.windows,
        heads=contents.heads,
        previous=previous,
    )
    if base is None or not _put_as_delta(interval, contents, base):
        interval.view, interval.plan = packed(contents.view), packed(contents.plan)
    interval.digest = link(interval, contents)
    return interval


def _put_as_delta(interval: Interval, contents: Contents, base: Interval) -> bool:
    """Store the contents as a delta from the base. Return False, and store nothing, if the input has too little in
    common with the base's (later inputs would have even less), or the base was changed after it was decided."""
    before = _as_decided(base)
    if before is None:
        return False
    original = Original(text_of(before))
    view = delta_to(base, original.delta(contents.view))
    if len(view) > WORTH_IT * len(base.view):
        return False
    interval.base = base
    interval.view, interval.plan = view, delta_to(base, original.delta(contents.plan))
    return True


def _as_decided(base: Interval) -> Contents | None:
    """Return the contents of the base, or None where somebody changed them. Verification reports such an interval; here
    it is just no longer used as a base, and the market goes on."""
    try:
        contents = contents_of(base)
    except (zlib.error, ValueError):
        return None
    return contents if link(base, contents) == base.digest else None


def market_heads() -> dict[str, ChainHead]:
    """Return the heads of both chains of each pool and of the feed's chain, by the names under which the seals of the
    ledger note them."""
    heads = dict[str, ChainHead]()
    for name, links in ((intervals_name, Interval.objects), (answers_name, InstantAnswer.objects)):
        newest = links.filter(pool=OuterRef("pk")).order_by("-number")
        pools = Pool.objects.annotate(height=newest.values("number")[:1], digest=newest.values("digest")[:1])
        heads |= {name(pool.pk): ChainHead(pool.height, pool.digest) for pool in pools.filter(height__isnull=False)}
    last = FeedSeal.objects.order_by("-number").first()
    return heads | ({FEED: ChainHead(last.number, last.digest)} if last else {})


def intervals_name(pool_id: int) -> str:
    return f"pool:{pool_id}"


def answers_name(pool_id: int) -> str:
    return f"answers:{pool_id}"


_BESIDE = """
SELECT (SELECT max(number) FROM scheduling_instantanswer WHERE pool_id = %(pool)s),
       (SELECT head FROM scheduling_laneclock WHERE pool_id = %(pool)s AND lane = %(lane)s), seal.number, seal.digest
  FROM (SELECT max(number) AS last FROM scheduling_feedseal) AS newest
  LEFT JOIN scheduling_feedseal seal ON seal.number = newest.last
"""


def heads_beside(pool_id: int) -> bytes:
    """Return the heads of the other chains now: number and digest of the pool's last answer, and of the feed's last
    seal. One statement reads them, so they are of one moment. An answer that commits later is noted by the next
    interval."""
    with connection.cursor() as cursor:
        cursor.execute(_BESIDE, {"pool": pool_id, "lane": Lane.INSTANT.value})
        answer, head, seal, digest = cursor.fetchone()
    ends = {"answers": [answer or 0, head or START], "feed": [seal or 0, digest or START]}
    return records.to_bytes(ends)


@cache
def code_version() -> str:
    """Return the version of the code that decides: a digest of its source text. The same text decides the same way."""
    root = Path(core.__path__[0])
    text = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        text.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return f"core-{text.hexdigest()[:16]}"
