"""The file that training programs import: what it writes, and that it never ends a training."""

from __future__ import annotations

import ast
import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bourse_progress
from tests.patience import PATIENCE

FILE = Path(bourse_progress.__file__)


@pytest.fixture
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inside a job, in a process that has told nothing yet."""
    file = tmp_path / "worker-0.jsonl"
    monkeypatch.setenv("BOURSE_PROGRESS", str(file))
    monkeypatch.setattr(bourse_progress, "_pending", bourse_progress._Pending())
    monkeypatch.setattr(bourse_progress, "EVERY", 0.0)
    return file


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a Python that has nothing but the file, isolated from what is installed here."""
    head = f"import sys; sys.path.insert(0, {str(FILE.parent)!r}); import bourse_progress\n"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", head + code],
        env={"PATH": os.environ["PATH"]} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_outside_a_job_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("BOURSE_PROGRESS", "BOURSE_CHECKPOINT", "BOURSE_ENDS_AT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert bourse_progress.report(step=1, loss=0.5) is False
    assert bourse_progress.checkpoint_folder() is None
    assert bourse_progress.seconds_left() == math.inf
    assert list(tmp_path.iterdir()) == []


def test_numbers_are_lines_of_json(progress: Path) -> None:
    assert bourse_progress.report(step=1, of=10, loss=0.5, rate=1e-3)
    assert bourse_progress.report(epoch=2, accuracy=np.float32(0.25), count=np.int64(3), mean=np.array([7.5]))
    assert lines(progress) == [
        {"step": 1, "of": 10, "loss": 0.5, "rate": 0.001},
        {"epoch": 2, "accuracy": 0.25, "count": 3, "mean": 7.5},
    ]


def test_what_is_no_finite_number_is_left_out(progress: Path) -> None:
    class Odd:
        def item(self) -> Any:
            raise KeyboardError

    class KeyboardError(Exception):
        pass

    odd: dict[str, Any] = {"a": math.nan, "b": math.inf, "c": "1", "d": None, "e": True, "f": np.zeros(3), "g": Odd()}
    assert bourse_progress.report(step=1, **odd)
    assert lines(progress) == [{"step": 1}]
    assert bourse_progress.report(**odd) is False
    assert bourse_progress.report() is False
    assert bourse_progress.report(**{f"n{k}": k for k in range(500)})
    assert len(lines(progress)[1]) == 100


def test_a_flood_is_thinned_and_the_last_line_is_there(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    begin = time.monotonic()
    answer = in_a_process("for k in range(20_000): assert bourse_progress.report(step=k)", BOURSE_PROGRESS=str(file))
    seconds = time.monotonic() - begin
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    steps = [line["step"] for line in lines(file)]
    assert steps[0] == 0
    assert steps[-1] == 19_999
    assert steps == sorted(set(steps))
    assert len(steps) <= seconds / bourse_progress.EVERY + 3


def test_what_waits_in_a_parent_is_not_written_by_its_children(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    code = "import os\nbourse_progress.report(step=0)\nbourse_progress.report(step=1)\n"
    code += "child = os.fork()\nif child: os.waitpid(child, 0)\nelse: sys.exit(0)\n"
    assert in_a_process(code, BOURSE_PROGRESS=str(file)).returncode == 0
    assert [line["step"] for line in lines(file)] == [0, 1]


def test_threads_do_not_mix_their_lines(progress: Path) -> None:
    def tell(thread: int) -> None:
        for step in range(200):
            bourse_progress.report(thread=thread, step=step, padding=0.1234567890123456)

    threads = [threading.Thread(target=tell, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lines(progress)
    assert all(set(line) == {"thread", "step", "padding"} for line in lines(progress))


def test_a_line_that_was_cut_off_does_not_spoil_the_next(progress: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, data[:5]))
    assert bourse_progress.report(step=1) is False
    monkeypatch.setattr(os, "write", whole)
    assert bourse_progress.report(step=2)
    assert progress.read_text().splitlines() == ['{"ste', '{"step": 2}']


@pytest.mark.parametrize("place", ["folder", "gone/deep/file", "pipe"])
def test_a_place_that_cannot_be_written_ends_nothing_and_is_told_once(place: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # without a reader: whoever opened it to write would wait for ever
    code = "for k in range(3): assert bourse_progress.report(step=k) is False\nprint('trained')"
    answer = in_a_process(code, BOURSE_PROGRESS=str(tmp_path / place))
    assert (answer.returncode, answer.stdout) == (0, "trained\n"), answer.stderr
    assert answer.stderr.startswith("bourse_progress: ")
    assert answer.stderr.count("\n") == 1


def test_nothing_raises_where_even_the_error_output_is_closed(tmp_path: Path) -> None:
    code = "sys.stderr = None\nassert bourse_progress.report(step=1) is False\nprint('trained')"
    answer = in_a_process(code, BOURSE_PROGRESS=str(tmp_path))
    assert (answer.returncode, answer.stdout) == (0, "trained\n")


def test_the_folder_is_there_and_time_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOURSE_CHECKPOINT", str(tmp_path / "kept" / "here"))
    folder = bourse_progress.checkpoint_folder()
    assert folder is not None
    assert folder.is_dir()
    monkeypatch.setenv("BOURSE_ENDS_AT", str(int(time.time()) + 100))
    assert 90 < bourse_progress.seconds_left() <= 100
    monkeypatch.setenv("BOURSE_ENDS_AT", "1")
    assert bourse_progress.seconds_left() == 0.0
    monkeypatch.setenv("BOURSE_ENDS_AT", "soon")
    assert bourse_progress.seconds_left() == math.inf
    monkeypatch.setenv("BOURSE_CHECKPOINT", str(FILE / "under-a-file"))
    assert bourse_progress.checkpoint_folder() is None


def test_it_is_one_file_that_needs_the_standard_library_alone() -> None:
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names - set(sys.stdlib_module_names) == set()
    answer = in_a_process("print(bourse_progress.report(step=1), bourse_progress.seconds_left())")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "False inf\n", "")
