"""The kinds of events: for each its audience, the parts of pages that it changes, and its words.

A new kind is one member of `EventKind`. All code that must know every kind reads this list: for who may read an event,
what a webhook can subscribe to, what an open page loads again, the title in a job's story, and the words of the notice
that persons get. `scheduling.notices.kinds` says which kind of notice an event makes, and so who gets it.

If a job's story needs more than the title, the sentence under it is in `scheduling.jobs.read_life`. A kind that changes
nothing in the job's course is marked here (`BESIDE`); `scheduling.audit.verification.lives` has to know what any other
kind does to the job. tests/feed/test_event_kinds.py fails for a kind that has neither, and for one that no code writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from tenants.ledger.amounts import THOUSANDS, price_of_one, rounded, shown

# Parts of pages, by the names in the messages that make a page load them again.
SLOT, PRICES, JOBS, MONEY, SERVERS, SHARE = "slot", "prices", "jobs", "money", "servers", "share"
NOTICES = "notices"  # of one person; no event changes them

Data = Mapping[str, Any]


class Audience(Enum):
    """Who may read an event: everybody, or the members of one tenant, or only those of them who may see its jobs or
    its money."""

    EVERYBODY = "everybody"
    TENANT = "tenant"
    TENANT_JOBS = "tenant's jobs"
    TENANT_MONEY = "tenant's money"


@dataclass(frozen=True)
class NoticeWords:
    """The words of a notice. `text` returns a sentence from the event's data and a name: the job's, and where the event
    is about no job, the pool's."""

    is_good: bool
    title: str
    text: Callable[[str, Data], str]


def _awarded(name: str, data: Data) -> str:
    if not data["paid"]:
        return f"{name} runs on your own cells, free."
    return f"{name}: {shown(data['paid'])} credits are set aside for it."


def _requeued(name: str, data: Data) -> str:
    if "cause" not in data:
        return f"{name} gets a new place at home."
    if not data.get("refunded"):
        return f"{name} waits for another place. No credits came back: what was not delivered cost none, or is settled."
    return f"{name} waits for another place. {shown(data['refunded'])} credits came back for what was not delivered."


def _failed(name: str, data: Data) -> str:
    came_back = data.get("numbers", {}).get("refunded")
    if came_back:
        return f"{name} failed, and {shown(came_back)} credits came back. Its page says why."
    return f"{name} failed. Its page says why."


def _refused(name: str, data: Data) -> str:
    if data.get("begun"):
        return f"{name} gets no other place. Its page says what it paid for."
    return f"{name}: nothing was charged."


def _expired(name: str, data: Data) -> str:
    if data.get("begun"):
        return f"{name} found no other place as long as it was worth something. Its page says what it paid for."
    return f"{name} found no place as long as it was worth something."


def _stopped(name: str, data: Data) -> str:
    if data.get("reason") == "no_progress":
        return f"{name} rents no more: its last {data['numbers']['pieces']} pieces brought it no further."
    return f"{name} had more to do when its time was over."


def _waiting(name: str, data: Data) -> str:
    if data.get("reason") != "outbid":
        return f"{name} waits."
    return f"{name} waits, for the price is above what it is worth. It is looked at again at each interval."


def _last_chance(name: str, data: Data) -> str:
    price, value = (rounded(data["numbers"][each], 2) for each in ("price", "value"))
    return (
        f"{name} was outbid in the last interval in which it could still be worth something: a place cost {price} "
        f"credits, and it was worth {value}. To run it all the same, submit it again: for later, or worth more."
    )


def _cut(name: str, data: Data) -> str:
    why = "its program had ended before" if data.get("cause") == "not_needed" else "the platform failed"
    return f"{name}: {why}, and {shown(data['refunded'])} credits came back."


def _adjusted(name: str, data: Data) -> str:
    why = "it was never done" if data.get("cause") == "not_done" else "alone it would have been worth more"
    return f"{name}: {why}, so {shown(data['refunded'])} came back."


def _concern(name: str, data: Data) -> str:
    return f"{data['title']} of {data['days']} days in {name} passed its limit, and it concerns you."


def _switched_off(_: str, data: Data) -> str:
    what = f"Webhook {data['webhook']} is switched off, as nothing was taken there for days."
    return f"{what} Switched on again, it is told what it missed."


def _low_balance(_: str, data: Data) -> str:
    """Return the sentence. It counts in slots if an older version wrote the event, without the length of a slot."""
    if "slot_seconds" not in data:
        return f"{shown(data['available'])} credits last {data['slots_left']} slot{'s' * (data['slots_left'] != 1)}."
    pace, seconds = data["per_slot"], data["slot_seconds"]
    return (
        f"{shown(data['available'])} credits last {_lasting(data['available'] * seconds / pace)}, at the "
        f"{shown(price_of_one(pace * 3_600, seconds))} credits an hour that are spent now."
    )


