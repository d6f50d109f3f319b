"""Programs of the catalogue: what a version may say, the words of a command, archives, and refusals by field."""

from __future__ import annotations

import re
from time import process_time
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from scheduling.programs import archives, catalogue
from scheduling.programs.archives import ArchiveEntry
from scheduling.programs.catalogue import Program, ProgramOwner, edit, read, values_of, words_of
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.parameters import read_values
from scheduling.programs.templates import TEMPLATES

OPERATOR = ProgramOwner()
TRAIN: dict[str, Any] = {
    "name": "train",
    "shape": "all_reduce",
    "command": ["python3", "train.py", "--rate={rate}", "{data}", "--deep={deep}", '{"a": 1}'],
    "parameters": [
        {"name": "rate", "kind": "number", "default": 0.1, "least": 0, "most": 1, "unit": "per step"},
        {"name": "data", "kind": "text", "default": "small", "longest": 20},
        {"name": "deep", "kind": "switch", "default": False},
        {"name": "steps", "kind": "whole", "default": 10, "least": 1},
        {"name": "model", "kind": "choice", "default": "a", "choices": ["a", "b"]},
    ],
}


def program(**fields: Any) -> Program:
    answer = read(TRAIN | fields, OPERATOR)
    assert isinstance(answer, Program), answer
    return answer


def fields_refused(document: dict[str, Any]) -> list[str]:
    refusals = read(document, OPERATOR)
    assert isinstance(refusals, tuple), refusals
    assert all(isinstance(each, FieldRefusal) and each.sentence for each in refusals)
    return [each.field for each in refusals]


def test_a_document_says_a_version_and_defaults_are_filled_in() -> None:
    train = program()
    assert (train.name, train.version, train.resize, train.grace_seconds) == ("train", 1, "none", 30)
    assert [each.name for each in train.parameters] == ["rate", "data", "deep", "steps", "model"]
    assert train.limits == catalogue.UnitLimits()


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_is_a_program(name: str) -> None:
    template = read(TEMPLATES[name], OPERATOR)
    assert isinstance(template, Program), template
    assert template.name == name
    values = values_of(template, {})
    assert isinstance(values, dict)
    assert words_of(template, values, "/job/run.sh")[0] in ("python3", "bash")


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": "Train"}, ["name"]),
    ({"name": "../up"}, ["name"]),
    ({"name": None}, ["name"]),
    ({"colour": "red"}, ["colour"]),
    ({"shape": "ring"}, ["shape"]),
    ({"title": "a\x1b[2J"}, ["title"]),
    ({"command": "python3 train.py"}, ["command"]),
    ({"command": []}, ["command"]),
    ({"command": ["python3", 3]}, ["command[1]"]),
    ({"command": ["python3", "a\0b"]}, ["command[1]"]),
    ({"command": ["{data}", "x"]}, ["command[0]"]),
    ({"command": ["python3", "{dat}"]}, ["command[1]"]),
    ({"command": ["x"] * 201}, ["command"]),
    ({"script": "ls\n"}, ["command"]),
    ({"command": None, "script": "ls\r\n"}, ["script"]),
    ({"image": "a\nb"}, ["image"]),
    ({"modules": ["cuda/12.1", "a b"]}, ["modules"]),
    ({"environment": {"A=B": "1"}}, ["environment.A=B"]),
    ({"environment": {"RANK": "0"}}, ["environment.RANK"]),
    ({"environment": {"BOURSE_JOB": "0"}}, ["environment.BOURSE_JOB"]),
    ({"environment": {"A": 1}}, ["environment.A"]),
    ({"environment": {"A": "1"}, "secrets": {"A": "token"}}, ["secrets.A"]),
    ({"secrets": {"TOKEN": "sk-Value With Blanks"}}, ["secrets.TOKEN"]),
    ({"archive": "train.tar.gz"}, ["archive"]),
    ({"processes_per_worker": 4}, ["processes_per_worker"]),
    ({"processes_per_worker": "each_gpu", "shape": "parameter_server"}, ["processes_per_worker"]),
    ({"resize": "live"}, ["resize"]),
    ({"grace_seconds": 0}, ["grace_seconds"]),
    ({"grace_seconds": True}, ["grace_seconds"]),
    ({"limits": {"memory_mebibytes": 0, "files": 3}}, ["limits.files", "limits.memory_mebibytes"]),
    ({"parameters": [*TRAIN["parameters"], TRAIN["parameters"][0]]}, ["parameters[5].name"]),
    ({"parameters": {}, "command": ["ls"]}, []),
]


