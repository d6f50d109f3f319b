"""What a reader is told at once, on whatever page they are: money that moved, and what the platform did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.models import Event, TrainingJob
from scheduling.selectors.events import TOLD_AT_ONCE, event_feed
from tenants.access import Access
from tenants.ledger.postings import MICRO
from tenants.roles import Permission

MOST = 3
Data = Mapping[str, Any]


@dataclass(frozen=True)
class Toast:
    tone: str  # good | bad
    title: str
    text: str
    job_id: int | None


def toasts_after(*, by: Access, after: int | None) -> tuple[Toast, ...]:
    """The last few. Needs the tenant's scope. Without a cursor there is nothing new."""
    if after is None:
        return ()
    told = [event for event in event_feed(by=by, after=after).events if event.kind in TOLD_AT_ONCE]
    names = _job_names(told[-MOST:]) if by.allows(Permission.JOBS_VIEW) else {}
    return tuple(_toast(event, names) for event in told[-MOST:])


def _toast(event: Event, names: Mapping[int, str]) -> Toast:
    tone, title, words = _WORDS[event.kind]
    job_id = _job_id(event)
    name = names.get(job_id or 0, "A job")
    try:
        text = words(name, event.data)
    except (KeyError, TypeError, ValueError):
        text = ""  # an event of an older form: its title says enough
    return Toast(tone, title, text, job_id if job_id in names else None)


def _job_id(event: Event) -> int | None:
    kind, _, number = event.subject.partition(":")
    return int(number) if kind == "job" and number.isdigit() else None


def _job_names(events: list[Event]) -> dict[int, str]:
    ids = {job_id for event in events if (job_id := _job_id(event)) is not None}
    return dict(TrainingJob.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}


def _credits(micro: int) -> str:
    return f"{micro / MICRO:,.2f}"


def _awarded(name: str, data: Data) -> str:
    if not data["paid"]:
        return f"{name} runs on your own cells, free."
    return f"{name}: {_credits(data['paid'])} credits are held for it."


def _server(name: str, data: Data) -> str:
    return f"{data['server']} is {str(data['state']).replace('_', ' ')}."


_WORDS: Mapping[str, tuple[str, str, Callable[[str, Data], str]]] = {
    "job_awarded": ("good", "Awarded.", _awarded),
    "job_finished": ("good", "Finished.", lambda name, data: f"{name} is done."),
    "job_refused": ("bad", "Refused.", lambda name, data: f"{name}: nothing was charged."),
    "job_requeued": ("bad", "Queued again.", lambda name, data: f"{name}: what was not delivered came back."),
    "low_balance": (
        "bad",
        "Low balance.",
        lambda name, data: f"{_credits(data['available'])} credits last {data['slots_left']} slots.",
    ),
    "budget_passed": ("bad", "Budget passed.", lambda name, data: "See the budgets."),
    "fairness_concern": (
        "bad",
        "Fairness.",
        lambda name, data: f"{data['title']} of {data['days']} days passed its limit, and it is about you.",
    ),
    "server_changed": ("bad", "Cluster changed.", _server),
    "server_lost": ("bad", "Server lost.", lambda name, data: f"{data['server']} does not answer."),
    "pool_held": ("bad", "Market on hold.", lambda name, data: "Nothing new is decided."),
    "pool_draining": ("bad", "Market closing.", lambda name, data: "Nothing new is accepted."),
    "policy_taken_over": ("bad", "Policy taken over.", lambda name, data: f"{data['policy']}: its teacher decides."),
    "pool_resumed": ("good", "Market open.", lambda name, data: "Intervals are decided again."),
}
