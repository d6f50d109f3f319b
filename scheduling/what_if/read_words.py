"""Words for what a job may report about itself, and for what it would have meant if it had reported something else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from scheduling.core.types import AWARDED, EXPIRED, REJECTED, WAITING
from scheduling.market.reads import reason_few, slots_words
from tenants.ledger.amounts import CENT, exported, micro, plain, shown, typed
from tenants.templatetags.look import through

Outcome = Mapping[str, Any]  # as scheduling.core.metrics.misreports has it


@dataclass(frozen=True)
class FieldWords:
    title: str
    meaning: str
    unit: str = ""
    group: str = "Its units"


WORTH, TERMS, WORK, TIME = "What it is worth", "Its terms", "Its work", "Its time"
FIELD_WORDS: Mapping[str, FieldWords] = MappingProxyType(
    {
        "value": FieldWords("Worth", "What an end is worth, and how that falls with every slot.", "", WORTH),
        "max_price": FieldWords("Pay at most", "For the whole run. Nothing: no limit of its own.", "credits", TERMS),
        "rent": FieldWords("Renting", "Whether it may run on the units of others.", "", TERMS),
        "priority": FieldWords("Priority among its tenant's jobs", "Larger goes first. Nothing: 0.", "", TERMS),
        "epochs": FieldWords("Epochs", "How often the whole data is gone through.", "", WORK),
        "chunks": FieldWords("Chunks", "Equal parts of the data: no more workers than chunks help.", "", WORK),
        "minibatches": FieldWords(
            "Mini-batches in a chunk", "Steps a worker takes through one chunk. Nothing: 1.", "", WORK
        ),
        "minibatch_seconds": FieldWords("Time per mini-batch", "On one worker, without the exchange.", "seconds", WORK),
        "update_seconds": FieldWords("Time to apply an update", "On a parameter server. Nothing: 0.", "seconds", WORK),
        "gradient_mb": FieldWords(
            "Gradients", "Exchanged at every mini-batch once the job is spread. Nothing: none.", "MB", WORK
        ),
        "min_workers": FieldWords("Workers, at least", "It never runs on fewer. Nothing: 1."),
        "max_workers": FieldWords("Workers, at most", "Nothing: one for each chunk."),
        "max_ps": FieldWords("Parameter servers, at most", "Nothing: as many as the workers need."),
        "worker_demand": FieldWords("A worker takes", "Units of each resource, for one worker."),
        "ps_demand": FieldWords("A parameter server takes", "Units of each resource, for one parameter server."),
        "worker_mbps": FieldWords("Bandwidth of a worker", "Needed if there are gradients.", "Mbit/s"),
        "ps_mbps": FieldWords("Bandwidth of a parameter server", "Says how many workers one can serve.", "Mbit/s"),
        "arrival": FieldWords("When it came", "In slots of the pool; not before it really came.", "slots", TIME),
    }
)
RENTING = MappingProxyType({"auto": "whenever it is worth it", "never": "never: home only", "budget": "in its budget"})
_CURVES: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "linear": lambda v: f"{_plain(v['base'])}, less {_plain(-v['slope'] + 0.0)} for each slot",
        "convex": lambda v: (
            f"{typed(micro(v['scale'] ** v['power']))} after one slot, falling with power {_plain(v['power'])}"
        ),
        "deadline": lambda v: (
            f"{_plain(v['base'])} until {_plain(v['deadline'])} slots have passed, nothing after that"
        ),
        "sigmoid": lambda v: f"{_plain(v['priority'])}, about half of it left after {_plain(v['target'])} slots",
    }
)


def said_words(field: str, value: Any) -> str:
    """Return what was reported in a field, so that it fits into a sentence."""
    if value is None:
        return "nothing"
    if field == "value":
        return _curve(value)
    if field == "rent" and value in RENTING:
        return RENTING[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{_plain(amount)} {name}" for name, amount in value.items()) or "nothing"
    unit = FIELD_WORDS[field].unit if field in FIELD_WORDS else ""
    return f"{_plain(value)} {unit}".rstrip()


def _curve(value: Any) -> str:
    try:
        curve, _, ends = str(value["kind"]).partition("_")
        words = _CURVES[curve](value)
        return f"{words}, nothing after {_plain(value['until'])} slots" if ends else words
    except (KeyError, TypeError, ValueError, OverflowError):
        return json.dumps(value)


def _plain(value: Any) -> str:
    return plain(value) if isinstance(value, int | float) and not isinstance(value, bool) else json.dumps(value)


def outcome_words(outcome: Outcome) -> str:
    """Return what a job got, in a few words."""
    if outcome["state"] == AWARDED:
        where = {"own": ", at home", "shared": ", rented"}.get(outcome["phase"], "")
        return f"{_slots(outcome)}, {_gang(outcome)}{where}"
    words = {WAITING: "waits on", REJECTED: "refused", EXPIRED: "expired"}.get(outcome["state"], "not there yet")
    return f"{words}: {reason_few(outcome['reason'])}" if outcome.get("reason") else words


def _slots(outcome: Outcome) -> str:
    return slots_words(outcome["start"], outcome["end"])


def _gang(outcome: Outcome) -> str:
    workers, ps = outcome["workers"], outcome["ps"]
    return _count(workers, "worker") + (f" and {_count(ps, 'parameter server')}" if ps else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def outcome_sentence(name: str, before: Outcome, after: Outcome) -> str:
    """Return in numbers what the other report would have meant for its job."""
    was_awarded, gets = before["state"] == AWARDED, after["state"] == AWARDED
    if was_awarded and gets:
        if before == after:
            words = _list_text([f"running in {_place(before)}", *_terms(before, "paying", "being worth")])
            return f"Nothing would have been different for {name}: {words}."
        moves = [_run(before, after), _changed("paid", before["paid"], after["paid"])]
        return f"{name} would have {_list_text([*moves, _changed('been worth', before['value'], after['value'])])}."
    if gets:
        words = _list_text([f"run in {_place(after)}", *_terms(after, "paid", "been worth")])
        return f"{name} would have {words}, in place of {_idle(before)[1]}."
    if was_awarded:
        words = _list_text([f"running in {_place(before)}", *_terms(before, "paying", "being worth")])
        return f"{name} would have {_idle(after)[0]} in place of {words}."
    if _idle(before) == _idle(after):
        return f"{name} would have {_idle(after)[0]}, as it did{_promise(before, after)}."
    return f"{name} would have {_idle(after)[0]} in place of {_idle(before)[1]}{_promise(before, after)}."


def gains_sentence(own: float, others: float, operator: float) -> str:
    """Return the sentence about gains, in credits: `own` is how much more the job's tenant gains, `others` all other
    tenants together, `operator` the operator."""
    rest = [f"{who} {_more(number)}" for who, number in (("all others together", others), ("the operator", operator))]
    return f"Its tenant would have gained {_more(own)}, {rest[0]}, and {rest[1]}."


def _run(before: Outcome, after: Outcome) -> str:
    was, now = ((outcome["start"], outcome["end"]) for outcome in (before, after))
    if was == now:
        words = f"run in {slots_words(*now)} as it did"
    else:
        words = f"run in {slots_words(*now)} in place of {through(*was)}"
    if before["ps"] != after["ps"]:
        words += f", on {_gang(after)} in place of {_gang(before)}"
    elif before["workers"] != after["workers"]:
        words += f", on {_count(after['workers'], 'worker')} in place of {before['workers']}"
    if before["phase"] != after["phase"]:
        words += {"own": ", at home and not rented", "shared": ", rented and not at home"}.get(after["phase"], "")
    return words


def _changed(verb: str, before: float, after: float) -> str:
    if micro(before) == micro(after):
        return f"{verb} {credits_words(after)} as it did"
    return f"{verb} {_more(after - before)}"


def _more(difference: float) -> str:
    if micro(difference) == 0:
        return "the same"
    return f"{credits_words(abs(difference))} {'more' if difference > 0 else 'less'}"


def _terms(outcome: Outcome, paid: str, worth: str) -> tuple[str, str]:
    return f"{paid} {credits_words(outcome['paid'])}", f"{worth} {credits_words(outcome['value'])}"


def _place(outcome: Outcome) -> str:
    where = {"own": ", at home", "shared": ", rented"}.get(outcome["phase"], "")
    return f"{_slots(outcome)} ({_gang(outcome)}{where})"


def _idle(outcome: Outcome) -> tuple[str, str]:
    """Return the words to follow "would have", and those to follow "in place of"."""
    why = f" ({reason_few(outcome['reason'])})" if outcome.get("reason") else ""
    perfect, gerund = {
        WAITING: ("waited on", "waiting on"),
        REJECTED: ("been refused", "being refused"),
        EXPIRED: ("expired", "expiring"),
    }.get(outcome["state"], ("not been there yet", "not being there yet"))
    return perfect + why, gerund + why


def _promise(before: Outcome, after: Outcome) -> str:
    """Return words about the job's promise at home, where that differs."""
    was, now = before.get("floor") or 0.0, after.get("floor") or 0.0
    if micro(was) == micro(now):
        return ""
    return f", with a place at home that is worth {_more(now - was)}"


def credits_words(amount: float) -> str:
    """Return an amount with two decimals, or with all six where two would show nothing."""
    exact = micro(amount)
    write = exported if 0 < abs(exact) < CENT else shown
    return write(exact).replace("-", "\N{MINUS SIGN}")


def _list_text(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"
