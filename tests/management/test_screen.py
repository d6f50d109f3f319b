"""What people read: settings as they write them, tables, bars of progress."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from scheduling.core.scenario import BadScenario
from scheduling.lab.parallel import each
from scheduling.lab.progress import ProgressLine, clock, line
from scheduling.lab.settings import setting, variants, with_changes
from scheduling.lab.tables import figure, table, with_spread


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("theta.worker=16", ("theta", "worker"), 16),
        ("mode=guarantee", ("mode",), "guarantee"),
        ("upgrade=true", ("upgrade",), True),
        ("intervals=null", ("intervals",), None),
        ('clock={"first": 1, "cap": 4}', ("clock",), {"first": 1, "cap": 4}),
        ("workers=[1, 30]", ("workers",), [1, 30]),
        ("model=a=b", ("model",), "a=b"),
        ("price_floor = 0.5", ("price_floor",), 0.5),
    ],
)
def test_reads_a_setting(text: str, path: tuple[str, ...], value: Any) -> None:
    assert setting(text) == (path, value)


def test_changes_leave_the_original_alone() -> None:
    original = {"name": "a", "theta": {"worker": 2}}
    changed = with_changes(original, [setting("theta.ps=3"), setting("rounds=2")])
    assert changed == {"name": "a", "theta": {"worker": 2, "ps": 3}, "rounds": 2}
    assert original == {"name": "a", "theta": {"worker": 2}}


def test_a_number_has_no_fields() -> None:
    with pytest.raises(BadScenario, match="theta is 3 and has no fields"):
        with_changes({"theta": 3}, [setting("theta.worker=1")])


def test_labels_variants_briefly() -> None:
    text = 'astraea[mode=guarantee,theta.worker=2],astraea,fifo[workers=[1, 30]],oasis[x={"a": [1, 2]}]'
    labels = [variant.label for variant in variants(text)]
    assert labels == ["astraea guarantee theta.worker=2", "astraea", "fifo workers=[1,30]", "oasis x={a:[1,2]}"]


def test_says_once_what_is_the_same_for_every_resource() -> None:
    text = "astraea[theta.worker=2,theta.ps=2],astraea[theta.worker=2,theta.ps=3],astraea[theta.worker=2]"
    labels = [variant.label for variant in variants(text)]
    assert labels == ["astraea theta=2", "astraea theta.worker=2 theta.ps=3", "astraea theta.worker=2"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (12345, "12,345"),
        (12345.678, "12,346"),
        (12.3456, "12.35"),
        (0.04567, "0.0457"),
        (-3.5, "-3.500"),
        (1e-7, "1.0e-07"),
    ],
)
def test_writes_about_four_digits(number: float | None, text: str) -> None:
    assert figure(number) == text


def test_writes_a_mean_and_its_spread_alike() -> None:
    assert with_spread(22612.4, 339.8) == "22,612 ± 340"
    assert with_spread(0.2142, 0.1395) == "0.2142 ± 0.1395"
    assert with_spread(52.65, 6990.2) == "53 ± 6,990"
    assert with_spread(3.0, 0.0) == "3"


def test_sets_numbers_to_the_right() -> None:
    assert table(("job", "value"), [("a", 1), ("long", 12000), ("b", None)]).splitlines() == [
        "job    value",
        "────  ──────",
        "a          1",
        "long  12,000",
        "b          -",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_silent_unless_somebody_watches() -> None:
    stream = io.StringIO()
    with ProgressLine("simulating", "jobs", stream) as progress:
        progress.due = 0.0
        progress(1, 2)
    assert stream.getvalue() == ""


def test_progress_leaves_no_trace() -> None:
    stream = Terminal()
    with ProgressLine("simulating", "jobs", stream) as progress:
        progress.due = 0.0
        progress(1, 2)
    bar, _, rest = stream.getvalue().rpartition("\r")
    assert "50%  1 of 2 jobs" in bar
    assert rest == "\x1b[K"


class Waited:
    """Hears how far the runs are; they end once it has heard twice that none has."""

    def __init__(self, pipes: list[Path]) -> None:
        self.pipes, self.heard = pipes, list[tuple[int, int]]()

    def __call__(self, done: int, total: int) -> None:
        self.heard.append((done, total))
        if self.heard == [(0, 2)] * 2:
            for pipe in self.pipes:
                pipe.write_text("go on")


def test_says_how_far_it_is_also_before_the_first_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.lab.parallel.EVERY", 0.01)
    pipes = [tmp_path / name for name in ("one", "two")]
    for pipe in pipes:
        os.mkfifo(pipe)
    progress = Waited(pipes)
    assert each(Path.read_text, pipes, 2, progress) == ["go on"] * 2  # type: ignore[arg-type]
    assert progress.heard[:2] == [(0, 2)] * 2
    assert progress.heard[-1] == (2, 2)


def test_short_work_shows_no_progress() -> None:
    stream = Terminal()
    with ProgressLine("simulating", "jobs", stream) as progress:
        progress(1, 2)
    assert stream.getvalue() == ""


def test_draws_how_far_it_is_and_how_long_it_takes() -> None:
    assert line("simulating", "jobs", 40, 80, 65.0) == f"simulating {'━' * 15}{'╌' * 15}  50%  40 of 80 jobs  1:05 left"
    assert line("simulating", "jobs", 0, 0, 0.0).endswith("100%  0 of 0 jobs  0:00 left")
    assert clock(3725) == "1:02:05"
