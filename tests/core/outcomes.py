"""What two runs of one scenario decided, and where they differ."""

from __future__ import annotations

from scheduling.core.simulation import Outcome, Track
from scheduling.core.types import Booking

CLOSE = 1e-6  # credits, or that part of the amount
AMOUNTS = ("value", "ideal", "floor", "cost", "paid", "dividend", "shadow_cost")


def differences(left: Outcome, right: Outcome) -> list[str]:
    """One line for each job that did not fare alike: phase, times, gang, places, every amount, floor and state."""
    lines = []
    for one, other in zip(left.tracks, right.tracks, strict=True):
        if wrong := unlike(one, other):
            lines.append(f"{one.job.name}: {wrong}")
    return lines


def unlike(one: Track, other: Track) -> str | None:
    if one.state != other.state:
        return f"state {one.state} ({one.reason}) and {other.state} ({other.reason})"
    if one.state in ("rejected", "expired") and one.reason.code != other.reason.code:
        return f"reason {one.reason} and {other.reason}"
    for name in ("value", "start", "end", "draft"):
        if not close(getattr(one.floor, name, -1.0), getattr(other.floor, name, -1.0)):
            return f"floor {one.floor} and {other.floor}"
    if len(one.bookings) != len(other.bookings):
        return f"{len(one.bookings)} bookings and {len(other.bookings)}"
    for mine, theirs in zip(one.bookings, other.bookings, strict=True):
        if schedule(mine) != schedule(theirs):
            return f"schedule {schedule(mine)} and {schedule(theirs)}"
        for name in AMOUNTS:
            if not close(getattr(mine, name), getattr(theirs, name)):
                return f"{name} {getattr(mine, name)} and {getattr(theirs, name)}"
        if not all(map(close, payouts(mine, theirs), payouts(theirs, mine))):
            return f"payouts {mine.payouts} and {theirs.payouts}"
    if settled(one) != settled(other) and not all(map(close, settled(one), settled(other))):
        return f"settlement {one.settlement} and {other.settlement}"
    return None


def settled(track: Track) -> list[float]:
    """The numbers of a settlement; none where there is none, and as many in any two."""
    done = track.settlement
    return [-1.0] if done is None else [done.alone, done.refund, *done.reversal.tolist()]


def schedule(booking: Booking) -> tuple[object, ...]:
    """Everything about a booking that is not an amount of money; rows of the allocation in any order."""
    rows = sorted((row.server, row.start, row.end, row.workers, row.ps) for row in booking.allocation)
    return (
        booking.phase,
        booking.placement,
        booking.start,
        booking.end,
        booking.workers,
        booking.ps,
        (booking.worker_type, booking.ps_type),
        booking.work,
        rows,
    )


def payouts(booking: Booking, like: Booking) -> list[float]:
    """Nothing paid is written either as nothing or as zeros."""
    if booking.payouts is not None:
        return [float(amount) for amount in booking.payouts]
    return [0.0] * (0 if like.payouts is None else len(like.payouts))


def close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * max(1.0, abs(one), abs(other)) or one == other
