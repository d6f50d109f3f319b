"""The market's one list of reasons: why a job is where it is when it does not simply run, with the words shown to
people.

Policies and lanes give a code when they decide, and the platform gives one when it cuts something short. A code is
stored with jobs, events and plans, so it never changes its meaning: another meaning gets a code of its own.

A new reason is one member of `ReasonCode`, and one line of `NUMBERS` for each number that no other reason has. The
pages, the interface, docs/openapi.yaml and docs/guide/reasons.md take everything from here (`make schema` writes the
two files), and tests/test_reasons.py finds a code that nothing uses, and one that is used and missing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any

from scheduling.models import BETTER_ALONE, NOT_DONE, JobState, Pool
from scheduling.programs.ordering import Waited
from scheduling.refusals import NOT_AT_ONCE
from tenants.ledger.amounts import DIGITS, rounded
from tenants.templatetags.look import clock, through

Numbers = Mapping[str, Any]
Sentence = Callable[[Pool, Numbers], str]
# Why credits were returned through no fault of a job.
REFUNDED = {BETTER_ALONE: "alone it would have been worth more", NOT_DONE: "its job was never done"}
MOST_NAMED = 8  # jobs named in a sentence; the rest is counted


class NumberUnit(Enum):
    """What a number of a reason counts."""

    CREDITS = "credits"  # a float, as in the core
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


@dataclass(frozen=True)
class ReasonNumber:
    """A number that a reason may have: what it counts, and `example`, its value in the sentences of the guide. With the
    example None the guide leaves the number out, so that the sentence says the usual case."""

    unit: NumberUnit
    example: Any = None


NUMBERS: Mapping[str, ReasonNumber] = MappingProxyType(
    {
        "asked": ReasonNumber(NumberUnit.UNITS, 8),
        "asked_price": ReasonNumber(NumberUnit.CREDITS, 6.4),
        "asked_ps": ReasonNumber(NumberUnit.UNITS, 2),
        "available": ReasonNumber(NumberUnit.CREDITS),  # in rows of older versions; today it is `left`
        "best_value": ReasonNumber(NumberUnit.CREDITS, -1.5),
        "closes_at": ReasonNumber(
            NumberUnit.MOMENT, 120
        ),  # a policy knows the slot alone, a submission the time of day too
        "delay_cost": ReasonNumber(NumberUnit.CREDITS),
        "detail": ReasonNumber(NumberUnit.TEXT, "the program ended with status 1"),
        "done": ReasonNumber(NumberUnit.SHARE, 0.4),
        "end": ReasonNumber(NumberUnit.SLOT, 126),
        "enough_workers": ReasonNumber(NumberUnit.UNITS),
        "epoch": ReasonNumber(NumberUnit.EPOCHS, 3),
        "epochs": ReasonNumber(NumberUnit.EPOCHS, 8),
        "epochs_that_fit": ReasonNumber(NumberUnit.EPOCHS),
        "fewest_pieces": ReasonNumber(NumberUnit.COUNT),
        "finishing": ReasonNumber(NumberUnit.CREDITS, 20.0),
        "free": ReasonNumber(NumberUnit.UNITS, 5),
        "home_end": ReasonNumber(NumberUnit.SLOT),
        "instant": ReasonNumber(NumberUnit.CODE),
        "job": ReasonNumber(NumberUnit.JOB, 88),
        "jobs": ReasonNumber(NumberUnit.TEXT, "J-88, J-90"),
        "least_price": ReasonNumber(NumberUnit.CREDITS),
        "left": ReasonNumber(NumberUnit.CREDITS, 4.0),
        "limit": ReasonNumber(NumberUnit.CODE, "over_budget"),
        "losses": ReasonNumber(NumberUnit.TIMES, 5),
        "max_price": ReasonNumber(NumberUnit.CREDITS, 10.0),
        "members": ReasonNumber(NumberUnit.COUNT, 10),
        "most": ReasonNumber(NumberUnit.COUNT, 4),
        "most_save_slots": ReasonNumber(NumberUnit.SLOTS),
        "needs_slots": ReasonNumber(NumberUnit.SLOTS, 50),
        "net_price_at_least": ReasonNumber(NumberUnit.CREDITS),
        "next_slot": ReasonNumber(NumberUnit.SLOT, 128),
        "outcome": ReasonNumber(NumberUnit.CODE, "failed"),
        "own_part": ReasonNumber(NumberUnit.CREDITS),
        "percent": ReasonNumber(NumberUnit.PERCENT, 25),
        "piece_slots": ReasonNumber(NumberUnit.SLOTS),
        "pieces": ReasonNumber(NumberUnit.COUNT, 5),
        "price": ReasonNumber(NumberUnit.CREDITS, 12.5),
        "price_at_least": ReasonNumber(NumberUnit.CREDITS),
        "ps": ReasonNumber(NumberUnit.UNITS, 1),
        "ps_mbps": ReasonNumber(NumberUnit.MBPS, 100.0),
        "refunded": ReasonNumber(NumberUnit.MICRO_CREDITS, 1_600_000),
        "reserved": ReasonNumber(NumberUnit.MICRO_CREDITS, 1_600_000),
        "resource": ReasonNumber(NumberUnit.TEXT, "gpu"),
        "role": ReasonNumber(NumberUnit.CODE, "worker"),
        "served": ReasonNumber(NumberUnit.COUNT, 7),
        "server": ReasonNumber(NumberUnit.TEXT, "s01"),
        "size": ReasonNumber(NumberUnit.COUNT, 720_000),
        "slot": ReasonNumber(NumberUnit.SLOT, 120),
        "slots": ReasonNumber(NumberUnit.SLOTS, 30),
        "spent": ReasonNumber(NumberUnit.CREDITS),
        "start": ReasonNumber(NumberUnit.SLOT, 120),
        "takes": ReasonNumber(NumberUnit.UNITS, 0.5),
        "user": ReasonNumber(NumberUnit.TEXT, "Ada"),
        "value": ReasonNumber(NumberUnit.CREDITS, 9.0),
        "window_slots": ReasonNumber(NumberUnit.SLOTS, 8),
        "worker": ReasonNumber(NumberUnit.UNITS, 0.0),
        "worker_mbps": ReasonNumber(NumberUnit.MBPS, 400.0),
        "workers": ReasonNumber(NumberUnit.UNITS, 4),
        "worth": ReasonNumber(NumberUnit.CREDITS, 36.0),
    }
)
UNITS: Mapping[str, NumberUnit] = MappingProxyType({name: number.unit for name, number in NUMBERS.items()})


class Ends(Enum):
    """What becomes of a job with a reason."""

    WAITS = "it waits on, or runs"
    OVER = "it is over; in the instant lane: that lane has no more to say"
    EITHER = "the job's state says it: over where it can never be, or where the instant lane was asked"


def reason_sentence(pool: Pool, code: str, numbers: Numbers) -> str:
    """Return the sentence for a code. A code of another version of the product is shown as it is, with its numbers."""
    reason = _BY_VALUE.get(code)
    try:
        if reason is not None:
            return reason.sentence(pool, numbers)
    except (KeyError, TypeError, ValueError):
        pass  # an older row that lacks a number is shown below
    facts = ", ".join(f"{name} {value}" for name, value in numbers.items())
    return f"{code.replace('_', ' ').capitalize()}{f': {facts}' if facts else ''}."


def reason_few(code: str) -> str:
    """Return the reason in a few words."""
    reason = _BY_VALUE.get(code)
    return reason.few if reason else REFUNDED.get(code, code.replace("_", " "))


def reason_help(code: str) -> str:
    """Return a sentence about what would help; it is empty where nothing has to be done."""
    reason = _BY_VALUE.get(code)
    return reason.help if reason else ""


def jobs_named(waited: Iterable[Waited]) -> str:
    """Return the jobs as people see them, such as "J-88, J-90, A-12"."""
    names = [each if isinstance(each, str) else f"J-{each}" for each in waited]
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def slot_clock(pool: Pool, slot: int) -> str:
    """Return when the slot begins, by the reader's clock; with the day where it is not today."""
    return clock(pool.slot_start(int(slot)), pool.slot_seconds)


