"""Scripts and archives that are written so that whoever reads them computes for very long. Time of the processor is
measured, beside what an honest text of the same length takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from scheduling.programs import sbatch
from scheduling.programs.archives import FILE, HARD_LINK, LINK, LONGEST_NAME, MOST_ENTRIES, ArchiveEntry, refusals
from scheduling.programs.sbatch.beginning import beginning, notes
from scheduling.programs.sbatch.files_missing import FileNames, files_missing
from scheduling.programs.sbatch.steps import steps
from scheduling.programs.sbatch.variables import variables_missing

HEAD = "#!/bin/bash\n"
MOST_SECONDS = 20.0  # each of these takes 3 s or less, and took more than a minute, or hours


def seconds(computes: Callable[[], object]) -> float:
    began = time.process_time()
    computes()
    return time.process_time() - began


def read_whole(text: str) -> None:
    script = sbatch.read(text)
    if isinstance(script, sbatch.Script):
        _ = list(notes(script, 4)), list(steps(script, {})), list(variables_missing(script, 1))
        beginning(script, "job", "INDEX", 1)


@pytest.mark.one_case
@pytest.mark.parametrize(
    "words",
    [";a=x", "exec ", "MASTER_ADDR=x;", ";a=$(", ";a=${;a=$(", ";a=\"x;a='", "do a= ", ";srun -x ", "exec torchrun",
     "#SBATCH --ab\n", "#SBATCH a b c d e f g h\n", "\\\n", "$(", "`", "\"$(", "a=()", "[[ a&&", "case a in ", "in ",
     "if ", "srun -a <<a ", "<<a <<b ", "cat <<a\n", "eval eval ", "bash -c \"bash -c ", "bash -c 'a b' ", "2>", "\n",
     "export A='b c' ", "$x ", "a # b\n", "~/ $SLURM_A /tmp "],
)  # fmt: skip
def test_script_of_a_mebibyte_is_read_in_time(words: str) -> None:
    most = sbatch.MOST_CHARACTERS - len(HEAD)
    text = HEAD + words * (most // len(words))
    assert seconds(lambda: read_whole(text)) < MOST_SECONDS


@pytest.mark.parametrize("command", ["python a{}.py;", "python a{}.py>b{};"])
def test_many_files_are_looked_for_in_time(command: str) -> None:
    script = sbatch.read(HEAD + "".join(command.replace("{}", str(number)) for number in range(6_000)))
    assert isinstance(script, sbatch.Script)
    files = FileNames.of(f"folder{number}/file" for number in range(10_000))
    assert seconds(lambda: list(files_missing(script, files))) < MOST_SECONDS
    assert len(list(files_missing(script, files))) == 6_000


def test_names_of_many_parts_are_looked_at_in_time() -> None:
    deep = "a/" * (LONGEST_NAME // 2 - 10)
    files = [ArchiveEntry(f"{deep}{number}", FILE, 1) for number in range(MOST_ENTRIES)]
    links = [ArchiveEntry(f"{deep}{number}", HARD_LINK, 1, f"{deep}b") for number in range(MOST_ENTRIES)]
    for entries in (files, links):
        assert seconds(lambda entries=entries: refusals(entries)) < MOST_SECONDS  # type: ignore[misc]
        assert refusals(entries) == []
    (long,) = refusals([ArchiveEntry("x", HARD_LINK, 0, "a/" * LONGEST_NAME)])
    assert "too long" in long.sentence


@pytest.mark.parametrize(
    ("name", "target", "refused"),
    [("l/x", "", True), ("l", "", True), ("l2/x", "", False), ("h", "l/x", True), ("h", "m/x", False)],
)
def test_nothing_is_written_through_a_link(name: str, target: str, *, refused: bool) -> None:
    entries = [ArchiveEntry("l", LINK, 0, "m"), ArchiveEntry(name, HARD_LINK if target else FILE, 0, target)]
    assert bool(refusals(entries)) == refused


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("srun python x", True),
        ("A=1 B=$(nproc) srun python", True),
        ("A=${X} srun python", True),
        ('A="b;c" srun python', True),
        ("A='b(c' srun python", True),
        ("cd x; B= srun python", True),
        ("if srun true", True),
        ("echo srun python", False),
    ],
)
def test_variables_before_a_command_are_passed_over(line: str, *, called: bool) -> None:
    script = sbatch.read(HEAD + line)
    assert isinstance(script, sbatch.Script)
    assert [flaw for _, flaw in steps(script, {})] == [""] * called


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("nohup srun python", True),
        ("timeout 5 srun x", True),
        ("nohup x; srun python", False),
        ("srun nohup x", False),
        ("env A=1 mysrun x", False),
    ],
)
def test_command_that_another_begins_is_seen(line: str, *, hidden: bool) -> None:
    script = sbatch.read(HEAD + line)
    assert isinstance(script, sbatch.Script)
    assert any(flaw for _, flaw in steps(script, {})) == hidden
