"""A text comes out of its delta to the byte, and a delta that was changed says so or gives another text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.market.reads.deltas import Original, delta_apply

ROWS = st.lists(st.sampled_from(["a", "b", "c", "d", "}", "{", ",", "},{", "x" * 40]), max_size=30)
TEXTS = ROWS.map(lambda rows: "},{".join(rows).encode())


@given(base=TEXTS, text=TEXTS)
def test_text_comes_out_as_it_was(base: bytes, text: bytes) -> None:
    assert delta_apply(base, Original(base).delta(text)) == text


@given(base=st.binary(max_size=60), text=st.binary(max_size=60))
def test_so_does_what_has_no_rows(base: bytes, text: bytes) -> None:
    assert delta_apply(base, Original(base).delta(text)) == text


def document(rows: list[dict[str, int]]) -> bytes:
    return json.dumps({"jobs": rows, "slot": len(rows)}, separators=(",", ":")).encode()


def row(number: int) -> dict[str, int]:
    return {"number": number, "value": number * 7_919 % 1_000_003}


def test_rows_that_did_not_change_are_not_written_again() -> None:
    rows = [row(number) for number in range(2_000)]
    base = document(rows)
    changed = [*rows[:500], row(9_001), *rows[501:1_200], *rows[1_300:], row(9_002)]
    delta = Original(base).delta(document(changed))
    assert len(delta) < 200 < len(base) / 100
    assert delta_apply(base, delta) == document(changed)


def test_rows_that_stand_elsewhere_or_twice_are_copied_too() -> None:
    rows = [row(number) for number in range(200)] + [{"number": 0, "value": 0}] * 50
    base = document(rows)
    text = document([*rows[100:], *rows[:100], *rows[150:]])
    delta = Original(base).delta(text)
    assert len(delta) < 250
    assert delta_apply(base, delta) == text


@pytest.mark.parametrize(
    "delta",
    [
        b"",
        b"{}\n",
        b"[1,2]\n",
        b'[0,0,"1"]\n',
        b"[0,0,true]\n",
        b"[0,0,99]\n",
        b"[0,-1,1]\n",
        b"[0,0,-1]\n",
        b"[-1,0,1]\n",
        b"[1,0,1]\n",
        b"[0,0,1]\nx",
        b"[2,0,1]\nx",
        b"[0,9,0,0,-1,1]\n[",
    ],
)
def test_delta_that_says_what_cannot_be_is_refused(delta: bytes) -> None:
    with pytest.raises(ValueError, match=r"it |Expecting"):
        delta_apply(b"12345", delta)