def _lasting(seconds: float) -> str:
    """Return a duration in words, rounded down: to whole minutes up to two hours, then to tenths of hours."""
    if seconds < 60:
        return "less than a minute"
    if seconds < 7_200:
        return _several(int(seconds // 60), "minute")
    hours, tenths = divmod(int(seconds // 360), 10)
    return f"{hours:,}{f'.{tenths}' if tenths else ''} hours".replace(",", THOUSANDS)


def _budget_passed(_: str, data: Data) -> str:
    return f"{_whose(data)}: {shown(data['spent'])} credits are spent, past the soft limit of {shown(data['limit'])}."


def _budget_reached(_: str, data: Data) -> str:
    what = f"{_whose(data)}: {shown(data['spent'])} of {shown(data['limit'])} credits are spent"
    if data["percent"] < 100:
        return f"{what}, {data['percent']} % or more."
    if data["hard"]:
        return f"{what}. Nothing more is bought until the next {data['period']} begins."
    return f"{what}, all of it."


def _whose(data: Data) -> str:
    whose = "the tenant" if data["member"] is None else "one member"
    return f"The budget of {whose} for this {data['period']}"


def _server_lost(name: str, data: Data) -> str:
    silent = f"{data['server']} in {name} does not answer."
    if "awards" not in data:
        return silent
    if not data["awards"]:
        return f"{silent} Nothing was booked on it."
    booked = _several(data["awards"], "booked place")
    return f"{silent} It ended {booked}, and {shown(data['refunded'])} credits went back."


def _taken_over(name: str, data: Data) -> str:
    return f"{name}: the teacher of {data['policy']} decides."


def _server_changed(name: str, data: Data) -> str:
    return f"{data['server']} in {name} is {str(data['state']).replace('_', ' ')}."


def _several(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


BESIDE = False  # marks a kind of event about a job that does not change the job's state

_JOB = Audience.TENANT_JOBS, (JOBS, SERVERS, MONEY)
_POOL = Audience.EVERYBODY, (PRICES, SERVERS)
_CLUSTER = Audience.EVERYBODY, (SERVERS, SHARE, PRICES)


class EventKind(StrEnum):
    """A kind of event. Its parts are: the name under which it is stored; its audience; the topics of pages that it
    changes; its heading in a job's story, if it is about a job; the words of its notice, if persons may want one (about
    jobs, money, and what the platform did); and whether it changes the job that it is about: its state, lane, attempt,
    awards, or what it waits for."""

    audience: Audience
    topics: tuple[str, ...]
    heading: str
    message: NoticeWords | None
    moves_job: bool

    def __new__(
        cls,
        value: str,
        audience: Audience,
        topics: tuple[str, ...],
        heading: str = "",
        message: NoticeWords | None = None,
        moves_job: bool = True,
    ) -> EventKind:
        member = str.__new__(cls, value)
        member._value_ = value
        member.audience, member.topics, member.heading, member.message = audience, topics, heading, message
        member.moves_job = bool(heading) and moves_job
        return member

    # A job's course.
    JOB_SUBMITTED = "job_submitted", *_JOB, "Submitted"
    JOB_QUEUED = "job_queued", *_JOB, "Waits for the next interval"
    JOB_WAITING = "job_waiting", *_JOB, "Waits", NoticeWords(False, "Outbid.", _waiting)
    # The job still waits, as before. At its next boundary it will be worth nothing, which another event reports.
    JOB_LAST_CHANCE = (
        "job_last_chance", Audience.TENANT_JOBS, (JOBS,), "Outbid in its last chance",
        NoticeWords(False, "Last chance missed.", _last_chance), BESIDE,
    )  # fmt: skip
    JOB_AWARDED = "job_awarded", *_JOB, "Awarded", NoticeWords(True, "Awarded.", _awarded)
    JOB_STARTED = "job_started", *_JOB, "Started", NoticeWords(True, "Started.", lambda name, _: f"{name} runs.")
    JOB_RESIZED = "job_resized", *_JOB, "Resized"
    JOB_SAVED = "job_saved", *_JOB, "Saved"
    JOB_REQUEUED = "job_requeued", *_JOB, "Queued again", NoticeWords(False, "Queued again.", _requeued)
    JOB_FINISHED = "job_finished", *_JOB, "Finished", NoticeWords(True, "Finished.", lambda name, _: f"{name} is done.")
    JOB_STOPPED = (
        "job_stopped", *_JOB, "Stopped",
        NoticeWords(False, "Stopped.", _stopped),
    )  # fmt: skip
    JOB_FAILED = (
        "job_failed", *_JOB, "Failed",
        NoticeWords(False, "Failed.", _failed),
    )  # fmt: skip
    JOB_REFUSED = (
        "job_refused", *_JOB, "Refused",
        NoticeWords(False, "Refused.", _refused),
    )  # fmt: skip
    JOB_EXPIRED = (
        "job_expired", *_JOB, "Expired",
        NoticeWords(False, "Expired.", _expired),
    )  # fmt: skip
    JOB_CANCELLED = "job_cancelled", *_JOB, "Cancelled"
    AWARD_GIVEN_UP = "award_given_up", Audience.TENANT, (JOBS, SERVERS, MONEY), "Given up"
    # The award of this program began before.
    JOB_RUN_STARTED = "job_run_started", Audience.TENANT_JOBS, (), "Program started", None, BESIDE
    AWARD_CUT = "award_cut", Audience.TENANT, (), "Cut short", NoticeWords(False, "Cut short.", _cut)
    AWARD_ADJUSTED = (
        "award_adjusted", Audience.TENANT, (JOBS, MONEY), "Paid less",
        NoticeWords(True, "Paid less.", _adjusted),
    )  # fmt: skip
    # A tenant's money.
    LOW_BALANCE = (
        "low_balance", Audience.TENANT_MONEY, (MONEY,), "", NoticeWords(False, "Low balance.", _low_balance),
    )  # fmt: skip
    BUDGET_PASSED = (
        "budget_passed", Audience.TENANT_MONEY, (MONEY,), "", NoticeWords(False, "Budget passed.", _budget_passed),
    )  # fmt: skip
    BUDGET_REACHED = (
        "budget_reached", Audience.TENANT_MONEY, (MONEY,), "", NoticeWords(False, "Budget.", _budget_reached),
    )  # fmt: skip
    BUDGET_CHANGED = "budget_changed", Audience.TENANT_MONEY, ()
    CREDITS_WITHDRAWN = "credits_withdrawn", Audience.TENANT_MONEY, ()
    # A tenant's other affairs.
    FAIRNESS_CONCERN = "fairness_concern", Audience.TENANT, (), "", NoticeWords(False, "Fairness.", _concern)
    WEBHOOK_SWITCHED_OFF = (
        "webhook_switched_off", Audience.TENANT, (), "", NoticeWords(False, "Webhook.", _switched_off),
    )  # fmt: skip
    # The market, for everybody.
    SLOT_SETTLED = "slot_settled", Audience.EVERYBODY, (SLOT, MONEY)  # the money of all who pay or earn in the slot
    INTERVAL_CLOSED = "interval_closed", Audience.EVERYBODY, (PRICES, SERVERS, MONEY)  # decisions hold or move money
    PRICES_POSTED = "prices_posted", Audience.EVERYBODY, (PRICES,)
    USE_PRICES_SET = "use_prices_set", *_POOL
    WEIGHTS_PROMOTED = "weights_promoted", *_POOL
    MARKET_STOPPED = "market_stopped", *_POOL
    POLICY_TAKEN_OVER = (
        "policy_taken_over", *_POOL, "",
        NoticeWords(False, "Policy taken over.", _taken_over),
    )  # fmt: skip
    POOL_HELD = (
        "pool_held",
        *_POOL,
        "",
        NoticeWords(False, "Market on hold.", lambda name, _: f"{name}: nothing new is decided."),
    )
    POOL_DRAINING = (
        "pool_draining",
        *_POOL,
        "",
        NoticeWords(False, "Market closing.", lambda name, _: f"{name}: nothing new is accepted."),
    )
    POOL_RESUMED = (
        "pool_resumed",
        *_POOL,
        "",
        NoticeWords(True, "Market open.", lambda name, _: f"{name}: intervals are decided again."),
    )
    SERVER_CHANGED = (
        "server_changed", *_CLUSTER, "",
        NoticeWords(False, "Cluster changed.", _server_changed),
    )  # fmt: skip
    SERVER_LOST = (
        "server_lost", *_CLUSTER, "",
        NoticeWords(False, "Server lost.", _server_lost),
    )  # fmt: skip
    FAIRNESS_ALERT = "fairness_alert", Audience.EVERYBODY, ()
    FAIRNESS_ALERT_OVER = "fairness_alert_over", Audience.EVERYBODY, ()


_BY_VALUE: Mapping[str, EventKind] = {kind.value: kind for kind in EventKind}


def kind_of(stored: str) -> EventKind | None:
    """Return the kind of a stored event, or None if this version does not have the kind any more."""
    return _BY_VALUE.get(stored)


def kinds_for(*audiences: Audience) -> frozenset[EventKind]:
    return frozenset(kind for kind in EventKind if kind.audience in audiences)


# The kinds of one tenant's events, which a webhook can subscribe to.
OWN_KINDS = kinds_for(Audience.TENANT, Audience.TENANT_JOBS, Audience.TENANT_MONEY)
# The kinds that a reader may have asked to be notified of at once.
WITH_MESSAGE = frozenset(kind for kind in EventKind if kind.message is not None)


def message_text(message: NoticeWords, name: str, data: Data) -> str:
    """Return the sentence of a notice. It is empty if the event has an older form; then its title says enough."""
    try:
        return message.text(name, data)
    except (KeyError, TypeError, ValueError):
        return ""


def subject_job(subject: str) -> int | None:
    """Return the number of the job that an event is about, or None if it is not about a job."""
    what, _, number = subject.partition(":")
    return int(number) if what == "job" and number.isdigit() else None
