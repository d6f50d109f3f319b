"""The market's reasons in words: a few for a column, a sentence with the numbers, and what would help.

The codes and the names of their numbers are those of `scheduling.core.reasons`; here is one entry for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.utils import timezone

from scheduling.core.reasons import ReasonCode
from scheduling.models import BETTER_ALONE, JobState, Pool
from scheduling.programs.ordering import Waited
from scheduling.refusals import NOT_AT_ONCE
from tenants.ledger.amounts import rounded

Numbers = Mapping[str, Any]
Sentence = Callable[[Pool, Numbers], str]
REFUNDED = {BETTER_ALONE: "alone it would have been worth more"}  # why credits came back where no job was at fault
MOST_NAMED = 8  # jobs in a sentence; the rest is counted


@dataclass(frozen=True)
class Words:
    """`few`: for a column, or where one number stands for many jobs. `help`: empty where nothing is to be done."""

    few: str
    sentence: Sentence
    help: str = ""


def reason_sentence(pool: Pool, code: str, numbers: Numbers) -> str:
    """The code in words. One of another version of the product is shown as it is, with its numbers."""
    known = WORDS.get(code)
    try:
        if known is not None:
            return known.sentence(pool, numbers)
    except (KeyError, TypeError, ValueError):
        pass  # an older row that lacks a number is still shown, below
    listed = ", ".join(f"{name} {value}" for name, value in numbers.items())
    return f"{code.replace('_', ' ').capitalize()}{f': {listed}' if listed else ''}."


def reason_few(code: str) -> str:
    """Why, in a few words."""
    known = WORDS.get(code)
    return known.few if known else REFUNDED.get(code, code.replace("_", " "))


def reason_help(code: str) -> str:
    """What would help, as a sentence; empty where nothing is to be done."""
    known = WORDS.get(code)
    return known.help if known else ""


def jobs_named(waited: Iterable[Waited]) -> str:
    """As people see them: J-88, J-90, A-12."""
    names = [each if isinstance(each, str) else f"J-{each}" for each in waited]
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _clock(pool: Pool, slot: int) -> str:
    return f"{timezone.localtime(pool.slot_start(int(slot))):%H:%M:%S}"


def _credits(number: float) -> str:
    """As a decision reckoned with it: funds less what the rounding of payments may cost, which is nobody's balance."""
    return rounded(number, 2)


def units_words(workers: int, ps: int) -> str:
    return f"{workers} worker{'s' * (workers != 1)} and {ps} parameter server{'s' * (ps != 1)}"


def _least(numbers: Numbers) -> str:
    """Of a job that could be smaller than it was to be: what its least size costs."""
    return f", its least size {_credits(numbers['least_price'])}" if "least_price" in numbers else ""


def _waiting(pool: Pool, numbers: Numbers) -> str:
    sentence = f"Waits for the interval that closes at {_clock(pool, numbers.get('slot', numbers['closes_at']))}."
    if not (instant := numbers.get("instant")):
        return sentence
    return f"{sentence} The instant lane did not take it: {_not_at_once(instant)}."


def _not_at_once(code: str) -> str:
    """The instant lane's own answer, or why it did not look."""
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
    return f"Not enough room: it asks for {numbers['asked']:g}{free}."


def _too_long(pool: Pool, numbers: Numbers) -> str:
    needs, window = numbers["needs_slots"], numbers["window_slots"]
    if needs is None:
        return "No number of slots is enough for this job."
    if window is not None and needs <= window:
        return f"Needs {_slots(needs)} and waits for an interval that is as long; the longest has {window}."
    if window is None:
        return f"Needs {_slots(needs)} in one interval, and none was as long yet."
    sentence = f"Needs {_slots(needs)}; the longest interval has {window}."
    if "enough_workers" not in numbers:
        return sentence
    helps = [
        f"at least {_workers(numbers['enough_workers'])}" if numbers["enough_workers"] else "",
        f"at most {_epochs(numbers['epochs_that_fit'])}" if numbers["epochs_that_fit"] else "",
        f"intervals of {_slots(needs)}, which an operator sets",
    ]
    return f"{sentence} None of your own cells could end it in time. What would help: {_either(helps)}."


