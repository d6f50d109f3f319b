"""Files that a script runs and that do not come along with it: `python train.py`, where only the script is sent.

A script may have its files made or fetched by itself, so nothing is said where that is possible: from a line on that
goes into another folder, copies, fetches or unpacks something, or runs another script, and of a file that is written
or asked about. What is told is meant to be right each time, and not to be all.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from scheduling.programs.sbatch.reading import Script

MOST_JOINED = 100  # lines of one command whose quote goes on
MOST_CHARACTERS = 128 * 1024  # of a script that is looked at
LONGEST_NAME = 1_000  # of a file that is told
SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
INTERPRETERS = (*SHELLS, "Rscript", "julia", "perl", "ruby", "node")
SOURCES = ("source", ".")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
# Commands that begin another one, which stands behind their options.
WRAPPERS = (
    "srun", "exec", "time", "nohup", "nice", "timeout", "env", "stdbuf", "command", "setsid", "numactl", "taskset",
    "mpirun", "mpiexec", "conda", "mamba", "micromamba", "poetry", "pipenv", "uv",
)  # fmt: skip
KEYWORDS = ("if", "then", "else", "elif", "do", "while", "until", "!", "{")
# After one of these any file may be there, or the script may be elsewhere.
UNSURE = frozenset({
    "cd", "pushd", "popd", "git", "hg", "svn", "wget", "curl", "aria2c", "tar", "unzip", "gunzip", "7z", "cp", "mv",
    "ln", "rsync", "scp", "sftp", "aws", "gsutil", "gcloud", "az", "rclone", "s3cmd", "mc", "hf", "huggingface-cli",
    "kaggle", "dvc", "wandb", "make", "cmake", "ninja", "patch", "install", "chroot", "singularity", "apptainer",
    "docker", "podman", "ssh", "sbatch", "base64", "dd", "split", "xargs", "find", "parallel",
})  # fmt: skip
HARMLESS = re.compile(r"(^|/)(activate|profile|conda\.sh|\.?bashrc|\.bash_profile|\.env|modules\.sh|bash)$|^/etc/")
ANYTHING = "./"  # the whole folder, of which nobody says what is in it
OPTIONS_OF_PYTHON = {"-W", "-X"}  # that have a value behind them
OPTIONS_OF_SHELLS = {"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}
SEPARATORS = frozenset({";", "&", "|", "&&", "||", "(", ")", ";;", "|&"})
REDIRECTIONS = frozenset({">", ">>", ">|", "&>", "&>>", "<", "<>", "<<<", ">&", "<&"})
WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
HEREDOCS = frozenset({"<<", "<<-"})
_OPERATOR = re.compile(r"&>>|&>|<<<|<<-|<<|<>|>>|>\||>&|<&|\|\||\|&|&&|;;|[;&|()<>]")
_PYTHON = re.compile(r"python(3(\.[0-9]+)?)?")
_NAME = re.compile(r"[A-Za-z0-9_./+@%,:=-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


@dataclass(frozen=True)
class Brought:
    """What comes along: names of files, and of folders (with a stroke at their end) of which nobody says what is in
    them. `./`: anything may."""

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> Brought:
        return cls(frozenset(_plain(name) + ("/" if name.endswith("/") else "") for name in names))

    def has(self, name: str) -> bool:
        """The file, or a folder of this name."""
        whole = _plain(name)
        within = (f"{whole[:place]}/" for place, sign in enumerate(whole) if sign == "/")
        place = bisect_left(self._in_order, f"{whole}/")
        inside = any(each.startswith(f"{whole}/") for each in self._in_order[place : place + 1])
        return ANYTHING in self.names or whole in self.names or inside or any(each in self.names for each in within)

    @cached_property
    def _in_order(self) -> list[str]:
        return sorted(self.names)


@dataclass
class _Seen:
    """What of a script was read so far."""

    made: set[str] = field(default_factory=set)  # names that it writes, or asks about
    is_unsure: bool = False


@dataclass(frozen=True)
class _Word:
    """A word, or an operator of the shell."""

    text: str
    is_operator: bool = False


def files_missing(script: Script, brought: Brought) -> Iterator[tuple[int, str]]:
    """Each file once that a command runs and that is not there, with the line of the command."""
    if script.options.chdir is not None or len(script.body) > MOST_CHARACTERS:
        return
    seen, told = _Seen(), set[str]()
    for number, words in _commands(script.body):
        for command in _simple(words):
            name = _plain(_run_by(command))
            if _can_be_told(name) and name not in seen.made and name not in told and not brought.has(name):
                told.add(name)
                yield number, name
            _notice(command, seen)
            if seen.is_unsure:
                return


def _can_be_told(name: str) -> bool:
    is_name = len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None
    return is_name and not name.startswith(("/", "-")) and name != "."


def _run_by(command: list[_Word]) -> str:
    """The file that a simple command runs; empty where it names none that is sure."""
    words = _unwrapped(_without_redirections(command))
    if not words:
        return ""
    name, rest = words[0], words[1:]
    program = name.rpartition("/")[2]
    if _PYTHON.fullmatch(program):
        return _first_of(rest, OPTIONS_OF_PYTHON, none=("-c", "-m", "-"))
    if program in INTERPRETERS:
        return _first_of(rest, OPTIONS_OF_SHELLS if program in SHELLS else set(), none=("-c", "-e", "-s", "-"))
    if program in LAUNCHERS:
        return next((word for word in rest if word.endswith(".py") and not word.startswith("-")), "")
    if name in SOURCES:
        return rest[0] if rest and re.search(r"[./]", rest[0]) else ""
    return name if "/" in name else ""


def _first_of(words: list[str], valued: set[str], *, none: tuple[str, ...]) -> str:
    """The first word that is no option."""
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


def _unwrapped(words: list[str]) -> list[str]:
    """Without what stands before the command itself. Where that cannot be told from the command, nothing."""
    at, wrapped = 0, False
    while at < len(words):
        word = words[at]
        if word in KEYWORDS or _VARIABLE.match(word):
            at += 1
        elif word in WRAPPERS:
            at, wrapped = at + 1, True
        elif wrapped and _begins_command(word):
            return words[at:]
        elif wrapped:
            at += 1  # an option of the wrapper, or its value
        else:
            return words[at:]
    return []


def _begins_command(word: str) -> bool:
    program = word.rpartition("/")[2]
    known = program in INTERPRETERS or program in LAUNCHERS or program in UNSURE or _PYTHON.fullmatch(program)
    return bool(known) or word.startswith("./")


def _notice(command: list[_Word], seen: _Seen) -> None:
    """What the command makes, and whether anything may be there after it."""
    texts = [word.text for word in command]
    for place, word in enumerate(command[:-1]):
        if word.is_operator and word.text in WRITING:
            seen.made.add(_plain(texts[place + 1]))
    words = _unwrapped(_without_redirections(command))
    if not words:
        return
    program = words[0].rpartition("/")[2]
    if program in ("[", "[[", "test", "touch", "tee"):
        seen.made |= {_plain(word) for word in words[1:]}
    writes = any(word.is_operator and word.text in WRITING for word in command)
    to_unknown = writes and program in ("cat", "echo", "printf", "sed", "envsubst") and "$" in "".join(texts)
    runs_script = program in SHELLS or words[0] in SOURCES or ("/" in words[0] and not words[0].startswith("/"))
    if runs_script and not (len(words) > 1 and HARMLESS.search(words[1])):
        seen.is_unsure = True
    hidden = program == "eval" and "hook" not in " ".join(words)  # as environments are made ready by `conda`
    seen.is_unsure = seen.is_unsure or program in UNSURE or to_unknown or hidden


def _without_redirections(command: list[_Word]) -> list[str]:
    words, skip = list[str](), False
    for word in command:
        if word.is_operator:
            skip = True
        elif skip:
            skip = False
        else:
            words.append(word.text)
    return words


def _simple(words: list[_Word]) -> Iterator[list[_Word]]:
    """The commands between the separators."""
    command: list[_Word] = []
    for word in words:
        if word.is_operator and word.text in SEPARATORS:
            if command:
                yield command
            command = []
        else:
            command.append(word)
    if command:
        yield command


def _commands(body: str) -> Iterator[tuple[int, list[_Word]]]:
    """The words of each command with its line: lines that belong together are read together, and the texts that a
    command is given behind `<<` are left out. Ends where the script cannot be read."""
    lines = body.split("\n")
    at = 0
    while at < len(lines):
        number, text = at + 1, lines[at]
        at += 1
        words = _words(text)
        while words is None and at < len(lines) and at - number < MOST_JOINED:
            text = f"{text}\n{lines[at]}"
            at += 1
            words = _words(text)
        if words is None:
            return
        for end in _ends(words):
            while at < len(lines) and lines[at].lstrip("\t") != end:
                at += 1
            at += 1
        yield number, words


def _ends(words: list[_Word]) -> list[str]:
    """The words that end the texts which follow."""
    return [after.text for word, after in pairwise(words) if word.is_operator and word.text in HEREDOCS]


def _words(text: str) -> list[_Word] | None:
    """As a shell takes lines apart; None where a quote or a line goes on."""
    words: list[_Word] = []
    word, is_word, at = "", False, 0

    def end() -> None:
        nonlocal word, is_word
        if is_word:
            words.append(_Word(word))
        word, is_word = "", False

    while at < len(text):
        sign = text[at]
        if sign == "\\":
            if at + 1 == len(text):
                return None
            if text[at + 1] != "\n":
                word, is_word = word + text[at + 1], True
            at += 2
        elif sign in "'\"`":
            close = _close(text, at)
            if close < 0:
                return None
            kept = text[at + 1 : close] if sign != "`" else "$"  # what a command says is not known
            word, is_word, at = word + kept, True, close + 1
        elif sign == "#" and not is_word:
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif sign == "\n":
            end()
            words.append(_Word(";", is_operator=True))
            at += 1
        elif sign.isspace():
            end()
            at += 1
        elif inner := _inner(text, at, word):
            close = text.find(inner, at)
            if close < 0:
                return None
            word, is_word, at = f"{word}$", True, close + len(inner)
        elif match := _OPERATOR.match(text, at):
            if match[0][:1] in "<>" and word.isdigit():  # 2>errors
                word, is_word = "", False
            end()
            words.append(_Word(match[0], is_operator=True))
            at = match.end()
        else:
            word, is_word, at = word + sign, True, at + 1
    end()
    return words


def _inner(text: str, at: int, word: str) -> str:
    """What ends something that begins here and holds no commands: a variable, a sum, the words of an array."""
    if text.startswith("${", at):
        return "}"
    if text.startswith(("((", "$(("), at):
        return "))"
    return ")" if text[at] == "(" and word.endswith("=") else ""


def _close(text: str, begin: int) -> int:
    """The place of the quote that ends the one at `begin`; below 0 where none does."""
    quote, at = text[begin], begin + 1
    while at < len(text):
        if text[at] == quote:
            return at
        at += 2 if text[at] == "\\" and quote != "'" else 1
    return -1


def _plain(name: str) -> str:
    """The same file by its shortest name."""
    parts: list[str] = []
    for part in name.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if name.startswith("/") else "") + ("/".join(parts) or "." * bool(name))
