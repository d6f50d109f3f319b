"""Every kind of notice, once: its words on the page, who may get it, which events make it, and what holds for a person
who chose nothing.

A new kind is one member of `NoticeKind`. Notices are made of the events of `scheduling.feed` that have a message, and
for kinds without events (a statement, an invitation, a request to join and its answer) of rows, in `collecting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from scheduling.feed import EventKind
from tenants.roles import Permission


class NoticeKind(StrEnum):
    """A kind of notice: its stored value; its name and its sentence on the page; the permission that a member needs to
    get it, where it is a tenant's; whether the bell counts it for a person who chose nothing; the events that make
    it."""

    label: str
    help: str
    permission: Permission
    rings: bool
    events: frozenset[EventKind]

    def __new__(
        cls, value: str, label: str, help: str, permission: Permission, rings: bool, *events: EventKind
    ) -> NoticeKind:
        member = str.__new__(cls, value)
        member._value_ = value
        member.label, member.help, member.permission, member.rings = label, help, permission, rings
        member.events = frozenset(events)
        return member

    AWARDED = (
        "awarded", "Job awarded", "It has a place: where, when and for how much.",
        Permission.JOBS_VIEW, True, EventKind.JOB_AWARDED,
    )  # fmt: skip
    STARTED = "started", "Job started", "It runs from now on.", Permission.JOBS_VIEW, False, EventKind.JOB_STARTED
    ENDED = (
        "ended", "Job ended", "It finished, or its time was over before it had.",
        Permission.JOBS_VIEW, True, EventKind.JOB_FINISHED, EventKind.JOB_STOPPED,
    )  # fmt: skip
    FAILED = (
        "failed", "Job failed or refused", "It will not run, or not to its end.",
        Permission.JOBS_VIEW, True, EventKind.JOB_FAILED, EventKind.JOB_REFUSED, EventKind.JOB_EXPIRED,
    )  # fmt: skip
    REFUNDED = (
        "refunded", "Job refunded", "Credits came back, and the job may have been queued again.",
        Permission.JOBS_VIEW, True, EventKind.JOB_REQUEUED, EventKind.AWARD_CUT, EventKind.AWARD_ADJUSTED,
    )  # fmt: skip
    OUTBID = (
        "outbid", "Job outbid", "It waits, because the price is above what it is worth.",
        Permission.JOBS_VIEW, True, EventKind.JOB_WAITING,
    )  # fmt: skip
    LAST_CHANCE = (
        "last_chance", "Job outbid in its last chance", "In the next interval it would be worth nothing any more.",
        Permission.JOBS_VIEW, True, EventKind.JOB_LAST_CHANCE,
    )  # fmt: skip
    LOW_BALANCE = (
        "low_balance", "Low balance", "With the hours that the credits still last, as you spend them now.",
        Permission.LEDGER_VIEW, True, EventKind.LOW_BALANCE,
    )  # fmt: skip
    BUDGET = (
        "budget", "Budget", "80 or 100 % of a budget are spent, or its soft limit is passed; once in a period each.",
        Permission.LEDGER_VIEW, True, EventKind.BUDGET_PASSED, EventKind.BUDGET_REACHED,
    )  # fmt: skip
    STATEMENT = (
        "statement", "Statement ready", "A month is over, and its statement is complete.",
        Permission.LEDGER_VIEW, True,
    )  # fmt: skip
    FAIRNESS = (
        "fairness", "Fairness", "A figure of fairness that concerns your tenant passed its limit.",
        Permission.TENANT_VIEW, True, EventKind.FAIRNESS_CONCERN,
    )  # fmt: skip
    WEBHOOK = (
        "webhook", "Webhook switched off", "Nothing was taken at its address for three days, so nothing is sent there.",
        Permission.WEBHOOKS_CHANGE, True, EventKind.WEBHOOK_SWITCHED_OFF,
    )  # fmt: skip
    SERVER_LOST = (
        "server_lost", "Server lost", "A server of the cluster does not answer.",
        Permission.TENANT_VIEW, True, EventKind.SERVER_LOST,
    )  # fmt: skip
    MARKET = (
        "market", "Market and cluster", "The market is held, closes or goes on; servers come and go.",
        Permission.TENANT_VIEW, False,
        EventKind.POOL_HELD, EventKind.POOL_DRAINING, EventKind.POOL_RESUMED, EventKind.POLICY_TAKEN_OVER,
        EventKind.SERVER_CHANGED,
    )  # fmt: skip
    INVITATION = (
        "invitation", "Invitation", "A tenant invites you.", Permission.TENANT_VIEW, True,
    )  # fmt: skip
    JOIN_REQUEST = (
        "join_request", "Request to join", "Somebody asks to join a tenant that you own.",
        Permission.MEMBERS_CHANGE, True,
    )  # fmt: skip
    JOIN_ANSWER = (
        "join_answer", "Answer to your request", "A tenant that you asked to join accepted or declined it.",
        Permission.TENANT_VIEW, True,
    )  # fmt: skip


KINDS_OF_EVENTS: Mapping[str, NoticeKind] = {event: kind for kind in NoticeKind for event in kind.events}
_BY_VALUE: Mapping[str, NoticeKind] = {kind.value: kind for kind in NoticeKind}
OF_JOBS = frozenset(kind for kind in NoticeKind if kind.permission == Permission.JOBS_VIEW)


def notice_kind(event_kind: str, data: Mapping[str, Any]) -> NoticeKind | None:
    """Return the kind of notice that an event makes, or None if nobody is notified of it. A job that waits for anything
    else than the price is no news, and another event reports that it was outbid in its last chance."""
    kind = KINDS_OF_EVENTS.get(event_kind)
    if kind is NoticeKind.OUTBID and (data.get("reason") != "outbid" or data.get("last_chance")):
        return None
    return kind


def notice_kind_of(stored: str) -> NoticeKind | None:
    """Return the kind that is stored, or None for a kind that another version wrote."""
    return _BY_VALUE.get(stored)
