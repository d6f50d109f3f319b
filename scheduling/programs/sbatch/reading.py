"""Reads what a batch script requests, line by line; or why it is refused, with the line and the nearest allowed text.

Slurm reads #SBATCH lines up to the first command. No such line is lost here: each option is understood, ignored, not
kept, or refused, and the reader gets a sentence about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from scheduling.core.names import nearest
from scheduling.programs.fields import shown
from scheduling.programs.ordering import Waited
from scheduling.programs.sbatch.commands import ShellReading, shell_read
from scheduling.programs.sbatch.lines import (
    IGNORED,
    NOT_KEPT,
    OURS,
    PREFIX,
    UNDERSTOOD,
    LineRefusal,
    OptionLine,
    OptionText,
    options_in,
    words_of,
)
from scheduling.programs.sbatch.options import FLAGS, OPTION_NAMES, REFUSED, SHORTS, SUPPORTED
from scheduling.programs.sbatch.options import IGNORED as IGNORED_OPTIONS
from scheduling.programs.sbatch.options import NOT_KEPT as NOT_KEPT_OPTIONS
from scheduling.programs.sbatch.options import OURS as OUR_OPTIONS
from scheduling.programs.sbatch.values import BadValue, Export, Gpus, Nodes, When

MOST_CHARACTERS = 1024**2  # of a script
LONGEST_LINE = 4096  # of a #SBATCH line
MOST_REFUSALS = 100  # reported for one script


@dataclass(frozen=True)
class Options:
    """The values of the options; None for options that no line has. Memory is in mebibytes, time in seconds."""

    job_name: str | None = None
    nodes: Nodes | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    gpus: Gpus | None = None
    gres: Gpus | None = None
    gpus_per_node: Gpus | None = None
    gpus_per_task: Gpus | None = None
    cpus_per_task: int | None = None
    mem: int | None = None
    mem_per_gpu: int | None = None
    time: int | None = None
    array: tuple[int, ...] | None = None
    dependency: tuple[Waited, ...] | None = None
    chdir: str | None = None
    output: str | None = None
    export: Export | None = None
    constraint: tuple[str, ...] | None = None
    nodelist: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    begin: When | None = None
    deadline: When | None = None
    divisible: bool | None = None  # by a #BOURSE line


@dataclass(frozen=True)
class Script:
    """A script that is accepted. `body` is its whole text, which runs as the program `script`. `places` holds the line
    of each field's option, of the last one if there are several."""

    options: Options
    lines: tuple[OptionLine, ...]
    body: str
    places: tuple[tuple[str, int], ...] = ()

    @cached_property
    def shell(self) -> ShellReading:
        return shell_read(self.body)

    @property
    def shell_options(self) -> frozenset[str]:
        """Return the letters of the shell options in the first line, such as e and u."""
        return _shell_options(self.body)

    def place(self, field: str) -> int:
        """Return the line of the field's option, or 0 if there is none."""
        return dict(self.places).get(field, 0)


@dataclass(frozen=True)
class OurWord:
    """A word of a #BOURSE line, which Slurm reads as a comment."""

    line: int
    word: str


@dataclass(frozen=True)
class _Reading:
    """The value of a field, the line of its option, and the index of that line in the report."""

    value: Any
    line: int
    index: int


def read(text: str) -> Script | tuple[LineRefusal, ...]:
    """Return the script, or all reasons why it is refused, in the order of the lines."""
    if problem := _unreadable(text):
        return (problem,)
    lines = [_shell(text)]
    refusals: list[LineRefusal] = []
    readings: dict[str, _Reading] = {}
    for item in _options(text):
        if isinstance(item, LineRefusal):
            refusals.append(item)
        elif isinstance(item, OptionLine):
            lines.append(item)
        elif isinstance(item, OurWord):
            _take_ours(item, readings, lines, refusals)
        else:
            _take(item, readings, lines, refusals)
        if len(refusals) >= MOST_REFUSALS:  # the search for a similar word takes time
            break
    if refusals:
        return tuple(refusals)
    options = Options(**{field: reading.value for field, reading in readings.items()})
    return Script(options, tuple(lines), text, tuple((field, reading.line) for field, reading in readings.items()))


def _unreadable(text: str) -> LineRefusal | None:
    """Return why the text is not a script that could run at all, or None if it is."""
    if len(text) > MOST_CHARACTERS:
        return LineRefusal(1, "", f"is longer than {MOST_CHARACTERS:,} characters")
    if "\0" in text:
        return LineRefusal(text[: text.index("\0")].count("\n") + 1, "", "holds a NUL, which no script can")
    if "\r" in text:
        line = text[: text.index("\r")].count("\n") + 1
        return LineRefusal(line, "", "ends as lines of Windows do, which bash cannot run", "save with Unix line breaks")
    first = text.partition("\n")[0]
    if not first.startswith("#!"):
        return LineRefusal(1, "", f"must begin with #! and a shell, not {shown(first)}", "#!/bin/bash")
    shell = re.fullmatch(r"#!\s*(?:/\S*/)?(?:env\s+)?(bash|sh)((?:\s+(?:-[a-z]+|--login))*)\s*", first)
    if not shell:
        return LineRefusal(1, "", f"must name bash or sh, not {shown(first)}", "#!/bin/bash")
    return None


def _shell(text: str) -> OptionLine:
    """Return what becomes of the first line."""
    options = _shell_options(text)
    if "e" in options:
        return OptionLine(1, "", UNDERSTOOD, "It runs in bash, and the first command that fails ends it.")
    sentence = "It runs in bash, and goes on after a command that fails: with #!/bin/bash -e it would end."
    return OptionLine(1, "", UNDERSTOOD, sentence)