def _credits(number: float) -> str:
    """Return an amount as a decision used it. Funds there are less what the rounding of payments may cost, so they
    equal nobody's balance."""
    return _signed(rounded(number, 2))


def _signed(figure: str) -> str:
    return figure.replace("-", "\N{MINUS SIGN}")


def _is_zero(amount: float, digits: int) -> bool:
    return rounded(amount, digits) == rounded(0.0, digits)


def _compared(one: float, other: float) -> list[str]:
    """Return two amounts that a sentence compares, with as few digits, two at least, as show that they differ, and that
    neither is nothing."""
    amounts = (one, other)
    for digits in range(2, DIGITS + 1):
        words = [rounded(amount, digits) for amount in amounts]
        hidden = any(_is_zero(amount, digits) and not _is_zero(amount, DIGITS) for amount in amounts)
        if words[0] != words[1] and not hidden:
            return [_signed(word) for word in words]
    return [_credits(amount) for amount in amounts]  # what is paid would be the same


def units_words(workers: int, ps: int) -> str:
    """Return the size of a job; one without parameter servers has workers alone."""
    units = f"{workers} worker{'s' * (workers != 1)}"
    return f"{units} and {ps} parameter server{'s' * (ps != 1)}" if ps else units


def slots_words(start: int, end: int) -> str:
    """Return slots in words, such as "slots 21 to 27" or "slot 21". `end` is the first one after them."""
    return f"slot{'s' * (end - 1 > start)} {through(start, end)}"


