"""What an interval was decided from and what it answered, as whole as it was: read here by everybody.

It is stored whole, or by what differs from an earlier one that is: never by more than one, so that whoever opens one
interval reads two rows at most, however many there are.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from scheduling.market.reads.deltas import delta_apply
from scheduling.models import Interval

DIGEST = 64  # letters of a digest
LARGE, QUICKLY = 8 * 2**20, 1  # bytes, and the level of compression from there on


@dataclass(frozen=True)
class Contents:
    """Canonical bytes, not compressed."""

    policy: bytes
    view: bytes
    plan: bytes
    windows: bytes
    heads: bytes = b""  # of the chains beside this one


def contents_of(interval: Interval) -> Contents:
    """What was stored. Raises zlib.error or ValueError where that is no longer readable.

    Whoever reads many intervals reads their bases with them: `prefetch_related("base")`.
    """
    view, plan = unpacked(bytes(interval.view)), unpacked(bytes(interval.plan))
    if interval.base_id is not None:
        base = _base_of(interval)
        text = text_of(contents_of(base))
        view, plan = (delta_apply(text, _delta_from(base, part)) for part in (view, plan))
    return Contents(bytes(interval.policy), view, plan, bytes(interval.windows), bytes(interval.heads))


def text_of(base: Contents) -> bytes:
    """What deltas copy from: the rows of the input, and those of the answer, which the inputs after it have again."""
    return base.view + base.plan


def delta_to(base: Interval, delta: bytes) -> bytes:
    """As it is stored: behind the digest of its base, so that no other one can take the base's place."""
    return packed(base.digest.encode("ascii") + delta)


def _delta_from(base: Interval, named: bytes) -> bytes:
    if named[:DIGEST] != base.digest.encode():
        raise ValueError("it is told by another interval")
    return named[DIGEST:]


def _base_of(interval: Interval) -> Interval:
    try:
        base = interval.base
    except Interval.DoesNotExist:
        base = None
    if base is None or base.base_id is not None or base.pool_id != interval.pool_id:
        raise ValueError("the interval by which it is told is not there")
    return base


def packed(content: bytes) -> bytes:
    """What is large is packed five times as fast, and takes a tenth more room: a pool that has so many owners and rents
    is short of time at its boundaries."""
    return zlib.compress(content, QUICKLY if len(content) > LARGE else zlib.Z_DEFAULT_COMPRESSION)


def unpacked(stored: bytes) -> bytes:
    """What was compressed. Raises zlib.error where anything is missing, or follows it."""
    stream = zlib.decompressobj()
    content = stream.decompress(stored)
    if not stream.eof or stream.unused_data:
        raise zlib.error("it does not end where it should")
    return content
