"""Exports: a spreadsheet takes a text for a text and a number for a number, whoever wrote the cell."""

from __future__ import annotations

import ast
import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.common.csv_files import ROWS_AT_ONCE, csv_pieces, csv_text
from tests.sources import trees

ROOT = Path(__file__).parents[2]

FORMULAS = [
    "=1+1",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    " =1+1",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "\t1",
    " \tresnet",
    "\u00a0\rresnet",
    "\n",
    "\u00a0=1+1",
    "\u200b=1+1",
    "\ufeff=1+1",
    "\u3164@SUM(A1)",
    "  -2+3",
    "\uff1d1+1",
    "- 1",
    " -1",
    "-1_000",
    "-inf",
    "+nan",
    "-\u0661",
    "=",
    "-",
]
PLAIN = ["", "resnet", " resnet", "a=b", "1-2", "0", "12.500000", "-12.500000", "+3", "-1e-05", "{-1}", "'=1"]


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", FORMULAS, ids=ascii)
def test_what_begins_like_a_formula_is_marked_as_a_text(text: str) -> None:
    assert cells_of(csv_text([["x", text]])) == [["x", f"'{text}"]]


@pytest.mark.parametrize("text", PLAIN, ids=ascii)
def test_everything_else_stays_as_it_is(text: str) -> None:
    assert cells_of(csv_text([["x", text]])) == [["x", text]]


def test_numbers_stay_numbers_and_nothing_is_an_empty_cell() -> None:
    assert csv_text([[-1, -1.5, None, True]]) == "-1,-1.5,,True\r\n"
    assert csv_text([["a"], ["b"]], ends="\n") == "a\nb\n"


@given(st.lists(st.text(), min_size=1))
def test_no_cell_begins_with_a_sign_after_its_blanks(row: list[str]) -> None:
    (read,) = cells_of(csv_text([["x", *row]]))
    for cell, text in zip(read[1:], row, strict=True):
        assert cell in (text, f"'{text}")
        begins = cell.lstrip()[:1]
        assert begins not in ("=", "@")
        assert begins not in ("+", "-") or re.fullmatch(r"[-+][0-9.eE+-]+", cell)


def test_long_lists_come_in_pieces() -> None:
    pieces = list(csv_pieces(["number"], ([number] for number in range(2 * ROWS_AT_ONCE + 1))))
    assert len(pieces) == 4
    assert cells_of("".join(pieces))[1:] == [[str(number)] for number in range(2 * ROWS_AT_ONCE + 1)]


def test_nobody_else_writes_csv() -> None:
    """The core and the lab read traces of others; only one module writes."""
    makers = ("writer", "DictWriter")
    writers = {
        path
        for path, tree in trees("tenants", "scheduling", "marketplace", naming=makers)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.alias)
        and (node.attr if isinstance(node, ast.Attribute) else node.name) in makers
    }
    assert writers == {"tenants/common/csv_files.py"}