@pytest.mark.parametrize(("change", "fields"), WRONG, ids=[str(change)[:60] for change, _ in WRONG])
def test_what_cannot_be_is_refused_by_its_field(change: dict[str, Any], fields: list[str]) -> None:
    if fields:
        assert fields_refused(TRAIN | change) == fields
    else:
        assert isinstance(read(TRAIN | change, OPERATOR), Program)


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert set(fields_refused({})) == {"name", "shape", "command"}


PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "number", "default": "many"}, "default"),
    ({"kind": "number", "default": 3, "most": 2}, "default"),
    ({"kind": "number", "default": float("nan")}, "default"),
    ({"kind": "number"}, "default"),
    ({"kind": "number", "default": 1, "least": 3, "most": 2}, "least"),
    ({"kind": "choice", "default": "a"}, "choices"),
    ({"kind": "choice", "default": "c", "choices": ["a", "b"]}, "default"),
    ({"kind": "choice", "default": "a", "choices": ["a", "a"]}, "choices"),
    ({"kind": "text", "default": "A", "pattern": "[a-z]+"}, "default"),
    ({"kind": "text", "default": "a", "pattern": "(a+)+"}, "pattern"),
    ({"kind": "text", "default": "a", "pattern": "(?=a)a"}, "pattern"),
    ({"kind": "text", "default": "a", "pattern": "a?a?a?a?a"}, "pattern"),
    ({"kind": "text", "default": "a", "pattern": "[a"}, "pattern"),
    ({"kind": "text", "default": "a", "pattern": "a+", "longest": 1000}, "pattern"),
    ({"kind": "text", "default": "a", "longest": 0.5}, "longest"),
    ({"kind": "switch", "default": "maybe"}, "default"),
    ({"kind": "file", "default": "a"}, "kind"),
    ({"kind": "text", "default": "a", "colour": "red"}, "colour"),
    ({"name": "Rate", "kind": "whole", "default": 1}, "name"),
]


@pytest.mark.parametrize(("row", "field"), PARAMETERS, ids=[str(row)[:60] for row, _ in PARAMETERS])
def test_a_parameter_that_cannot_be_is_refused_by_its_field(row: dict[str, Any], field: str) -> None:
    assert fields_refused(TRAIN | {"command": ["ls"], "parameters": [{"name": "p"} | row]}) == [
        f"parameters[0].{field}"
    ]


def test_no_pattern_that_is_taken_keeps_a_process_busy() -> None:
    """The worst that three repetitions can do, on the longest text."""
    worst = TRAIN | {"command": ["ls"], "parameters": [
        {"name": "p", "kind": "text", "default": "b", "pattern": "a*a*a*b"},
    ]}  # fmt: skip
    answer = read(worst, OPERATOR)
    assert isinstance(answer, Program)
    begin = process_time()
    assert isinstance(read_values(answer.parameters, {"p": "a" * 200}), tuple)
    assert process_time() - begin < 10.0  # a tenth of a second; minutes, where repetitions multiply


