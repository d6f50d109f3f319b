"""The market's one vocabulary of reasons: why a job is where it is, when it does not simply run.

Policies and lanes say a code when they decide, and the platform says one when it cuts something short. A code is
stored with jobs, events and plans, so it never changes its meaning: what means something else gets a code of its own.
The words for people stand beside the pages (`scheduling.market.reads.reason_words`); docs/guide/reasons.md lists both.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType


class Unit(Enum):
    """What a number of a reason counts."""

    CREDITS = "credits"  # a float, as the core has them
    MICRO_CREDITS = "micro-credits"
    SLOT = "the number of a slot"
    SLOTS = "slots"
    MOMENT = "a moment, or the number of a slot"
    UNITS = "units"  # workers or parameter servers
    COUNT = "a count"
    EPOCHS = "epochs"
    TIMES = "times"
    MBPS = "Mbit/s"
    PERCENT = "per cent"
    SHARE = "a part of one"
    CODE = "a code"
    TEXT = "a text"
    JOB = "the number of a job"


UNITS: Mapping[str, Unit] = MappingProxyType(
    {
        "asked": Unit.UNITS,
        "asked_price": Unit.CREDITS,
        "asked_ps": Unit.UNITS,
        "available": Unit.CREDITS,  # in rows of older versions; today it is `left`
        "best_value": Unit.CREDITS,
        "closes_at": Unit.MOMENT,  # a policy knows the slot alone, a submission the time of day too
        "delay_cost": Unit.CREDITS,
        "detail": Unit.TEXT,
        "done": Unit.SHARE,
        "end": Unit.SLOT,
        "enough_workers": Unit.UNITS,
        "epoch": Unit.EPOCHS,
        "epochs": Unit.EPOCHS,
        "epochs_that_fit": Unit.EPOCHS,
        "finishing": Unit.CREDITS,
        "free": Unit.UNITS,
        "instant": Unit.CODE,
        "job": Unit.JOB,
        "jobs": Unit.TEXT,
        "least_price": Unit.CREDITS,
        "left": Unit.CREDITS,
        "limit": Unit.CODE,
        "losses": Unit.TIMES,
        "max_price": Unit.CREDITS,
        "members": Unit.COUNT,
        "most": Unit.COUNT,
        "needs_slots": Unit.SLOTS,
        "net_price_at_least": Unit.CREDITS,
        "next_slot": Unit.SLOT,
        "outcome": Unit.CODE,
        "own_part": Unit.CREDITS,
        "percent": Unit.PERCENT,
        "price": Unit.CREDITS,
        "price_at_least": Unit.CREDITS,
        "ps": Unit.UNITS,
        "ps_mbps": Unit.MBPS,
        "refunded": Unit.MICRO_CREDITS,
        "resource": Unit.TEXT,
        "role": Unit.CODE,
        "served": Unit.COUNT,
        "server": Unit.TEXT,
        "size": Unit.COUNT,
        "slot": Unit.SLOT,
        "slots": Unit.SLOTS,
        "spent": Unit.CREDITS,
        "start": Unit.SLOT,
        "takes": Unit.UNITS,
        "user": Unit.TEXT,
        "value": Unit.CREDITS,
        "window_slots": Unit.SLOTS,
        "worker": Unit.UNITS,
        "worker_mbps": Unit.MBPS,
        "workers": Unit.UNITS,
        "worth": Unit.CREDITS,
    }
)


class Ends(Enum):
    """What becomes of a job with a reason."""

    WAITS = "it waits on, or runs"
    OVER = "it is over; in the instant lane: that lane has no more to say"
    EITHER = "the job's state says it: over where it can never be, or where the instant lane was asked"


class ReasonCode(StrEnum):
    """Each with what becomes of the job, and the names of the numbers that may come with it (see `UNITS`)."""

    ends: Ends
    numbers: tuple[str, ...]

    def __new__(cls, code: str, ends: Ends, *numbers: str) -> ReasonCode:
        member = str.__new__(cls, code)
        member._value_, member.ends, member.numbers = code, ends, numbers
        return member

    # Nobody has decided yet, or there is a place later.
    DECIDING = "deciding", Ends.WAITS
    WAITING_FOR_INTERVAL = "waiting_for_interval", Ends.WAITS, "closes_at", "slot", "instant"
    NO_MORE_INTERVALS = "no_more_intervals", Ends.WAITS
    WAITING_AT_HOME = "waiting_at_home", Ends.WAITS, "start", "value"
    BOUGHT_TOGETHER = "bought_together", Ends.WAITS, "members", "served"
    MARKET_HELD = "market_held", Ends.WAITS
    # A part of it is done.
    IN_PIECES = "in_pieces", Ends.WAITS, "done", "worth"
    STANDS_STILL = "stands_still", Ends.WAITS, "done", "worth", "finishing"
    # It was to begin after other jobs of its tenant.
    WAITS_FOR_JOBS = "waits_for_jobs", Ends.WAITS, "jobs"
    DEPENDENCY_FAILED = "dependency_failed", Ends.OVER, "job", "outcome"
    # There is no room, or not for so long.
    NO_ROOM = "no_room", Ends.EITHER, "asked", "free"
    LARGER_THAN_WINDOW = (
        "larger_than_window", Ends.EITHER,
        "needs_slots", "window_slots", "enough_workers", "epochs_that_fit",
    )  # fmt: skip
    HORIZON_TOO_SHORT = "horizon_too_short", Ends.OVER, "needs_slots", "slots"
    OVER_SHARE = "over_share", Ends.OVER, "asked", "most", "percent"
    TOO_LARGE_FOR_LANE = "too_large_for_lane", Ends.OVER, "size", "most"
    NOT_ITS_TURN = "not_its_turn", Ends.WAITS
    # The price is too high.
    OUTBID = "outbid", Ends.EITHER, "price", "price_at_least", "net_price_at_least", "own_part", "value"
    NOT_WORTH_IT = "not_worth_it", Ends.EITHER, "best_value", "delay_cost"
    RENT_NEVER = "rent_never", Ends.WAITS, "price"
    OVER_MAX_PRICE = "over_max_price", Ends.EITHER, "price", "max_price", "spent", "least_price"
    OVER_BUDGET = "over_budget", Ends.EITHER, "price", "left", "least_price"
    LOW_BALANCE = "low_balance", Ends.EITHER, "price", "left", "available", "least_price"
    SMALLER_SIZE = (
        "smaller_size", Ends.WAITS,
        "workers", "ps", "price", "asked", "asked_ps", "asked_price", "left", "limit",
    )  # fmt: skip
    # The policy cannot run such a job at all.
    NO_DEMAND = "no_demand", Ends.OVER, "worker", "ps"
    SHARED_RESOURCE = "shared_resource", Ends.OVER, "resource"
    DEMAND_TOO_SMALL = "demand_too_small", Ends.OVER, "role", "resource", "takes"
    PS_BANDWIDTH_BELOW_WORKER = "ps_bandwidth_below_worker", Ends.OVER, "worker_mbps", "ps_mbps"
    # The platform failed: what was not delivered is refunded.
    SERVER_LOST = "server_lost", Ends.WAITS, "server", "refunded"
    MARKET_STOPPED = "market_stopped", Ends.WAITS, "start", "end", "refunded"
    ENGINE_ERROR = "engine_error", Ends.WAITS, "detail", "losses", "next_slot", "refunded"
    FLOOR_MISSED = "floor_missed", Ends.WAITS, "start"
    FLOOR_LOST = "floor_lost", Ends.WAITS, "server"
    GIVEN_UP = "given_up", Ends.OVER, "detail", "losses", "refunded"
    # It ended by itself, or somebody ended it.
    CONVERGED = "converged", Ends.OVER, "epoch", "epochs"
    EPOCHS_DONE = "epochs_done", Ends.OVER, "epochs"
    PROGRAM_FAILED = "program_failed", Ends.OVER, "detail", "epoch", "epochs"
    RESERVATION_ENDED = "reservation_ended", Ends.OVER, "epoch", "epochs"
    CANCELLED_BY = "cancelled_by", Ends.OVER, "user"
