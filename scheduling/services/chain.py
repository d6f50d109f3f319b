"""What a stored interval is made of: bytes that say everything, and the digest that ties it to the one before."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, cast

from scheduling import core
from scheduling.core import records
from scheduling.core.policies.elastic import Elastic
from scheduling.core.types import Policy
from scheduling.models import Interval

START = "0" * 64  # what the first interval of a pool follows


@dataclass(frozen=True)
class Contents:
    """Canonical bytes, not compressed."""

    policy: bytes
    view: bytes
    plan: bytes
    windows: bytes


def policy_bytes(policy: Policy) -> bytes:
    """Name and every field, as used."""
    return records.to_bytes(_settings(policy))


def _settings(policy: Policy) -> dict[str, Any]:
    """Of a policy that asks another one, that one's settings too: `asdict` alone would leave out its name."""
    told = {"name": policy.name, **asdict(cast(Any, policy))}
    return told | ({"policy": _settings(policy.policy)} if isinstance(policy, Elastic) else {})


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
    return records.digest(interval.previous, records.to_bytes(where), *parts)


def contents_of(interval: Interval) -> Contents:
    """What was stored. Raises zlib.error where that is no longer readable."""
    return Contents(
        bytes(interval.policy),
        zlib.decompress(bytes(interval.view)),
        zlib.decompress(bytes(interval.plan)),
        bytes(interval.windows),
    )


def interval_new(*, pool_id: int, number: int, slot: int, at: datetime, previous: str, contents: Contents) -> Interval:
    """A row that is chained and not yet saved."""
    interval = Interval(
        pool_id=pool_id,
        number=number,
        slot=slot,
        decided_at=at,
        code_version=code_version(),
        policy=contents.policy,
        view=zlib.compress(contents.view),
        plan=zlib.compress(contents.plan),
        windows=contents.windows,
        previous=previous,
    )
    interval.digest = link(interval, contents)
    return interval


@cache
def code_version() -> str:
    """The code that decides, by a digest of its own text: the same words decide the same way."""
    root = Path(core.__path__[0])
    text = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        text.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return f"core-{text.hexdigest()[:16]}"
