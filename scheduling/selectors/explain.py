"""Why a job is where it is: the market's codes with their numbers, and the same in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from scheduling.models import Award, JobState, Pool, TrainingJob

Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Reason:
    code: str
    numbers: Numbers
    sentence: str


@dataclass(frozen=True)
class JobView:
    """A job as its tenant sees it. Amounts in micro-credits; times are those of the award, if there is one."""

    id: int
    name: str
    lane: str
    state: str
    phase: str
    payer: str
    price: int | None  # None: not decided yet
    reason: Reason
    starts_at: datetime | None
    ends_at: datetime | None
    workers: int


def job_explain(job: TrainingJob) -> JobView:
    """One job, with its last award. Needs the tenant's scope."""
    return jobs_explain(job.pool, [job])[0]


def jobs_explain(pool: Pool, jobs: Sequence[TrainingJob]) -> list[JobView]:
    """All of one pool, with `tenant` at hand; one query for their awards."""
    awards: dict[int, Award] = {}
    newest = Award.objects.filter(job__in=[job.pk for job in jobs]).order_by("job_id", "-attempt", "-start")
    for award in newest.distinct("job_id"):
        awards[award.job_id] = award
    return [job_view(pool, job, awards.get(job.pk)) for job in jobs]


def job_view(pool: Pool, job: TrainingJob, award: Award | None) -> JobView:
    """With `tenant` at hand, and the job's last award; asks the database nothing."""
    if award is not None and award.attempt != job.attempt:
        award = None  # of an earlier attempt: the job waits anew
    waits = job.state == JobState.QUEUED and award is not None and award.work_left is not None  # between its slots
    return JobView(
        id=job.pk,
        name=job.name,
        lane=job.lane,
        state=job.state,
        phase=award.phase if award and not waits else "",
        payer=job.tenant.name,
        price=award.paid_before + award.paid - award.returned if award else _price_of_nothing(job),
        reason=_reason(pool, job, award),
        starts_at=pool.slot_start(award.start) if award and not waits else None,
        ends_at=pool.slot_start(award.end) if award and not waits else None,
        workers=award.workers if award and not waits else 0,
    )


def _price_of_nothing(job: TrainingJob) -> int | None:
    return None if job.state == JobState.QUEUED else 0


def _reason(pool: Pool, job: TrainingJob, award: Award | None) -> Reason:
    if job.reason_code and not (award and award.work_left is not None and job.state == JobState.RUNNING):
        return Reason(job.reason_code, job.reason_numbers, reason_sentence(pool, job.reason_code, job.reason_numbers))
    if award is None:
        return Reason(job.state, {}, f"{job.get_state_display()}.")
    if award.work_left is not None:
        return _sized(pool, job, award)
    numbers = {"start": award.start, "end": award.end, "workers": award.workers, "paid": award.paid}
    where = {"own": "on your own cells", "shared": "on rented units"}.get(award.phase, "as booked")
    verb, when = {
        JobState.AWARDED: ("Starts", f"at {_clock(pool, award.start)}"),
        JobState.RUNNING: ("Runs", f"until {_clock(pool, award.end)}"),
    }.get(JobState(job.state), ("Ran", f"until {_clock(pool, award.end)}"))
    return Reason(job.state, numbers, f"{verb} {where} {when}, on {award.workers} workers at most.")


def _sized(pool: Pool, job: TrainingJob, award: Award) -> Reason:
    """Of a job that is sized anew in every slot, by its newest one."""
    paid = award.paid_before + award.paid - award.returned
    numbers = {"slot": award.start, "workers": award.workers, "ps": award.ps, "paid": paid}
    units = _units(award.workers, award.ps)
    if job.state == JobState.RUNNING and job.reason_code:
        why = reason_sentence(pool, job.reason_code, job.reason_numbers)
        sentence = f"Runs on {units}; it is sized anew at {_clock(pool, award.end)}. {why}"
        return Reason(job.reason_code, {**numbers, **job.reason_numbers}, sentence)
    if job.state == JobState.RUNNING:
        sentence = f"Runs on {units}; it is sized anew at {_clock(pool, award.end)}."
    else:
        sentence = f"Ran until {_clock(pool, award.end)}, at last on {units}."
    return Reason(job.state, numbers, sentence)


def reason_sentence(pool: Pool, code: str, numbers: Numbers) -> str:
    """The code in words. One that has none yet is shown as it is, with its numbers: better than nothing."""
    known = _SENTENCES.get(code)
    try:
        if known is not None:
            return known(pool, numbers)
    except (KeyError, TypeError, ValueError):
        pass  # an older row that lacks a number is still shown, below
    listed = ", ".join(f"{name} {value}" for name, value in numbers.items())
    return f"{code.replace('_', ' ').capitalize()}{f': {listed}' if listed else ''}."


