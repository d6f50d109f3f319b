"""One seal for all: it closes what was posted, and says where the history and the chains of the market end."""

from __future__ import annotations

from datetime import datetime

from scheduling.market.decide.chain import market_heads
from tenants import history
from tenants.ledger.seals import SealBusy, Sealed, seal


def seal_everything(*, at: datetime) -> Sealed | SealBusy:
    """Each chain is read as it was committed. Whoever cuts one of them later contradicts the seal, and whoever removes
    the seal contradicts the end of the seals and every later entry of the history."""
    ends = market_heads() | ({history.CHAIN: end} if (end := history.head()) else {})
    return seal(at=at, heads=ends)
