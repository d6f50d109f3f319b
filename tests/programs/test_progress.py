"""Lines that processes write about themselves: read as they grow, whoever wrote them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from scheduling.programs.progress import address_in, read, thin

many = settings(max_examples=300, deadline=None, database=None)


def test_lines_are_rows_and_what_is_not_ended_waits() -> None:
    progress = read(b'{"step": 1, "loss": 0.5}\n{"step": 2, "lo')
    assert (progress.rows, progress.bad) == (({"step": 1, "loss": 0.5},), 0)
    progress = read(b'ss": 0.25}\n\n', progress.rest)
    assert (progress.rows, progress.bad, progress.rest) == (({"step": 2, "loss": 0.25},), 0, b"")


@pytest.mark.parametrize(
    "line",
    [
        "step 1", "[1]", "{}", '{"a": "1"}', '{"a": true}', '{"a": null}', '{"a": NaN}', '{"a": Infinity}',
        '{"a": 1e999}', '{"a": [1]}', '{"": 1}', '{"a\\u001b": 1}', "[" * 2000, '{"a": ' + "9" * 400 + "}",
        '{"a": 1' + " " * 5000 + "}", json.dumps({f"n{k}": k for k in range(101)}), json.dumps({"a" * 101: 1}),
    ],
    ids=range(17),
)  # fmt: skip
def test_a_bad_line_is_counted_and_skipped(line: str) -> None:
    progress = read(f'{{"step": 1}}\n{line}\n{{"step": 2}}\n'.encode())
    assert (progress.rows, progress.bad) == (({"step": 1}, {"step": 2}), 1)


def test_a_line_without_end_takes_no_memory_and_is_one_bad_line() -> None:
    rest, bad = b"", 0
    for _ in range(50):
        progress = read(b"x" * 10_000, rest)
        rest, bad = progress.rest, bad + progress.bad
        assert len(rest) <= 5_000
    assert bad == 0
    progress = read(b'x\n{"step": 2}\n', rest)
    assert (progress.rows, progress.bad) == (({"step": 2},), 1)


def test_a_flood_is_thinned_with_its_first_and_last() -> None:
    lines = b"".join(b'{"step": %d}\n' % step for step in range(20_000))
    progress = read(lines, most=100)
    steps = [row["step"] for row in progress.rows]
    assert len(steps) == 100
    assert (steps[0], steps[-1]) == (0, 19_999)
    assert steps == sorted(set(steps))
    assert thin([{"a": 1}, {"a": 2}], 1) == [{"a": 2}]


@many
@seed(51)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_read_the_same_in_one_piece_or_two(piece: bytes, cut: int) -> None:
    whole = read(piece)
    first = read(piece[:cut])
    second = read(piece[cut:], first.rest)
    assert (*first.rows, *second.rows) == whole.rows
    assert first.bad + second.bad == whole.bad
    assert second.rest == whole.rest


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)


@many
@seed(52)
@given(
    st.dictionaries(names, st.one_of(st.integers(-(2**52), 2**52), st.floats(allow_nan=False, allow_infinity=False)))
)
def test_finite_numbers_come_back_as_they_were(numbers: dict[str, Any]) -> None:
    progress = read(json.dumps(numbers).encode() + b"\n")
    assert progress.rows == ((numbers,) if numbers else ())
    assert all(math.isfinite(value) for row in progress.rows for value in row.values())


def test_an_address_is_one_that_a_browser_may_open() -> None:
    assert address_in('{"url": "https://boards.example/run/3"}') == "https://boards.example/run/3"
    for line in (
        '{"url": "javascript:alert(1)"}', '{"url": "//evil"}', '{"url": "file:///etc/passwd"}', '{"url": 3}', "url",
        '{"url": "https://a b"}', '{"url": "https://a\\u0000"}', '"url"', '{"url": "https://' + "a" * 3000 + '"}',
    ):  # fmt: skip
        assert address_in(line) == ""
