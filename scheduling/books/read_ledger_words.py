"""Describe each movement of money in a sentence: what it is for, which job, and who. `{job}` stands for the job's name.

A job of another tenant is never named; the sentence has only its lane, its size and its number of slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduling.market.reads import AwardSeen, reason_few
from tenants.ledger.movements import Movement

AwardMovement = tuple[Movement, AwardSeen | None]


def sentence_of(rows: Sequence[AwardMovement], by: str = "") -> str:
    """Return the sentence for one movement, or for several of one sort. `by` is who submitted the job."""
    movement = rows[0][0]
    words = _SENTENCES.get(movement.kind)
    text = words(rows) if words else f"{movement.kind.replace('_', ' ').capitalize()}{_about(movement)}."
    if by and movement.kind == "hold":
        text = f"{text.removesuffix('.')}. Submitted by {by}."
    return text


def _about(movement: Movement) -> str:
    if movement.corrects:
        return f", corrects transaction {movement.corrects}"
    return " for {job}" if movement.subject.startswith("job:") and (movement.held or movement.available) else ""


def _hold(rows: Sequence[AwardMovement]) -> str:
    movement, award = rows[0]
    slots = _slots(movement.facts.get("end", 0) - movement.facts.get("start", 0))
    size = f", {_workers(award.workers)} for {slots}" if award else (f", {slots}" if slots else "")
    lane = " at once" if award and award.lane == "instant" else ""
    return f"Awarded {{job}}{lane}{size}: payment set aside."


def _settle(rows: Sequence[AwardMovement]) -> str:
    if rows[0][0].held:
        awards = {award.award_id: award for _, award in rows if award}
        slots = _slots(len(rows))
        if len(awards) == 1:  # an elastic job has an award of its own for each slot
            (award,) = awards.values()
            slots = f"{len(rows)} of {_slots(award.end - award.start)}"
        own = ", of which your own cells earned a part" if any(row.earned for row, _ in rows) else ""
        return f"Paid for {{job}}, {slots}{own}."
    return _earned(rows)


def _earned(rows: Sequence[AwardMovement]) -> str:
    awards = {award.award_id: award for _, award in rows if award}
    if len(awards) == 1:
        (award,) = awards.values()
        return f"Earned from a renter's {award.lane} job of {_workers(award.workers)}, {_slots(len(rows))}."
    renters = len(awards) or len(rows)
    return f"Earned from {renters} renters, {len(rows)} payments."


def _cancel(rows: Sequence[AwardMovement]) -> str:
    movement = rows[0][0]
    if not movement.held:
        return "Kept for you of a rent that was cancelled before its start."
    owners_part = " Part of it stays with the owners." if movement.held + movement.available else ""
    return f"Cancelled {{job}} before its start: what was set aside came back.{owners_part}"


def _refund(rows: Sequence[AwardMovement]) -> str:
    facts = rows[0][0].facts
    if facts.get("cause") == "server_lost":
        return f"Refund: server {facts.get('server', '')} was lost, and {{job}} was not delivered from there on."
    return f"Refund for {{job}}: {reason_few(str(facts.get('cause', 'the platform failed')))}."


def _release(rows: Sequence[AwardMovement]) -> str:
    return "Set aside for {job} and not needed: given back."


def _paid_in(rows: Sequence[AwardMovement]) -> str:
    return "Paid in from outside, by the operator."


def _paid_out(rows: Sequence[AwardMovement]) -> str:
    return "Paid out, by the operator."


def _collected(rows: Sequence[AwardMovement]) -> str:
    return "What was earned until then moved to available, and can be spent."


def _reverse(rows: Sequence[AwardMovement]) -> str:
    return f"Corrects transaction {rows[0][0].corrects}: the same amounts the other way round."


def _workers(number: int) -> str:
    return f"{number} worker{'' if number == 1 else 's'}"


def _slots(number: int) -> str:
    return f"{number} slot{'' if number == 1 else 's'}" if number else ""


_SENTENCES: dict[str, Callable[[Sequence[AwardMovement]], str]] = {
    "hold": _hold,
    "settle": _settle,
    "cancel": _cancel,
    "refund": _refund,
    "release": _release,
    "grant": _paid_in,
    "top_up": _paid_in,
    "withdraw": _paid_out,
    "collect": _collected,
    "reverse": _reverse,
}
