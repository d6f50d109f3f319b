"""What the launcher reads in a stranger's folder: numbers, and nothing that was put in their place."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from scheduling.engines.launcher.files import Folder, GangRecords
from scheduling.engines.launcher.logbook import Logbook
from scheduling.engines.launcher.program_crew import MOST_KEPT, MOST_NAMES, MOST_READ, ProgramCrew, Spoken, with_devices
from scheduling.engines.launcher.unpack import PROGRESS


@pytest.fixture
def crew(tmp_path: Path) -> ProgramCrew:
    """Of two processes that are not really there."""
    folder = Folder(tmp_path, "job-1", "a" * 32)
    folder.make()
    (folder.work / PROGRESS).mkdir(parents=True)
    programs = ProgramCrew(folder, {}, Logbook(folder.log, 2**20))
    programs.spoken = {("worker", rank): Spoken("worker", rank, f"worker-{rank}.jsonl") for rank in (0, 1)}
    return programs


def says(crew: ProgramCrew, text: str, rank: int = 0) -> dict[str, object]:
    """The facts after it has appended this."""
    with (crew.folder.work / PROGRESS / f"worker-{rank}.jsonl").open("a") as file:
        file.write(text)
    crew.look_now()
    return crew.facts


def rows_of(crew: ProgramCrew) -> list[dict[str, float]]:
    return [row["numbers"] for row in GangRecords(crew.folder.root).progress("job-1", crew.folder.key)]


def test_a_line_counts_when_it_is_whole_and_the_lowest_rank_has_the_word(crew: ProgramCrew) -> None:
    assert says(crew, '{"loss": 3, "of": 9}\n', rank=1)["numbers"] == {"loss": 3, "of": 9}
    assert says(crew, '{"loss": 2}\n{"lo')["numbers"] == {"loss": 2, "of": 9}
    assert says(crew, 'ss": 1}\nnonsense\n') == {"numbers": {"loss": 1, "of": 9}, "bad_lines": 1}
    (crew.folder.work / PROGRESS / "worker-0.jsonl").write_text("")
    assert says(crew, '{"loss": 0.5}\n')["numbers"] == {"loss": 0.5, "of": 9}


def test_a_flood_is_thinned_and_its_newest_line_counts(crew: ProgramCrew) -> None:
    line = '{"step": %d, "padding": 0.123456789}\n'
    facts = says(crew, "".join(line % step for step in range(3 * MOST_READ // len(line))) + line % 10**6)
    assert facts == {"numbers": {"step": 10**6, "padding": 0.123456789}, "bad_lines": 0}
    assert 1 <= len(rows_of(crew)) <= 5


def test_names_without_an_end_have_one(crew: ProgramCrew) -> None:
    lines = (json.dumps({f"n{number}-{name}": 1 for name in range(50)}) + "\n" for number in range(100))
    facts = says(crew, "".join(lines))
    assert isinstance(facts["numbers"], dict)
    assert len(facts["numbers"]) == MOST_NAMES


def test_curves_of_a_long_job_become_coarser_and_stay_small(crew: ProgramCrew, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("time.time", lambda: now)
    gaps, row = [], {"step": 1.0, "padding": 1.0}
    spoken, before = crew.spoken["worker", 0], 0
    for _ in range(400_000):
        now += 1.0
        crew._keep_rows(spoken, (row,))
        if (size := MOST_KEPT - crew._progress_left) != before:
            gaps.append(now)
            before = size
    spans = [later - one for one, later in pairwise(gaps)]
    assert spans[0] == 1.0
    assert spans[-1] > 60.0
    assert crew.folder.progress.stat().st_size <= MOST_KEPT


def test_links_pipes_and_folders_in_place_of_the_file_are_not_read(crew: ProgramCrew, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"secret": 42}\n')
    folder = crew.folder.work / PROGRESS
    place = folder / "worker-0.jsonl"
    for put in (
        lambda: place.symlink_to(secret),
        lambda: os.link(secret, place),
        lambda: os.mkfifo(place),
        place.mkdir,
    ):
        put()
        crew.look_now()
        assert crew.facts == {}
        place.rmdir() if place.is_dir() else place.unlink()
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "worker-0.jsonl").write_text('{"secret": 42}\n')
    folder.symlink_to(tmp_path / "elsewhere")
    crew.look_now()
    assert crew.facts == {}


@pytest.mark.parametrize(
    ("names", "count", "first", "gpus"),
    [("0,3", 2, 0, ("0", "3")), ("GPU-a", 1, 5, ("GPU-a",)), ("", 2, 4, ("4", "5")), ("0", 0, 0, ()), ("", 0, 0, ())],
)
def test_a_member_has_as_many_gpus_as_it_takes_named_by_the_cluster_or_by_number(
    names: str, count: int, first: int, gpus: tuple[str, ...]
) -> None:
    assert with_devices(names, count, first) == gpus
