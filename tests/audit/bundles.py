"""Bundles of a pool's whole life, cut into periods, and what the checker says of each."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from scheduling.audit.bundle import bundle_write, check
from scheduling.models import Pool
from tenants.access import Refused

SEED = bytes(range(32))


def bundle_findings(pool: Pool, moments: Sequence[datetime] = ()) -> list[str]:
    """Of bundles from before the pool's first slot to long after its last one, cut at these moments."""
    first, last = pool.epoch_at - timedelta(days=400), pool.epoch_at + timedelta(days=400)
    findings = []
    for start, end in pairwise([first, *moments, last]):
        file = io.BytesIO()
        bundle = bundle_write(pool=pool, start=start, end=end, seed=SEED, file=file)
        assert not isinstance(bundle, Refused), bundle
        findings += [f"bundle of {pool.slug} {start} to {end}: {one}" for one in check.check(file)]
    return findings