def _slots(count: int) -> str:
    return f"{count} slot{'s' * (count != 1)}"


def _workers(count: int) -> str:
    return f"{count} worker{'s' * (count != 1)}"


def _epochs(count: int) -> str:
    return f"{count} epoch{'s' * (count != 1)}"


def _either(parts: Sequence[str]) -> str:
    """In a sentence: a, b or c."""
    some = [part for part in parts if part]
    return " or ".join([", ".join(some[:-1]), some[-1]] if len(some) > 1 else some)


def _outbid(pool: Pool, numbers: Numbers) -> str:
    worth = f"the job is worth {_credits(numbers['value'])}"
    if "net_price_at_least" in numbers and "price" not in numbers:
        return f"After your own part it costs at least {_credits(numbers['net_price_at_least'])}, and {worth}."
    price = numbers.get("price", numbers.get("price_at_least"))
    least = "at least " if "price" not in numbers else ""
    own_part = numbers.get("own_part")
    comes_back = f", of which {_credits(own_part)} come back to you" if own_part else ""
    return f"The price is {least}{_credits(float(price or 0))}{comes_back}, and {worth}."


def _not_worth_it(pool: Pool, numbers: Numbers) -> str:
    if "delay_cost" in numbers:
        best, cost = _credits(numbers["best_value"]), _credits(numbers["delay_cost"])
        return f"Worth {best} when it would be done, and the others would lose {cost} by waiting for it."
    return f"It would be worth nothing by the time it is done (at best {_credits(numbers['best_value'])})."


def _over_max_price(pool: Pool, numbers: Numbers) -> str:
    price, limit = f"{_credits(numbers['price'])}{_least(numbers)}", _credits(numbers["max_price"])
    if "spent" not in numbers:
        return f"Costs {price}, more than your limit {limit}."
    left = _credits(max(0.0, numbers["max_price"] - numbers["spent"]))
    return f"Its next slot costs {price}, and {left} of your limit {limit} are left."


def _low_balance(pool: Pool, numbers: Numbers) -> str:
    left = numbers.get("available", numbers.get("left", 0.0))
    return f"Costs {_credits(numbers['price'])}{_least(numbers)}, and {_credits(left)} are available."


def _smaller(pool: Pool, numbers: Numbers) -> str:
    means = {"over_budget": "of the budget are left", "over_max_price": "of its limit are left"}
    left = f"{_credits(numbers['left'])} {means.get(numbers['limit'], 'are available')}"
    units_wanted = units_words(int(numbers["asked"]), int(numbers["asked_ps"]))
    return f"Smaller than it could be: {units_wanted} cost {_credits(numbers['asked_price'])} in this slot, and {left}."


def _engine_error(pool: Pool, numbers: Numbers) -> str:
    sentence = "The platform could not run it. What was not delivered is refunded, and it waits again."
    if "next_slot" not in numbers:
        return sentence
    sentence = f"{sentence} It is tried again from {_clock(pool, numbers['next_slot'])} on"
    if "losses" not in numbers:
        return f"{sentence}: before that nobody can say whether it still runs."
    return f"{sentence}, after {numbers['losses']} failure{'s' * (numbers['losses'] != 1)}."


def _reservation_ended(pool: Pool, numbers: Numbers) -> str:
    if not numbers.get("epochs"):
        return "Its reservation ended before its work was done."
    return f"Its reservation ended after {numbers['epoch']} of {_epochs(numbers['epochs'])}."


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
    worth = f"; to you that is worth {_credits(numbers['worth'])} credits so far" if numbers["worth"] else ""
    return f"{_percent(numbers['done'])} of it is done{worth}. The rest waits for the next interval."


def _stands_still(pool: Pool, numbers: Numbers) -> str:
    return (
        f"It stands still: {_percent(numbers['done'])} of it is done and worth {_credits(numbers['worth'])} credits to"
        f" you, and finishing it now would be worth {_credits(numbers['finishing'])}."
    )


def _percent(share: float) -> str:
    return f"{rounded(100.0 * share, 1)} %"


