"""What a stored interval is made of: bytes that say everything, and the digest that ties it to the one before."""

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
from tenants.ledger.seals import ChainHead
from tenants.zones import day_of

START = "0" * 64  # what the first interval of a pool follows
FEED = "feed"  # the chain of its seals
REACH = 16  # of a whole interval: itself, and those after it that are told by it
WORTH_IT = 0.5  # of the base's stored input; a longer delta is not written


def policy_bytes(policy: Policy) -> bytes:
    """Name and every field, as used."""
    return records.to_bytes(policy_document(policy))


def policy_document(policy: Policy) -> dict[str, Any]:
    """Of a policy that asks another one, that one's settings too: `asdict` alone would leave out its name."""
    document = {"name": policy.name, **asdict(cast(Any, policy))}
    return document | ({"policy": policy_document(policy.policy)} if isinstance(policy, AsksAnother) else {})


def link(interval: Interval, contents: Contents) -> str:
    """The digest of an interval: over the one before it, when and where it stands, and all its bytes."""
    where = {
        "pool": interval.pool_id,
        "number": interval.number,
        "slot": interval.slot,
        "decided_at": interval.decided_at.astimezone(UTC).isoformat(timespec="microseconds"),
        "code_version": interval.code_version,
    }
    parts = (contents.policy, contents.view, contents.plan, contents.windows)
    beside = (contents.heads,) if contents.heads else ()  # an interval from before there were any names none
    return records.digest(interval.previous, records.to_bytes(where), *parts, *beside)


def base_for(pool_id: int, number: int, at: datetime) -> Interval | None:
    """The whole interval by which interval `number` may be told, decided now. None: it is to be whole itself.

    Never one of another day: archives take whole days (`audit.archiving`), and leave none without its base.
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
    """A row that is chained and not yet saved. `base`: by which it is told, where that is much shorter."""
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
    """False: the input has too little in common with the base's, and the next ones would have less; or that one was
    changed since."""
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
    """None where somebody changed it: verification names it, nothing more is told by it, and the market goes on."""
    try:
        contents = contents_of(base)
    except (zlib.error, ValueError):
        return None
    return contents if link(base, contents) == base.digest else None


def market_heads() -> dict[str, ChainHead]:
    """Where both chains of each pool end, and that of the feed, by the names under which the seals of the ledger note
    them."""
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
    """Where the other chains end now: number and digest of the pool's last answer, and of the feed's last seal. In one
    statement, so of one moment; an answer that is being given meanwhile is seen by the next interval."""
    with connection.cursor() as cursor:
        cursor.execute(_BESIDE, {"pool": pool_id, "lane": Lane.INSTANT.value})
        answer, head, seal, digest = cursor.fetchone()
    ends = {"answers": [answer or 0, head or START], "feed": [seal or 0, digest or START]}
    return records.to_bytes(ends)


@cache
def code_version() -> str:
    """The code that decides, by a digest of its own text: the same words decide the same way."""
    root = Path(core.__path__[0])
    text = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        text.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return f"core-{text.hexdigest()[:16]}"