def _least(numbers: Numbers) -> str:
    """Return what the least size of a job costs, if the job could be smaller than planned; otherwise an empty text."""
    return f", its least size {_credits(numbers['least_price'])}" if "least_price" in numbers else ""


def _waiting(pool: Pool, numbers: Numbers) -> str:
    sentence = f"Waits for the interval that closes at {slot_clock(pool, numbers.get('slot', numbers['closes_at']))}."
    if not (instant := numbers.get("instant")):
        return sentence
    return f"{sentence} The instant lane did not take it: {_not_at_once(instant)}."


def _not_at_once(code: str) -> str:
    """Return the instant lane's own answer in words, or why it did not consider the job."""
    return next((refusal.when for refusal in NOT_AT_ONCE if refusal == code), None) or reason_few(code)


def _ended(state: str) -> str:
    outcomes: Mapping[str, str] = {
        JobState.REJECTED: "was refused",
        JobState.EXPIRED: "expired",
        JobState.CANCELLED: "was cancelled",
        JobState.FAILED: "failed",
        JobState.STOPPED: "was not done when its reservation ended",
    }
    return outcomes.get(state, "did not")


def _no_room(pool: Pool, numbers: Numbers) -> str:
    free = f", and {numbers['free']:g} {'is' if numbers['free'] == 1 else 'are'} free" if "free" in numbers else ""
    on_end = f" for {_slots(numbers['slots'])} on end, on the same servers" if "slots" in numbers else ""
    return f"Not enough room: it asks for {numbers['asked']:g}{on_end}{free}."


