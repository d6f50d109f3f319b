"""One seal for all: it closes what was posted, and notes where the history and the chains of the market end."""

from __future__ import annotations

from datetime import datetime

from scheduling.market.decide.chain import market_heads
from tenants import history
from tenants.ledger.seals import SealBusy, Sealed, seal


def seal_everything(*, at: datetime) -> Sealed | SealBusy:
    """Seal everything that is committed. If somebody later cuts a chain, it contradicts the seal, and if somebody
    removes the seal, the end of the seals and every later entry of the history contradict that."""
    ends = market_heads() | ({history.CHAIN: end} if (end := history.head()) else {})
    return seal(at=at, heads=ends)
