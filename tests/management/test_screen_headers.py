"""Headers of several lines: they end just above the rows."""

from __future__ import annotations

from scheduling.lab.tables import table


def test_headers_of_several_lines_end_just_above_the_rows():
    text = table(["", "jobs", "mean\ncompletion"], [["fifo", 12, 3.5], ["srtf", 9, 12.25]])
    assert text.split("\n") == [
        " " * 18 + "mean",
        "      jobs  completion",
        "────  ────  ──────────",
        "fifo    12       3.500",
        "srtf     9       12.25",
    ]
