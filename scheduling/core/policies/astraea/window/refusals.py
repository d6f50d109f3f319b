"""Says why a job gets nothing now, in codes and numbers of the market's one vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduling.core.policies.astraea.rules.clock import Turn
from scheduling.core.policies.astraea.schedules.schedule import (
    LOW_BALANCE,
    NEVER,
    NO_ROOM,
    OVER_BUDGET,
    OVER_MAX_PRICE,
    TOO_LONG,
    Shortfall,
)
from scheduling.core.policies.astraea.ways.rests import Rest, stands_still
from scheduling.core.policies.astraea.window.round import Round
from scheduling.core.types import Floor, Job, Reason, Refusal, View


def waiting(round_: Round, job: Job, floor: Floor | None) -> Refusal:
    """Return the refusal of a job that was offered everything and bought nothing, or a piece that leaves a rest."""
    if floor is not None and floor.value > 0:
        return Refusal(job.number, Reason("waiting_at_home", {"start": floor.start, "value": floor.value}))
    if (rest := round_.rests.get(job.number)) is not None and not rest.is_whole:
        return Refusal(job.number, _begun(round_, job, rest, floor))
    return Refusal(job.number, _reason(round_, job, round_.shortfalls[job.number]))


def _begun(round_: Round, job: Job, rest: Rest, floor: Floor | None) -> Reason:
    """Return the reason for a job that rents in pieces. A part of it was bought just now, or none was, or finishing it
    is worth no more than what is saved, so that no piece will be bought."""
    exact = round_.settings.workers == "exact"
    if job.number not in round_.pieces and (
        (finishing := stands_still(round_.cluster, rest, floor, round_.start, exact=exact)) is not None
    ):
        return Reason("stands_still", {"done": rest.share_done, "worth": rest.worth or 0.0, "finishing": finishing})
    return Reason("in_pieces", {"done": rest.share_done, "worth": rest.worth or 0.0})


def _reason(round_: Round, job: Job, short: Shortfall) -> Reason:
    if short.kind == TOO_LONG:
        return larger_than_window(round_.ways(job).shortest, round_.slots)
    if short.kind == NO_ROOM:
        return Reason("no_room", {"asked": short.units, "free": short.free})
    if short.kind == NEVER:
        return Reason("rent_never", {})
    if short.kind == OVER_BUDGET:
        return Reason("over_budget", {"price": short.price, "left": max(0.0, short.limit)})
    if short.kind == LOW_BALANCE:
        return Reason("low_balance", {"price": short.price, "left": short.limit})
    if short.kind == OVER_MAX_PRICE:
        if (before := round_.paid_before(job)) > 0:
            return Reason("over_max_price", {"price": short.price, "max_price": job.max_price, "spent": before})
        return Reason("over_max_price", {"price": short.price, "max_price": short.limit})
    if short.value <= 0:
        return Reason("not_worth_it", {"best_value": short.value})
    return Reason("outbid", {"price": short.price, "value": short.value})


def larger_than_window(needs: int | None, window: int | None) -> Reason:
    """Return the reason that no window of `window` slots is long enough for a job that needs `needs` slots.

    `needs` is None where no number of slots is enough, `window` is None where windows have no limit.
    """
    return Reason("larger_than_window", {"needs_slots": needs, "window_slots": window})


def until_the_interval_closes(now: Turn, jobs: Sequence[Job]) -> Iterator[Refusal]:
    """Yield the refusals of jobs that came since the last boundary: they wait for the next one, if there is one."""
    reason = Reason("waiting_for_interval", {"closes_at": now.closes_at})
    if now.closes_at is None:
        reason = Reason("no_more_intervals")
    yield from (Refusal(job.number, reason) for job in jobs)


def newly_seen(view: View) -> list[Job]:
    """Return the jobs that may run in this slot and in none before.

    They are the last of those that wait, because these are in order of arrival.
    """
    newcomers = []
    for job in reversed(view.waiting):
        if job.arrival <= view.slot - 1:
            break
        newcomers.append(job)
    return newcomers[::-1]