def _too_long(pool: Pool, numbers: Numbers) -> str:
    needs, window = numbers["needs_slots"], numbers["window_slots"]
    if needs is None and pool.instant_policy is not None:
        return (
            "The batch lane has tenants' cells alone, and the job's fewest workers have no room in them, "
            "even if all are idle. Ask for fewer or smaller ones, or for the instant lane."
        )
    if needs is None:
        return "Its fewest workers have no room here, even if all servers are idle. Ask for fewer or smaller ones."
    if window is not None and needs <= window:
        return f"Needs {_slots(needs)} and waits for an interval that is as long; the longest has {window}."
    if window is None:
        return f"Needs {_slots(needs)} in one interval, and none was as long yet."
    piece = min(numbers.get("piece_slots") or needs, needs)
    parts = f" as a whole, and {_slots(piece)} for its shortest piece" if piece < needs else ""
    sentence = f"Needs {_slots(needs)}{parts}; the longest interval has {window}."
    if "enough_workers" not in numbers:
        return sentence
    saving = numbers.get("most_save_slots")
    helps = [
        f"at least {_workers(numbers['enough_workers'])}" if numbers["enough_workers"] else "",
        f"at most {_epochs(numbers['epochs_that_fit'])}" if numbers["epochs_that_fit"] else "",
        f"running in {numbers['fewest_pieces']} pieces or more" if numbers.get("fewest_pieces") else "",
        f"saving and loading in at most {_slots(saving)}" if saving else "",
        f"intervals of {_slots(piece)}, which an operator sets",
    ]
    home = "None of your own cells could end it in time."
    if numbers.get("home_end") is not None:
        home_end = slot_clock(pool, numbers["home_end"])
        home = f"Your own cells would end it at {home_end} at the earliest, and then it is worth nothing."
        helps.insert(0, "a worth that lasts longer")
    return f"{sentence} {home} What would help: {_either(helps)}."


def _no_piece(pool: Pool, numbers: Numbers) -> str:
    longest = f", and the longest interval has {numbers['window_slots']}" if numbers["window_slots"] else ""
    return (
        "No piece of it was bought yet: there was no room for one, or none was worth its price. "
        f"As a whole it needs {_slots(numbers['needs_slots'])}{longest}."
    )


def _slots(count: int) -> str:
    return f"{count} slot{'s' * (count != 1)}"


def _workers(count: int) -> str:
    return f"{count} worker{'s' * (count != 1)}"


def _epochs(count: int) -> str:
    return f"{count} epoch{'s' * (count != 1)}"


def _either(parts: Sequence[str]) -> str:
    """Join the parts as a sentence does: a, b or c."""
    some = [part for part in parts if part]
    return " or ".join([", ".join(some[:-1]), some[-1]] if len(some) > 1 else some)


def _outbid(pool: Pool, numbers: Numbers) -> str:
    if "net_price_at_least" in numbers and "price" not in numbers:
        price, worth = _compared(numbers["net_price_at_least"], numbers["value"])
        return f"After your own part it costs at least {price}, and the job is worth {worth}."
    price, worth = _compared(float(numbers.get("price", numbers.get("price_at_least")) or 0), numbers["value"])
    least = "at least " if "price" not in numbers else ""
    own_part = numbers.get("own_part")
    comes_back = f", of which {_credits(own_part)} come back to you" if own_part else ""
    return f"The price is {least}{price}{comes_back}, and the job is worth {worth}."


def _not_worth_it(pool: Pool, numbers: Numbers) -> str:
    if "delay_cost" in numbers:
        best, cost = _credits(numbers["best_value"]), _credits(numbers["delay_cost"])
        return f"Worth {best} when it would be done, and the others would lose {cost} by waiting for it."
    return f"It would be worth nothing by the time it is done (at best {_credits(numbers['best_value'])})."


def _over_max_price(pool: Pool, numbers: Numbers) -> str:
    if "spent" not in numbers:
        price, limit = _compared(numbers["price"], numbers["max_price"])
        return f"Costs {price}{_least(numbers)}, more than your limit {limit}."
    price, rest = _compared(numbers["price"], max(0.0, numbers["max_price"] - numbers["spent"]))
    limit = _credits(numbers["max_price"])
    what = "Its next slot costs" if pool.is_elastic else "Costs"
    return f"{what} {price}{_least(numbers)}, and {rest} of your limit {limit} are left."


def _low_balance(pool: Pool, numbers: Numbers) -> str:
    funds = numbers.get("available", numbers.get("left", 0.0))
    price, rest = _compared(numbers["price"], funds)
    return f"Costs {price}{_least(numbers)}, and {rest} are available."


def _over_budget(pool: Pool, numbers: Numbers) -> str:
    price, rest = _compared(numbers["price"], numbers["left"])
    return f"Costs {price}{_least(numbers)}, and {rest} of the budget are left."