def _shared(pool: Pool, numbers: Numbers) -> str:
    resource = f" ({numbers['resource']})" if "resource" in numbers else ""
    return f"Its workers and its parameter servers take the same resource{resource}; here each needs one of its own."


WORDS: Mapping[str, Words] = MappingProxyType(
    {
        ReasonCode.DECIDING: Words("being decided", lambda pool, n: "It is being decided now."),
        ReasonCode.WAITING_FOR_INTERVAL: Words("came too late for the interval", _waiting),
        ReasonCode.NO_MORE_INTERVALS: Words(
            "no further interval",
            lambda pool, n: "No further interval will be decided.",
            "Give the run a later end.",
        ),
        ReasonCode.WAITING_AT_HOME: Words(
            "better off later at home",
            lambda pool, n: f"Renting is not worth it; it starts on your own cells at {_clock(pool, n['start'])}.",
        ),
        ReasonCode.BOUGHT_TOGETHER: Words(
            "not all of its array could be served",
            _together,
            "Cancel some of its jobs, or submit them to be bought one by one.",
        ),
        ReasonCode.MARKET_HELD: Words(
            "the market is on hold",
            lambda pool, n: "The market is on hold; nothing new is decided.",
        ),
        ReasonCode.IN_PIECES: Words("the rest of it waits", _in_pieces),
        ReasonCode.STANDS_STILL: Words(
            "finishing is worth less than what is saved",
            _stands_still,
            "Raise what it is worth, cancel it, or leave what is done as it is.",
        ),
        ReasonCode.WAITS_FOR_JOBS: Words("waits for other jobs", lambda pool, n: f"Waits for {n['jobs']}."),
        ReasonCode.DEPENDENCY_FAILED: Words(
            "a job that it waited for did not end well",
            lambda pool, n: f"It was to begin once J-{n['job']} had ended well; that one {_ended(n['outcome'])}.",
            "See why that one ended, and submit both again.",
        ),
        ReasonCode.NO_ROOM: Words(
            "no room for what was asked",
            _no_room,
            "Let it run on fewer workers, or ask again when others have finished.",
        ),
        ReasonCode.LARGER_THAN_WINDOW: Words(
            "longer than any interval",
            _too_long,
            "Allow more workers at once, or submit the work in parts.",
        ),
        ReasonCode.HORIZON_TOO_SHORT: Words(
            "longer than what is open for sale",
            lambda pool, n: f"Needs {_slots(n['needs_slots'])}, and only the next {_slots(n['slots'])} can be bought.",
            "Allow more workers at once, submit the work in parts, or send it to the batch lane.",
        ),
        ReasonCode.OVER_SHARE: Words(
            "more workers than one job may have",
            lambda pool, n: (
                f"Asks for at least {_workers(n['asked'])}; one job may have {n['most']} at once "
                f"({n['percent']} % of the pool)."
            ),
            "Let it run on fewer workers, or send it to the batch lane.",
        ),
        ReasonCode.TOO_LARGE_FOR_LANE: Words(
            "too large for an answer at once",
            lambda pool, n: (
                f"Too large for an answer at once: {rounded(n['size'], 0)} worker-slots times workers, "
                f"and {rounded(n['most'], 0)} are the most."
            ),
            "Send it to the batch lane, or allow fewer workers at once.",
        ),
        ReasonCode.NOT_ITS_TURN: Words(
            "not its turn",
            lambda pool, n: "The pool's policy gives it nothing in this slot.",
        ),
        ReasonCode.OUTBID: Words(
            "the price is above its worth",
            _outbid,
            "Ask when there is less demand, or allow fewer workers.",
        ),
        ReasonCode.NOT_WORTH_IT: Words(
            "worth nothing when done",
            _not_worth_it,
            "Allow more workers, so that it is done sooner, or let its worth last longer if it does.",
        ),
        ReasonCode.RENT_NEVER: Words(
            "may not rent",
            lambda pool, n: "It may not rent, and your own cells are taken.",
            "Allow it to rent, or wait until your own cells are free.",
        ),
        ReasonCode.OVER_MAX_PRICE: Words(
            "over its highest price",
            _over_max_price,
            "Raise its limit, or ask when there is less demand.",
        ),
        ReasonCode.OVER_BUDGET: Words(
            "over the budget",
            lambda pool, n: (
                f"Costs {_credits(n['price'])}{_least(n)}, and {_credits(n['left'])} of the budget are left."
            ),
            "Have the budget raised, or wait for its next period.",
        ),
        ReasonCode.LOW_BALANCE: Words(
            "not enough credits",
            _low_balance,
            "Have credits paid in; what your cells earn can be spent every hour.",
        ),
        ReasonCode.SMALLER_SIZE: Words(
            "smaller than it could be",
            _smaller,
            "It grows by itself once there is more to spend: credits, budget, or the job's own limit.",
        ),
        ReasonCode.NO_DEMAND: Words(
            "takes no units",
            lambda pool, n: (
                f"A worker takes {n['worker']:g} units and a parameter server {n['ps']:g}; each has to take something."
            ),
            "Say what a worker and a parameter server take.",
        ),
        ReasonCode.DEMAND_TOO_SMALL: Words(
            "less than a unit for a member of a program",
            _too_small,
            "Ask for at least one whole unit for each worker and parameter server.",
        ),
        ReasonCode.SHARED_RESOURCE: Words(
            "one resource for workers and parameter servers",
            _shared,
            "Let the two take different resources, or choose a pool that sells them together.",
        ),
        ReasonCode.PS_BANDWIDTH_BELOW_WORKER: Words(
            "a parameter server slower than a worker",
            lambda pool, n: (
                f"A parameter server has {n['ps_mbps']:g} Mbit/s, less than the {n['worker_mbps']:g} of one worker."
            ),
            "Give a parameter server at least the bandwidth of a worker.",
        ),
        ReasonCode.SERVER_LOST: Words(
            "its server was lost",
            lambda pool, n: "Its server was lost; what was not delivered is refunded, and it waits again.",
        ),
        ReasonCode.MARKET_STOPPED: Words(
            "the market stood still",
            lambda pool, n: "The market stood still; what was not delivered is refunded, and it waits again.",
        ),
        ReasonCode.ENGINE_ERROR: Words("the platform could not run it", _engine_error),
        ReasonCode.FLOOR_MISSED: Words(
            "its place at home passed",
            lambda pool, n: "Its place at home passed while the market was on hold; it is given another one.",
        ),
        ReasonCode.FLOOR_LOST: Words(
            "its place at home was lost",
            lambda pool, n: "A server of its place at home was lost; it is given another one.",
        ),
        ReasonCode.GIVEN_UP: Words(
            "given up after several failures",
            lambda pool, n: (
                f"The platform failed to run it {n['losses']} times in a row, the last time because "
                f"{n['detail'].rstrip('.')}. What was not delivered is refunded; it is not tried again."
            ),
            "Tell the operator, and submit it again when the cause is gone.",
        ),
        ReasonCode.CONVERGED: Words(
            "its loss had stopped falling",
            lambda pool, n: f"Converged at epoch {n['epoch']} of at most {n['epochs']}; paid for what was used.",
            "Where it was to learn on, submit it again with a smaller threshold or more epochs in a row.",
        ),
        ReasonCode.EPOCHS_DONE: Words(
            "it has done its most epochs",
            lambda pool, n: (
                f"It has done its {_epochs(n['epochs'])}, the most that it was to train, and its loss was still moving."
            ),
            "Where it was to learn on, submit it again with more epochs.",
        ),
        ReasonCode.PROGRAM_FAILED: Words(
            "its program failed",
            lambda pool, n: f"Its program failed: {n['detail']}. What was reserved is paid.",
            "Read its log, mend the program or its parameters, and submit it again.",
        ),
        ReasonCode.RESERVATION_ENDED: Words(
            "its reservation ended",
            _reservation_ended,
            "Submit it again with the times that were measured: the form offers them.",
        ),
        ReasonCode.CANCELLED_BY: Words("cancelled", lambda pool, n: f"Cancelled by {n.get('user') or 'its tenant'}."),
    }
)