def _clock(pool: Pool, slot: int) -> str:
    return f"{timezone.localtime(pool.slot_start(int(slot))):%H:%M:%S}"


def _credits(number: float) -> str:
    return f"{number:,.2f}"


def _units(workers: int, ps: int) -> str:
    return f"{workers} worker{'s' * (workers != 1)} and {ps} parameter server{'s' * (ps != 1)}"


def _least(numbers: Numbers) -> str:
    """Of a job that could be smaller than it was to be: what its least size costs."""
    return f", its least size {_credits(numbers['least_price'])}" if "least_price" in numbers else ""


def _smaller(pool: Pool, numbers: Numbers) -> str:
    means = {"over_budget": "of the budget are left", "over_max_price": "of its limit are left"}
    left = f"{_credits(numbers['left'])} {means.get(numbers['limit'], 'are available')}"
    asked = _units(int(numbers["asked"]), int(numbers["asked_ps"]))
    return f"Smaller than it could be: {asked} cost {_credits(numbers['asked_price'])} in this slot, and {left}."


def _outbid(pool: Pool, numbers: Numbers) -> str:
    price = numbers.get("price", numbers.get("price_at_least"))
    least = "at least " if "price" not in numbers else ""
    return f"The price is {least}{_credits(float(price or 0))}, and the job is worth {_credits(numbers['value'])}."


def _too_long(pool: Pool, numbers: Numbers) -> str:
    if numbers["needs_slots"] is None:
        return "No number of slots is enough for this job."
    return f"Needs {numbers['needs_slots']} slots; the longest interval has {numbers['window_slots']}."


_SENTENCES: Mapping[str, Callable[[Pool, Numbers], str]] = {
    "waiting_for_interval": lambda pool, n: (
        f"Waits for the interval that closes at {_clock(pool, n.get('slot', n['closes_at']))}."
    ),
    "waiting_at_home": lambda pool, n: (
        f"Renting is not worth it; its turn on your own cells is {_clock(pool, n['start'])}."
    ),
    "outbid": _outbid,
    "no_room": lambda pool, n: (
        f"Not enough room: asks for {n['asked']:g}" + (f", {n['free']:g} free." if "free" in n else ".")
    ),
    "larger_than_window": _too_long,
    "over_budget": lambda pool, n: (
        f"Costs {_credits(n['price'])}{_least(n)}, and {_credits(n['left'])} of the budget are left."
    ),
    "smaller_size": _smaller,
    "over_max_price": lambda pool, n: (
        f"Its next slot costs {_credits(n['price'])}{_least(n)}, and {_credits(max(0.0, n['max_price'] - n['spent']))} "
        f"of your limit {_credits(n['max_price'])} are left."
        if "spent" in n
        else f"Costs {_credits(n['price'])}, more than your limit {_credits(n['max_price'])}."
    ),
    "low_balance": lambda pool, n: (
        f"Costs {_credits(n['price'])}{_least(n)}, and "
        f"{_credits(n.get('available', n.get('left', 0.0)))} are available."
    ),
    "not_worth_it": lambda pool, n: f"Worth nothing when it would be done (at best {_credits(n['best_value'])}).",
    "rent_never": lambda pool, n: "May not rent, and your own cells are taken.",
    "not_its_turn": lambda pool, n: "The pool's policy gives it nothing in this slot.",
    "horizon_too_short": lambda pool, n: f"Needs {n['needs_slots']} slots, and only {n['slots']} are open for sale.",
    "market_stopped": lambda pool, n: "The market stood still; what was not delivered is refunded, and it waits again.",
    "engine_error": lambda pool, n: (
        "The platform could not run it; what was not delivered is refunded; it waits again"
        + (f", and rests until {_clock(pool, n['next_slot'])} after {n['losses']} times." if "losses" in n else ".")
    ),
    "given_up": lambda pool, n: (
        f"The platform lost it {n['losses']} times in a row, the last time because {n['detail'].rstrip('.')}. "
        "What was not delivered is refunded; it is not tried again."
    ),
    "program_failed": lambda pool, n: f"Its program failed: {n['detail']}. What was reserved is paid.",
    "reservation_ended": lambda pool, n: (
        f"Its time was over after {n['epoch']} of {n['epochs']} epochs."
        if n.get("epochs")
        else "Its time was over before it had done its work."
    ),
    "over_share": lambda pool, n: (
        f"Asks for at least {n['asked']} workers; one job may have {n['most']} at once ({n['percent']} % of the pool)."
    ),
    "server_lost": lambda pool, n: "Its server was lost; what was not delivered is refunded, and it waits again.",
    "cancelled_by": lambda pool, n: f"Cancelled by {n.get('user') or 'its tenant'}.",
    "market_held": lambda pool, n: "The market is on hold; nothing new is decided.",
}