def _smaller(pool: Pool, numbers: Numbers) -> str:
    means = {"over_budget": "of the budget are left", "over_max_price": "of its limit are left"}
    rest = f"{_credits(numbers['left'])} {means.get(numbers['limit'], 'are available')}"
    units_wanted = units_words(int(numbers["asked"]), int(numbers["asked_ps"]))
    return f"Smaller than it could be: {units_wanted} cost {_credits(numbers['asked_price'])} in this slot, and {rest}."


def _engine_error(pool: Pool, numbers: Numbers) -> str:
    back = "What was not delivered is refunded, and it waits" if numbers.get("refunded", True) else "It waits"
    sentence = f"The platform could not run it. {back} again."
    if "next_slot" not in numbers:
        return sentence
    sentence = f"{sentence} It is tried again from {slot_clock(pool, numbers['next_slot'])} on"
    if "losses" not in numbers:
        return f"{sentence}: before that nobody can say whether it still runs."
    return f"{sentence}, after {numbers['losses']} failure{'s' * (numbers['losses'] != 1)}."


def _reservation_ended(pool: Pool, numbers: Numbers) -> str:
    if not numbers.get("epochs"):
        return "Its reservation ended before its work was done."
    return f"Its reservation ended after {numbers['epoch']} of {_epochs(numbers['epochs'])}."


def _program_failed(pool: Pool, numbers: Numbers) -> str:
    # Rows of older versions do not say what was reserved: at home it was nothing.
    paid = " What was reserved is paid." if numbers.get("reserved") else ""
    return f"Its program failed: {numbers['detail'].rstrip('.')}.{paid}"


def _no_progress(pool: Pool, numbers: Numbers) -> str:
    return (
        f"Its last {numbers['pieces']} pieces brought it no further: its program says that {_percent(numbers['done'])} "
        f"of it is done. It rents no more."
    )


def _too_small(pool: Pool, numbers: Numbers) -> str:
    member = "parameter server" if numbers["role"] == "ps" else "worker"
    unit = f"one whole unit of {numbers['resource'] or 'a resource'}"
    return f"Each {member} of its program would take {numbers['takes']:g} and needs at least {unit}."


def _together(pool: Pool, numbers: Numbers) -> str:
    members, served = numbers["members"], numbers["served"]
    if served is None:
        return f"Its array of {members} jobs is bought together, and other arrays had their turn in this interval."
    if served == members:
        return (
            f"Its array of {members} jobs is bought together, and another one that came before would have come apart."
        )
    return f"Its array is bought together or not at all: {served} of its {members} jobs could have been served."


def _in_pieces(pool: Pool, numbers: Numbers) -> str:
    worth = f"; {_bought(numbers)}" if numbers["worth"] else ""
    return f"{_percent(numbers['done'])} of it is done{worth}. The rest waits for the next interval."


def _stands_still(pool: Pool, numbers: Numbers) -> str:
    return (
        f"It stands still: {_percent(numbers['done'])} of it is done; {_bought(numbers)}, and finishing it now would be"
        f" worth {_credits(numbers['finishing'])}."
    )


def _bought(numbers: Numbers) -> str:
    """Return what the worth is of: it was set when the last piece was bought, and what is done may be less."""
    return f"what its pieces so far were bought to do is worth {_credits(numbers['worth'])} credits to you"


def _percent(share: float) -> str:
    return f"{rounded(100.0 * share, 1)} %"


def _shared(pool: Pool, numbers: Numbers) -> str:
    resource = f" ({numbers['resource']})" if "resource" in numbers else ""
    return f"Its workers and its parameter servers take the same resource{resource}; here each needs one of its own."