def _shell_options(text: str) -> frozenset[str]:
    words = text.partition("\n")[0].split()
    letters = "".join(word[1:] for word in words if re.fullmatch(r"-[a-z]+", word))
    return frozenset(letters + ("l" if "--login" in words else ""))


def _options(text: str) -> Iterator[OptionText | OurWord | OptionLine | LineRefusal]:
    """Yield the options before the first command, in order. As Slurm does, ignore those after it."""
    head = True
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(rf"{OURS}(\s|\Z)", line):
            yield from _our_words(number, line, head=head)
            continue
        if not line.startswith(PREFIX):
            head = head and (not line.strip() or line.lstrip().startswith("#"))
            if line.startswith("#") and re.match(r"#+\s*SBATCH\b", line):
                yield OptionLine(number, "", IGNORED, f"It is a comment: options begin with {PREFIX} itself.")
            continue
        rest = line[len(PREFIX) :]
        if rest[:1] not in ("", " ", "\t", "-"):  # Slurm needs no blank before an option
            yield OptionLine(number, "", IGNORED, f"It is a comment: a blank follows {PREFIX}.")
        elif not head:
            yield OptionLine(number, "", IGNORED, "It stands behind the first command, where Slurm reads no options.")
        elif len(line) > LONGEST_LINE or not line.replace("\t", " ").isprintable():
            yield LineRefusal(number, "", f"must be at most {LONGEST_LINE:,} printable characters")
        elif (words := words_of(rest)) is None:
            yield LineRefusal(number, "", "has a quote that does not end")
        elif not words:
            yield OptionLine(number, "", IGNORED, "It says nothing.")
        else:
            for item in options_in(number, words, SHORTS, FLAGS):
                if isinstance(item, str):
                    yield LineRefusal(number, "", f"{shown(item)} belongs to no option", f"--{_like(item)}")
                else:
                    yield item


def _our_words(number: int, line: str, *, head: bool) -> Iterator[OurWord | OptionLine | LineRefusal]:
    words = line[len(OURS) :].split()
    if not head:
        yield OptionLine(number, "", IGNORED, "It stands behind the first command, where no options are read.")
    elif len(line) > LONGEST_LINE:
        yield LineRefusal(number, "", f"must be at most {LONGEST_LINE:,} printable characters")
    elif not words:
        yield OptionLine(number, "", IGNORED, "It says nothing.")
    yield from (OurWord(number, word) for word in words if head and len(line) <= LONGEST_LINE)


def _take(
    item: OptionText, readings: dict[str, _Reading], lines: list[OptionLine], refusals: list[LineRefusal]
) -> None:
    """Decide about one option."""
    option_text = item.option
    name = option_text[2:] if option_text.startswith("--") else SHORTS.get(option_text[1], "")
    if name in SUPPORTED:
        if item.value is None:
            refusals.append(LineRefusal(item.line, option_text, f"{option_text} needs a value", f"--{name}="))
            return
        option = SUPPORTED[name]
        value = option.read(item.value)
        if isinstance(value, BadValue):
            refusals.append(
                LineRefusal(item.line, option_text, f"{option_text} {value.sentence}", f"--{name}={value.nearest}")
            )
            return
        _keep(option.field, value, OptionLine(item.line, option_text, UNDERSTOOD, option.meaning), readings, lines)
    elif name in IGNORED_OPTIONS:
        lines.append(OptionLine(item.line, option_text, IGNORED, IGNORED_OPTIONS[name]))
    elif name in NOT_KEPT_OPTIONS:
        lines.append(OptionLine(item.line, option_text, NOT_KEPT, NOT_KEPT_OPTIONS[name]))
    elif name in REFUSED:
        sentence, instead = REFUSED[name]
        refusals.append(LineRefusal(item.line, option_text, f"{option_text} cannot be kept: {sentence}", instead))
    else:
        # A single letter has no nearest option.
        near = nearest(option_text[2:], OPTION_NAMES) if option_text.startswith("--") else ""
        instead = f"--{near}" if near else ""
        refusals.append(LineRefusal(item.line, option_text, f"{shown(option_text)} is no option of sbatch", instead))


def _take_ours(
    item: OurWord, readings: dict[str, _Reading], lines: list[OptionLine], refusals: list[LineRefusal]
) -> None:
    """Decide about a word of a #BOURSE line."""
    if item.word not in OUR_OPTIONS:
        near = nearest(item.word, OUR_OPTIONS) or next(iter(OUR_OPTIONS))
        refusals.append(LineRefusal(item.line, "", f"{shown(item.word)} is no option of {OURS}", near))
        return
    field, value, meaning = OUR_OPTIONS[item.word]
    _keep(field, value, OptionLine(item.line, item.word, UNDERSTOOD, meaning), readings, lines)


def _keep(field: str, value: Any, line: OptionLine, readings: dict[str, _Reading], lines: list[OptionLine]) -> None:
    """Keep the value of an option. It replaces the value of an earlier line, which becomes ignored."""
    if field in readings:
        index = readings[field].index
        sentence = f"Line {line.number} says it again, and the last counts."
        lines[index] = replace(lines[index], verdict=IGNORED, sentence=sentence)
    readings[field] = _Reading(value, line.number, len(lines))
    lines.append(line)


def _like(word: str) -> str:
    return nearest(word.partition("=")[0].lstrip("-"), OPTION_NAMES) or "job-name"
