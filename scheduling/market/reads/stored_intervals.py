"""Read the complete input and output of a stored interval. All code that needs them reads them here.

An interval is stored whole, or as a delta from one earlier interval that is stored whole. So reading an interval needs
two rows at most, however many intervals there are.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from scheduling.market.reads.deltas import delta_apply
from scheduling.models import Interval

DIGEST = 64  # characters of a digest
# In which reading bytes that somebody changed may end. Whoever only reads goes on; verification names the interval.
READING_ERRORS = (zlib.error, ValueError, KeyError, TypeError)
# The errors in which reading changed bytes, or deciding on what they say, may end; so may rules of another version than
# decided. A failure of the database or of the machine is not among them, as it accuses nobody.
REPLAY_ERRORS = (
    *(zlib.error, ValueError, TypeError, LookupError, ArithmeticError),
    *(AttributeError, AssertionError, RuntimeError, StopIteration),
)
LARGE, QUICKLY = 8 * 2**20, 1  # contents with more bytes than LARGE are compressed at level QUICKLY


@dataclass(frozen=True)
class Contents:
    """The contents of an interval: canonical bytes, not compressed."""

    policy: bytes
    view: bytes
    plan: bytes
    windows: bytes
    heads: bytes = b""  # the heads of the other chains


def contents_of(interval: Interval) -> Contents:
    """Return the stored contents. Raises zlib.error or ValueError where they are no longer readable.

    When reading many intervals, read their bases with them: `prefetch_related("base")`.
    """
    view, plan = unpacked(bytes(interval.view)), unpacked(bytes(interval.plan))
    if interval.base_id is not None:
        base = _base_of(interval)
        text = text_of(contents_of(base))
        view, plan = (delta_apply(text, _delta_from(base, part)) for part in (view, plan))
    return Contents(bytes(interval.policy), view, plan, bytes(interval.windows), bytes(interval.heads))


def text_of(base: Contents) -> bytes:
    """Return the text that deltas copy from: the rows of the view, and those of the plan, which later views repeat."""
    return base.view + base.plan


def delta_to(base: Interval, delta: bytes) -> bytes:
    """Return the delta as it is stored: after the digest of its base, so that no other interval can replace the
    base."""
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
    """Compress contents. Large contents are compressed five times as fast, and take a tenth more room: a pool with that
    many owners and rents is short of time at its boundaries."""
    return zlib.compress(content, QUICKLY if len(content) > LARGE else zlib.Z_DEFAULT_COMPRESSION)


def unpacked(stored: bytes) -> bytes:
    """Decompress stored bytes. Raises zlib.error if any bytes are missing, or more bytes follow."""
    stream = zlib.decompressobj()
    content = stream.decompress(stored)
    if not stream.eof or stream.unused_data:
        raise zlib.error("it does not end where it should")
    return content