class ReasonCode(StrEnum):
    """All reasons. Each has the code as it is stored; what becomes of the job; a few words, for a column or where one
    number stands for many jobs; the sentence with the numbers; what would help (empty where nothing has to be done);
    and the names of the numbers that may come with it (see `NUMBERS`)."""

    ends: Ends
    few: str
    sentence: Sentence
    help: str
    numbers: tuple[str, ...]

    def __new__(cls, code: str, ends: Ends, few: str, sentence: Sentence, help: str, *numbers: str) -> ReasonCode:
        member = str.__new__(cls, code)
        member._value_ = code
        member.ends, member.few, member.sentence, member.help, member.numbers = ends, few, sentence, help, numbers
        return member

    # The job is not decided yet, or has a place later.
    DECIDING = "deciding", Ends.WAITS, "being decided", lambda pool, n: "It is being decided now.", ""
    WAITING_FOR_INTERVAL = (
        "waiting_for_interval", Ends.WAITS, "came too late for the interval", _waiting,
        "", "closes_at", "slot", "instant",
    )  # fmt: skip
    NO_MORE_INTERVALS = (
        "no_more_intervals", Ends.WAITS, "no further interval", lambda pool, n: "No further interval will be decided.",
        "Give the run a later end.",
    )  # fmt: skip
    WAITING_AT_HOME = (
        "waiting_at_home", Ends.WAITS, "better off later at home",
        lambda pool, n: f"Renting is not worth it; it starts on your own cells at {slot_clock(pool, n['start'])}.",
        "", "start", "value",
    )  # fmt: skip
    BOUGHT_TOGETHER = (
        "bought_together", Ends.WAITS, "not all of its array could be served", _together,
        "Cancel some of its jobs, or submit them to be bought one by one.", "members", "served",
    )  # fmt: skip
    MARKET_HELD = (
        "market_held", Ends.WAITS, "the market is on hold",
        lambda pool, n: "The market is on hold; nothing new is decided.",
        "",
    )  # fmt: skip
    # The job is done in pieces.
    NO_PIECE = (
        "no_piece", Ends.WAITS, "no piece of it was bought yet", _no_piece,
        "Let it run on fewer workers, or raise what it is worth.", "needs_slots", "window_slots",
    )  # fmt: skip
    IN_PIECES = "in_pieces", Ends.WAITS, "the rest of it waits", _in_pieces, "", "done", "worth"
    STANDS_STILL = (
        "stands_still", Ends.WAITS, "finishing is worth less than what is saved", _stands_still,
        "Raise what it is worth, cancel it, or leave what is done as it is.", "done", "worth", "finishing",
    )  # fmt: skip
    # The job was to begin after other jobs of its tenant.
    WAITS_FOR_JOBS = (
        "waits_for_jobs", Ends.WAITS, "waits for other jobs", lambda pool, n: f"Waits for {n['jobs']}.",
        "", "jobs",
    )  # fmt: skip
    DEPENDENCY_FAILED = (
        "dependency_failed", Ends.OVER, "a job that it waited for did not end well",
        lambda pool, n: f"It was to begin once J-{n['job']} had ended well; that one {_ended(n['outcome'])}.",
        "See why that one ended, and submit both again.", "job", "outcome",
    )  # fmt: skip
    # There is no room, or not for as long as the job needs.
    NO_ROOM = (
        "no_room", Ends.EITHER, "no room for what was asked", _no_room,
        "Let it run on fewer workers, or ask again when others have finished.", "asked", "free", "slots",
    )  # fmt: skip
    LARGER_THAN_WINDOW = (
        "larger_than_window", Ends.EITHER, "longer than any interval", _too_long,
        "Allow more workers at once, or let it run in pieces, which begin as soon as there is room for one.",
        "needs_slots", "window_slots", "enough_workers", "epochs_that_fit", "home_end", "fewest_pieces", "piece_slots",
        "most_save_slots",
    )  # fmt: skip
    HORIZON_TOO_SHORT = (
        "horizon_too_short", Ends.OVER, "longer than what is open for sale",
        lambda pool, n: f"Needs {_slots(n['needs_slots'])}, and only the next {_slots(n['slots'])} can be bought.",
        "Allow more workers at once, submit the work in parts, or send it to the batch lane.", "needs_slots", "slots",
    )  # fmt: skip
    CHANGES_SERVERS = (
        "changes_servers", Ends.OVER, "this lane gives each slot its own servers",
        lambda pool, n: (
            "It is to run from its start to its end on the same servers, and this lane gives each slot its own."
        ),
        "Send it to the batch lane, or let its program be saved and started again.",
    )  # fmt: skip
    OVER_SHARE = (
        "over_share", Ends.OVER, "more workers than one job may have",
        lambda pool, n: (
            f"Asks for at least {_workers(n['asked'])}; one job may have {n['most']} at once "
            f"({n['percent']} % of the pool)."
        ),
        "Let it run on fewer workers, or send it to the batch lane.", "asked", "most", "percent",
    )  # fmt: skip
    TOO_LARGE_FOR_LANE = (
        "too_large_for_lane", Ends.OVER, "too large for an answer at once",
        lambda pool, n: (
            f"Too large for an answer at once: {rounded(n['size'], 0)} worker-slots times workers, "
            f"and {rounded(n['most'], 0)} are the most."
        ),
        "Send it to the batch lane, or allow fewer workers at once.", "size", "most",
    )  # fmt: skip
    NOT_ITS_TURN = (
        "not_its_turn", Ends.WAITS, "not its turn", lambda pool, n: "The pool's policy gives it nothing in this slot.",
        "",
    )  # fmt: skip
    # The price is too high.
    OUTBID = (
        "outbid", Ends.EITHER, "the price is above its worth", _outbid,
        "Ask when there is less demand, or allow fewer workers.",
        "price", "price_at_least", "net_price_at_least", "own_part", "value",
    )  # fmt: skip
    NOT_WORTH_IT = (
        "not_worth_it", Ends.EITHER, "worth nothing when done", _not_worth_it,
        "Allow more workers, so that it is done sooner, or let its worth last longer if it does.",
        "best_value", "delay_cost",
    )  # fmt: skip
    RENT_NEVER = (
        "rent_never", Ends.EITHER, "may not rent", lambda pool, n: "It may not rent, and your own cells are taken.",
        "Allow it to rent, or wait until your own cells are free.", "price",
    )  # fmt: skip
    OVER_MAX_PRICE = (
        "over_max_price", Ends.EITHER, "over its highest price", _over_max_price,
        "Submit it with a higher limit, or ask when there is less demand.",
        "price", "max_price", "spent", "least_price",
    )  # fmt: skip
    OVER_BUDGET = (
        "over_budget", Ends.EITHER, "over the budget", _over_budget,
        "Have the budget raised, or wait for its next period.", "price", "left", "least_price",
    )  # fmt: skip
    LOW_BALANCE = (
        "low_balance", Ends.EITHER, "not enough credits", _low_balance,
        "Have credits paid in; what your cells earn can be spent every hour.",
        "price", "left", "available", "least_price",
    )  # fmt: skip
    SMALLER_SIZE = (
        "smaller_size", Ends.WAITS, "smaller than it could be", _smaller,
        "It grows by itself once there are more credits, or more of a budget, to spend; a job's own limit stays.",
        "workers", "ps", "price", "asked", "asked_ps", "asked_price", "left", "limit",
    )  # fmt: skip
    # The policy cannot run such a job at all.
    NO_DEMAND = (
        "no_demand", Ends.OVER, "takes no units",
        lambda pool, n: (
            f"A worker takes {n['worker']:g} units and a parameter server {n['ps']:g}; each has to take something."
        ),
        "Say what a worker and a parameter server take.", "worker", "ps",
    )  # fmt: skip
    SHARED_RESOURCE = (
        "shared_resource", Ends.OVER, "one resource for workers and parameter servers", _shared,
        "Let the two take different resources, or choose a pool that sells them together.", "resource",
    )  # fmt: skip
    DEMAND_TOO_SMALL = (
        "demand_too_small", Ends.OVER, "less than a unit for a member of a program", _too_small,
        "Ask for at least one whole unit for each worker and parameter server.", "role", "resource", "takes",
    )  # fmt: skip
    PS_BANDWIDTH_BELOW_WORKER = (
        "ps_bandwidth_below_worker", Ends.OVER, "a parameter server slower than a worker",
        lambda pool, n: (
            f"A parameter server has {n['ps_mbps']:g} Mbit/s, less than the {n['worker_mbps']:g} of one worker."
        ),
        "Give a parameter server at least the bandwidth of a worker.", "worker_mbps", "ps_mbps",
    )  # fmt: skip
    # The platform failed: what was not delivered is refunded.
    SERVER_LOST = (
        "server_lost", Ends.WAITS, "its server was lost",
        lambda pool, n: "Its server was lost; what was not delivered is refunded, and it waits again.",
        "", "server", "refunded",
    )  # fmt: skip
    MARKET_STOPPED = (
        "market_stopped", Ends.WAITS, "the market stood still",
        lambda pool, n: "The market stood still; what was not delivered is refunded, and it waits again.",
        "", "start", "end", "refunded",
    )  # fmt: skip
    ENGINE_ERROR = (
        "engine_error", Ends.WAITS, "the platform could not run it", _engine_error,
        "", "detail", "losses", "next_slot", "refunded",
    )  # fmt: skip
    FLOOR_MISSED = (
        "floor_missed", Ends.WAITS, "its place at home passed",
        lambda pool, n: "Its place at home passed while the market was on hold; it is given another one.",
        "", "start",
    )  # fmt: skip
    BEHIND_PLAN = (
        "behind_plan", Ends.WAITS, "its program was behind its plan",
        lambda pool, n: (
            "Its program was not done when its last rented piece ended, and the place at home that it left for that "
            "has passed; what is left is planned anew."
        ),
        "", "start",
    )  # fmt: skip
    FLOOR_LOST = (
        "floor_lost", Ends.WAITS, "its place at home was lost",
        lambda pool, n: "A server of its place at home was lost; it is given another one.",
        "", "server",
    )  # fmt: skip
    NOT_NEEDED = (
        "not_needed", Ends.OVER, "the job was over before it began",
        lambda pool, n: "The job was over before anything ran in this piece: what was not paid of it yet came back.",
        "",
    )  # fmt: skip
    GIVEN_UP = (
        "given_up", Ends.OVER, "given up after several failures",
        lambda pool, n: (
            f"The platform failed to run it {n['losses']} times in a row, the last time because "
            f"{n['detail'].rstrip('.')}. What was not delivered is refunded; it is not tried again."
        ),
        "Tell the operator, and submit it again when the cause is gone.", "detail", "losses", "refunded",
    )  # fmt: skip
    # The job ended by itself, or somebody ended it.
    CONVERGED = (
        "converged", Ends.OVER, "its loss had stopped falling",
        lambda pool, n: f"Converged at epoch {n['epoch']} of at most {n['epochs']}; paid for what was used.",
        "Where it was to learn on, submit it again with a smaller threshold or more epochs in a row.",
        "epoch", "epochs",
    )  # fmt: skip
    EPOCHS_DONE = (
        "epochs_done", Ends.OVER, "it has done its most epochs",
        lambda pool, n: (
            f"It has done its {_epochs(n['epochs'])}, the most that it was to train, and its loss was still moving."
        ),
        "Where it was to learn on, submit it again with more epochs.", "epochs",
    )  # fmt: skip
    PROGRAM_FAILED = (
        "program_failed", Ends.OVER, "its program failed", _program_failed,
        "Read its log, mend the program or its parameters, and submit it again.",
        "detail", "epoch", "epochs", "reserved",
    )  # fmt: skip
    RESERVATION_ENDED = (
        "reservation_ended", Ends.OVER, "its reservation ended", _reservation_ended,
        "Submit it again with more time. Where its program reports numbers, the form offers the times that were"
        " measured.",
        "epoch", "epochs",
    )  # fmt: skip
    NO_PROGRESS = (
        "no_progress", Ends.OVER, "its pieces brought it no further", _no_progress,
        "Read its log: does it save, and go on from what it saved? Where its last piece was too short for its start and"
        " its save, submit it again with more time.",
        "pieces", "done",
    )  # fmt: skip
    CANCELLED_BY = (
        "cancelled_by", Ends.OVER, "cancelled", lambda pool, n: f"Cancelled by {n.get('user') or 'its tenant'}.",
        "", "user",
    )  # fmt: skip


_BY_VALUE: Mapping[str, ReasonCode] = {code.value: code for code in ReasonCode}
