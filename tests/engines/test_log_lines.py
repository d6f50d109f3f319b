"""What becomes of a gang's output on its way into the log: bars, floods, ends without an end of line."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from scheduling.engines.launcher import consumption
from scheduling.engines.launcher.consumption import Consumption
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.launcher.logbook import LAST_LINES, Logbook
from scheduling.engines.launcher.program_crew import ProgramCrew
from tests.engines.logs import log_lines


class Speaker:
    """One process that is not really there, heard through a pipe."""

    def __init__(self, root: Path, most: int = 2**20) -> None:
        folder = Folder(root, "job-1", "a" * 32)
        folder.make()
        self.root, self.key = root, folder.key
        self.crew = ProgramCrew(folder, {}, Logbook(folder.log, most))
        theirs, self.pipe = os.pipe()
        self.crew.listen_to(theirs, "worker", 0)

    def says(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self.pipe, data[:4096]) :]
            self.crew.listen(0)

    def end(self) -> None:
        os.close(self.pipe)
        self.crew.listen_to_the_end()
        self.crew.log.close("Ended.")

    def log(self, who: str = "worker") -> list[str]:
        return [line.text for line in log_lines(self.root, "job-1", self.key) if line.role == who]


@pytest.fixture
def speaker(tmp_path: Path) -> Speaker:
    return Speaker(tmp_path)


@pytest.mark.parametrize("form", ["\r{}", "{}\r"])
def test_bar_that_is_written_over_is_in_the_log_while_it_grows_and_as_it_ended(
    speaker: Speaker, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for percent in range(101):
        speaker.says(form.format(f"{percent} %"))
        now += 0.25
    assert speaker.log() == ["0 %", "40 %", "80 %"]
    speaker.says("\nnext\n")
    assert speaker.log() == ["0 %", "40 %", "80 %", "100 %", "next"]


def test_line_of_windows_ends_as_any_other_and_spaces_of_other_languages_stay(speaker: Speaker) -> None:
    speaker.says("one\r\n\r\n12\u202f345\u00a0€ \u3000\u4e00\nbell\a\n")
    assert speaker.log() == ["one", "", "12\u202f345\u00a0€ \u3000\u4e00", "bell\N{REPLACEMENT CHARACTER}"]


def test_last_line_is_heard_though_nothing_ends_it_and_somebody_still_holds_the_pipe(speaker: Speaker) -> None:
    held = os.dup(speaker.pipe)
    speaker.says("saved\nno room le")
    os.write(speaker.pipe, b"ft")
    speaker.end()
    os.close(held)
    assert speaker.log() == ["saved", "no room left"]


def test_long_line_is_cut_and_counts_as_what_is_left_of_it(speaker: Speaker) -> None:
    for _ in range(5):
        speaker.says("x" * 100_000 + "\n")
    assert speaker.log() == ["x" * 2_000] * 5
    assert speaker.crew.output == 5 * 100_001


def test_what_has_no_end_of_line_counts_as_output_too(speaker: Speaker) -> None:
    speaker.says("." * 100_000)
    assert speaker.crew.output == 100_000


def test_full_log_says_so_once_and_ends_with_the_last_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speaker, now = Speaker(tmp_path, most=3_000), 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for number in range(500):
        speaker.says(f"line {number}\n")
        now += 1.0
    assert speaker.log("engine") == ["worker 0 writes more than it may: its lines are left out from here on."]
    speaker.end()
    lines = speaker.log()
    first_lines = len(lines) - LAST_LINES
    assert lines == [f"line {number}" for number in [*range(first_lines), *range(500 - LAST_LINES, 500)]]
    left_out = 500 - len(lines)
    assert speaker.log("engine")[1:] == [f"{left_out} lines were left out before the last ones.", "Ended."]
    assert speaker.crew.folder.log.stat().st_size < 3_000 + 50 * (LAST_LINES + 4)


def test_why_a_program_failed_is_in_the_log_though_it_wrote_too_fast(speaker: Speaker) -> None:
    for number in range(3_000):
        speaker.says(f"{number} {'x' * 80}\n")
    speaker.says("Traceback (most recent call last):\nValueError: no\n")
    speaker.end()
    assert speaker.log()[-2:] == ["Traceback (most recent call last):", "ValueError: no"]


def test_last_lines_that_are_long_are_fewer(speaker: Speaker) -> None:
    for number in range(200):
        speaker.says(f"{number:04} {'x' * 3_000}\n")
    speaker.end()
    assert [line[:4] for line in speaker.log()[-8:]] == [f"{number:04}" for number in range(192, 200)]
    assert "writes faster than it may" in speaker.log("engine")[0]


def test_too_many_files_are_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumption, "MOST_FILES", 3)
    plan = {"limits": vars(ProcessLimits()), "cpu_seconds": 0, "phases": []}
    for number in range(3):
        (tmp_path / str(number)).touch()
    assert Consumption(tmp_path).excess(plan) == ""
    (tmp_path / "one more").touch()
    assert Consumption(tmp_path).excess(plan) == "it has more than 3 files in its folder"
