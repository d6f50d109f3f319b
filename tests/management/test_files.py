"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from scheduling.core.scenario import BadScenario
from scheduling.lab.files import LARGEST, save, scenario_load


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "R.json"
    save(target, "old")

    def full(path: Path, other: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadScenario, match=r"R\.json: cannot be written \(no space left on device\)"):
        save(target, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["R.json"]
    assert target.read_text() == "old"


def test_a_new_file_has_the_permissions_that_the_caller_grants(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save(tmp_path / "R.json", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "R.json").stat().st_mode) == 0o640


def test_writes_to_what_is_no_file(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        save(Path(f"/dev/fd/{writer}"), "through a pipe")
        assert os.read(reader, 100) == b"through a pipe"
    finally:
        os.close(reader)
        os.close(writer)


def test_refuses_a_file_that_is_far_too_large(tmp_path: Path) -> None:
    path = tmp_path / "S.json"
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)  # a hole: it takes no room on the disk
    with pytest.raises(BadScenario, match="is larger than"):
        scenario_load(path)
