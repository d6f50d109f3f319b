"""What another report would have meant, as sentences: of each kind of before and after one."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.quotes.pages.submit_form import KINDS
from scheduling.what_if.asking import what_if_fields
from scheduling.what_if.read_words import FIELD_WORDS, gains_sentence, outcome_sentence, said_words

GOT: dict[str, Any] = {"state": "awarded", "reason": "", "phase": "shared", "start": 10, "end": 14, "workers": 4}
GOT |= {"ps": 1, "paid": 3.2, "value": 90.0, "floor": 0.0}
WAITS = GOT | {"state": "waiting", "reason": "outbid", "start": None, "end": None, "paid": 0.0, "value": 0.0}


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            GOT,
            GOT | {"start": 8, "end": 12, "paid": 6.4, "value": 86.0},
            "J-12 would have run in slots 8 to 11 in place of 10 to 13, paid 3.20 more, and been worth 4.00 less.",
        ),
        (
            GOT,
            GOT | {"workers": 2, "phase": "own", "paid": 3.195},
            "J-12 would have run in slots 10 to 13 as it did, on 2 workers in place of 4, at home and not rented, paid "
            "0.005000 less, and been worth 90.00 as it did.",
        ),
        (
            GOT,
            GOT,
            "Nothing would have been different for J-12: running in slots 10 to 13 (4 workers and 1 parameter server, "
            "rented), paying 3.20, and being worth 90.00.",
        ),
        (
            GOT,
            WAITS,
            "J-12 would have waited on (the price is above its worth) in place of running in slots 10 to 13 (4 workers "
            "and 1 parameter server, rented), paying 3.20, and being worth 90.00.",
        ),
        (
            WAITS | {"state": "rejected", "reason": ""},
            GOT | {"ps": 0, "workers": 1},
            "J-12 would have run in slots 10 to 13 (1 worker, rented), paid 3.20, and been worth 90.00, in place of "
            "being refused.",
        ),
        (WAITS, WAITS, "J-12 would have waited on (the price is above its worth), as it did."),
        (
            WAITS | {"reason": ""},
            WAITS | {"reason": "", "floor": 5.0},
            "J-12 would have waited on, as it did, with a place at home that is worth 5.00 more.",
        ),
        (
            WAITS | {"reason": ""},
            WAITS | {"state": "absent", "reason": ""},
            "J-12 would have not been there yet in place of waiting on.",
        ),
    ],
)
def test_sentence_says_in_numbers_what_would_have_been(before: Any, after: Any, sentence: str) -> None:
    assert outcome_sentence("J-12", before, after) == sentence


def test_gains_are_those_of_the_tenant_of_all_others_and_of_the_operator() -> None:
    assert gains_sentence(1234.5, -0.25, 1e-9) == (
        "Its tenant would have gained 1\N{NARROW NO-BREAK SPACE}234.50 more, all others together 0.25 less, and the "
        "operator the same."
    )


def test_every_field_that_can_be_said_otherwise_has_its_words() -> None:
    assert set(FIELD_WORDS) == set(what_if_fields())
    assert all(words.title and words.meaning for words in FIELD_WORDS.values())


def test_what_was_said_is_told_in_words_and_what_has_none_as_it_stands() -> None:
    numbers = {"base": 100.0, "slope": -0.5, "scale": 9.0, "power": 2.0, "deadline": 12, "priority": 80, "target": 6}
    sentences = {kind: said_words("value", {"kind": kind, **numbers}) for kind in KINDS}
    assert sentences == {
        "linear": "100, less 0.5 for each slot",
        "convex": "81 after one slot, falling with power 2",
        "deadline": "100 until 12 slots have passed, nothing after that",
        "sigmoid": "80, about half of it left after 6 slots",
    }
    kinds = ("linear_until", "sigmoid_until")
    ended = {kind: said_words("value", {"kind": kind, "until": 9.0, **numbers}) for kind in kinds}
    assert ended == {
        "linear_until": "100, less 0.5 for each slot, nothing after 9 slots",
        "sigmoid_until": "80, about half of it left after 6 slots, nothing after 9 slots",
    }
    assert said_words("max_price", 2.5) == "2.5 credits"
    assert said_words("rent", "never") == "never: home only"
    assert said_words("worker_demand", {"gpu": 2, "cpu": 4.0}) == "2 gpu, 4 cpu"
    assert said_words("worker_mbps", [100, 200]) == "[100, 200] Mbit/s"
    assert said_words("value", {"kind": "steps"}) == '{"kind": "steps"}'
    assert said_words("epochs", None) == "nothing"
