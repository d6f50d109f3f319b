"""Levels of lines of output, as programs usually write them; no line needs one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.programs.levels import GRAVE, LEVELS, at_least, level_of


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("ERROR could not open", "error"),
        ("2026-03-02 12:00:00,123 - train - WARNING - slow", "warning"),
        ("WARNING: nothing to do", "warning"),
        ("[info] epoch 3", "info"),
        ("[2026-03-02 12:00:00][rank0] (debug) shapes", "debug"),
        ("<Warn> x", "warning"),
        ("train.py:7: UserWarning: deprecated", "warning"),
        ("ValueError: bad shape", "error"),
        ("Traceback (most recent call last):", "error"),
        ("gcc: error: no input files", "error"),
        ("error: pathspec", "error"),
        ('{"level": "warn", "msg": "x"}', "warning"),
        ("ts=1 level=fatal msg=x", "error"),
        ("E0302 12:00:00.123 7 net.cc:5] lost", "error"),
        ("I0302 12:00:00.123 7 net.cc:5] up", "info"),
        ("NCCL INFO Channel 00", "info"),
        ("epoch 3 of 9: loss 0.25", ""),
        ("the error is 0.3", ""),
        ("mean_error: 0.3", ""),
        ("information", ""),
        ("INFORMATION", ""),
        ("", ""),
        (" " * 200 + "ERROR", ""),
    ],
)
def test_level_is_read_from_its_usual_forms(line: str, level: str) -> None:
    assert level_of(line) == level
    if level in ("warning", "error"):
        assert GRAVE.search(line.encode())


@given(st.text(max_size=300))
def test_any_line_has_a_known_level_or_none(line: str) -> None:
    assert level_of(line) in (*LEVELS, "")
    assert level_of(line) not in ("warning", "error") or GRAVE.search(line.encode())


def test_graver_levels_pass_and_lines_without_one_only_where_none_is_asked_for() -> None:
    assert [at_least(level, "warning") for level in ("", *LEVELS)] == [False, False, False, True, True]
    assert all(at_least(level, "") for level in ("", *LEVELS))
