"""Files that a script runs and that do not come along with it: such as train.py, if only the script is sent.

A script may make or fetch its files by itself, so no file is reported where that is possible: after a line that enters
another folder, copies, fetches or unpacks something, or runs another script, and for a file that the script writes or
tests for. Each report is meant to be right; the reports need not be complete.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.programs.sbatch.commands import WRITING, Command
from scheduling.programs.sbatch.known import INTERPRETERS, LAUNCHERS, OPTIONS_OF_PYTHON, PYTHON, SHELLS, SOURCES, UNSURE
from scheduling.programs.sbatch.launchers import begins_launcher
from scheduling.programs.sbatch.reading import Script

LONGEST_NAME = 1_000  # of a file that is reported
HARMLESS = re.compile(r"(^|/)(activate|profile|conda\.sh|\.?bashrc|\.bash_profile|\.env|modules\.sh|bash)$|^/etc/")
ANYTHING = "./"  # the whole folder, with unknown content
OPTIONS_OF_SHELLS = {"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}
_NAME = re.compile(r"[A-Za-z0-9_./+@%,:=-]+")


@dataclass(frozen=True)
class FileNames:
    """The files that come along with a script: names of files, and of folders with unknown content, which end with a
    slash. `./` means that any file may come along."""

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> FileNames:
        return cls(frozenset(_plain(name) + ("/" if name.endswith("/") else "") for name in names))

    def has(self, name: str) -> bool:
        """Return whether a file or folder of this name comes along."""
        whole = _plain(name)
        within = (f"{whole[:place]}/" for place, sign in enumerate(whole) if sign == "/")
        place = bisect_left(self._in_order, f"{whole}/")
        inside = any(each.startswith(f"{whole}/") for each in self._in_order[place : place + 1])
        return ANYTHING in self.names or whole in self.names or inside or any(each in self.names for each in within)

    @cached_property
    def _in_order(self) -> list[str]:
        return sorted(self.names)


@dataclass
class _Effects:
    """The effects of the commands that were read so far."""

    names: set[str] = field(default_factory=set)  # files that they write or test for
    has_hook: bool = False  # a shell hook, with which `conda` prepares environments
    is_unsure: bool = False  # any file may be there now


def files_missing(script: Script, files: FileNames) -> Iterator[tuple[int, str]]:
    """Yield each file that a command runs and that is missing, once, with the line of the command."""
    if script.options.chdir is not None:
        return
    effects, names = _Effects(), set[str]()
    for command in script.shell.commands:
        if not command.is_own:
            continue
        words = _words(command)
        name = _plain(_run_by(words))
        if _can_be_told(name) and name not in effects.names and name not in names and not files.has(name):
            names.add(name)
            yield command.line, name
        _notice(command, words, effects)
        if effects.is_unsure:
            return


def _words(command: Command) -> Sequence[str]:
    """Return the command's words from the program on that does the work, or that makes it unsure where others work."""
    programs, words = command.programs, command.words
    work = next((each for each in programs if each.name in UNSURE), programs[-1] if programs else None)
    if work is None or (
        work.name[:1] != "$" and "/" in words[work.at] and any(each.name[:1] == "$" for each in programs)
    ):
        return ()  # only a variable says what happens to the file
    return words[work.at :]


def _can_be_told(name: str) -> bool:
    is_name = len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None
    return is_name and not name.startswith(("/", "-")) and name != "."


def _run_by(words: Sequence[str]) -> str:
    """Return the file that a command runs, or an empty text if that is not certain."""
    if not words:
        return ""
    name, rest = words[0], words[1:]
    program = name.rpartition("/")[2]
    if program in LAUNCHERS or begins_launcher(words):
        return next((word for word in rest if word.endswith(".py") and not word.startswith("-")), "")
    if PYTHON.fullmatch(program):
        return _first_of(rest, OPTIONS_OF_PYTHON, none=("-c", "-m", "-"))
    if program in INTERPRETERS:
        return _first_of(rest, OPTIONS_OF_SHELLS if program in SHELLS else set(), none=("-c", "-e", "-s", "-"))
    if name in SOURCES:
        return rest[0] if rest and re.search(r"[./]", rest[0]) else ""
    return name if "/" in name else ""


def _first_of(words: Sequence[str], valued: set[str], *, none: tuple[str, ...]) -> str:
    """Return the first word that is not an option, or an empty text if a word in `none` comes before it. Options in
    `valued` have a value."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[at + 1] if at + 1 < len(words) else ""
        if word in none or (word[:1] == "-" and word[1:2] != "-" and word[-1:] in ("c", "m") and "-c" in none):
            return ""
        if word[:1] not in ("-", "+"):
            return word
        at += 2 if word in valued or (word[:1] in "-+" and word[-1:] == "o" and "-o" in valued) else 1
    return ""


def _notice(command: Command, words: Sequence[str], effects: _Effects) -> None:
    """Note which files the command makes, and whether any file may be there after it."""
    writes = [name for operator, name in command.redirections if operator in WRITING]
    effects.names |= set(map(_plain, writes))
    if not words:
        return
    program = words[0].rpartition("/")[2]
    if program in ("[", "[[", "test", "touch", "tee"):
        effects.names |= {_plain(word) for word in words[1:]}
    to_unknown = program in ("cat", "echo", "printf", "sed", "envsubst") and "$" in "".join(writes)
    runs_script = program in SHELLS or words[0] in SOURCES or ("/" in words[0] and not words[0].startswith("/"))
    if runs_script and not (len(words) > 1 and HARMLESS.search(words[1])):
        effects.is_unsure = True
    effects.has_hook = effects.has_hook or "hook" in words
    hidden = program == "eval" and not effects.has_hook
    effects.is_unsure = effects.is_unsure or program in UNSURE or to_unknown or hidden


def _plain(name: str) -> str:
    """Return the shortest name of the same file."""
    parts: list[str] = []
    for part in name.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if name.startswith("/") else "") + ("/".join(parts) or "." * bool(name))