def test_values_take_their_types_and_what_is_missing_has_its_default() -> None:
    values = values_of(program(), {"rate": "0.5", "steps": "7", "deep": "on", "model": "b"})
    assert values == {"rate": 0.5, "steps": 7, "deep": True, "model": "b", "data": "small"}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"rate": "fast"}, "rate"),
        ({"rate": "nan"}, "rate"),
        ({"rate": 2}, "rate"),
        ({"steps": 0.5}, "steps"),
        ({"steps": "1_0"}, "steps"),
        ({"steps": True}, "steps"),
        ({"deep": 1}, "deep"),
        ({"model": "c"}, "model"),
        ({"data": "x" * 21}, "data"),
        ({"data": "a\nb"}, "data"),
        ({"data": "--help"}, "data"),
        ({"speed": 1}, "speed"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_field(values: dict[str, Any], field: str) -> None:
    refusals = values_of(program(), values)
    assert isinstance(refusals, tuple)
    assert [each.field for each in refusals] == [f"parameters.{field}"]


@settings(max_examples=300, deadline=None, database=None)
@seed(31)
@given(st.text(max_size=20), st.floats(0, 1))
def test_a_value_stays_inside_its_word_whatever_is_in_it(text: str, rate: float) -> None:
    train = program()
    values = values_of(train, {"data": text, "rate": rate})
    if isinstance(values, tuple):
        assert not text.isprintable() or text.startswith("-")
        return
    words = words_of(train, values, "")
    assert words == ("python3", "train.py", f"--rate={rate}", text, "--deep=false", '{"a": 1}')


def test_a_text_that_names_a_parameter_is_not_read_again() -> None:
    train = program()
    values = values_of(train, {"data": "{rate} $(id) `id`"})
    assert isinstance(values, dict)
    assert words_of(train, values, "")[3] == "{rate} $(id) `id`"


def test_a_script_is_started_as_a_file_and_its_text_is_never_filled_in() -> None:
    train = program(command=None, script='echo "{data}"\n')
    assert words_of(train, {"data": "$(id)"}, "/job/run.sh") == ("bash", "-eu", "/job/run.sh")
    assert train.script == 'echo "{data}"\n'


def test_an_edit_makes_the_next_version_and_no_change_makes_none() -> None:
    before = program()
    assert edit(before, TRAIN) is before
    after = edit(before, TRAIN | {"title": "Better"})
    assert isinstance(after, Program)
    assert (after.version, after.title, before.title) == (2, "Better", "")
    assert after.digest != before.digest
    renamed = edit(before, TRAIN | {"name": "other"})
    assert isinstance(renamed, tuple)
    assert [each.field for each in renamed] == ["name"]
    assert isinstance(edit(before, {}), tuple)


def test_a_program_ends_within_a_slot() -> None:
    assert program().grace_in(10.0) == 10.0
    assert program(grace_seconds=120).grace_in(300.0) == 120.0


# ---- archives

BAD_ENTRIES: list[tuple[list[ArchiveEntry], str]] = [
    ([ArchiveEntry("/etc/passwd", "file")], "is absolute"),
    ([ArchiveEntry("a/../../b", "file")], "leaves the folder"),
    ([ArchiveEntry("..", "folder")], "leaves the folder"),
    ([ArchiveEntry("dev", "other")], "is a device"),
    ([ArchiveEntry("a", "link", target="/etc")], "absolute"),
    ([ArchiveEntry("a/b", "link", target="../../etc")], "leaves the folder"),
    ([ArchiveEntry("a/b", "hard_link", target="../etc")], "leaves the folder"),
    ([ArchiveEntry("a", "link", target="b"), ArchiveEntry("a/x", "file")], "goes through a link"),
    ([ArchiveEntry("a", "link", target="b"), ArchiveEntry("a", "file")], "goes through a link"),
    ([ArchiveEntry("a", "link", target="b"), ArchiveEntry("c", "hard_link", target="a/x")], "through a link"),
    ([ArchiveEntry("a\0b", "file")], "is no name"),
    ([ArchiveEntry("", "file")], "is no name"),
    ([ArchiveEntry("a", "file", size=300 * 1024**2)], "is larger than 200 MiB"),
]


@pytest.mark.parametrize(("entries", "sentence"), BAD_ENTRIES, ids=[str(case[0][-1])[:50] for case in BAD_ENTRIES])
def test_an_archive_that_could_leave_its_folder_is_refused_with_the_entry(
    entries: list[ArchiveEntry], sentence: str
) -> None:
    (refusal,) = archives.refusals(entries)
    assert refusal.field == "archive"
    assert sentence in refusal.sentence


def test_an_archive_of_plain_files_and_links_inside_is_fine() -> None:
    entries = [
        ArchiveEntry("train.py", "file", 10), ArchiveEntry("data/", "folder"), ArchiveEntry("data/x", "file", 5),
        ArchiveEntry("data/link", "link", target="../train.py"), ArchiveEntry("./copy", "hard_link", target="train.py"),
    ]  # fmt: skip
    assert archives.refusals(entries) == []
    (many,) = archives.refusals(ArchiveEntry(f"f{k}", "file") for k in range(20_000))
    assert "10,000 entries" in many.sentence


def test_names_in_refusals_cannot_write_on_a_terminal() -> None:
    (refusal,) = archives.refusals([ArchiveEntry("/\x1b[2J\n", "file")])
    assert refusal.sentence.isprintable()
    assert re.search(r"\\x1b", refusal.sentence)
