"""The commands of a script, in words: as a shell takes lines apart, as far as that is sure without running them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MOST_CHARACTERS = 128 * 1024  # of a script that is looked at
MOST_JOINED = 100  # lines of one command whose quote goes on
SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
INTERPRETERS = (*SHELLS, "Rscript", "julia", "perl", "ruby", "node")
LAUNCHERS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
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
OPTIONS_OF_PYTHON = {"-W", "-X"}  # that have a value behind them
SEPARATORS = frozenset({";", "&", "|", "&&", "||", "(", ")", ";;", "|&"})
WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
HEREDOCS = frozenset({"<<", "<<-"})
_OPERATOR = re.compile(r"&>>|&>|<<<|<<-|<<|<>|>>|>\||>&|<&|\|\||\|&|&&|;;|[;&|()<>]")
PYTHON = re.compile(r"python(3(\.[0-9]+)?)?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
# What a variable is set to before a command; without quotes it ends where the next command may begin. A script is a
# stranger's, and a line of it may have a million characters: so each expression passes over a line a few times, and not
# from each of its places to its end, and each sign is the beginning of one alternative. (Possessive repetitions would
# say it, too; those of Python 3.11.2, which Debian 12 has, match too little.)
_VALUE = r"""(?:"[^"\s]*"|'[^'\s]*'|\$\([^\s()]*\)|\$\{[^\s{}]*\}|\$(?![({])|[^\s;&|({"'$])*"""
_BEGINS_ANOTHER = re.compile(r"\b(?:exec|nohup|timeout|nice|env|xargs|command)\b")
_END = re.compile(r"[;&|]")


@dataclass(frozen=True)
class Word:
    """A word, or an operator of the shell."""

    text: str
    is_operator: bool = False


def unwrapped(words: list[str]) -> list[str]:
    """Without what stands before the command itself. Where that cannot be told from the command, nothing."""
    at, wrapped = 0, False
    while at < len(words):
        word = words[at]
        if word in KEYWORDS or VARIABLE.match(word):
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
    known = program in INTERPRETERS or program in LAUNCHERS or program in UNSURE or PYTHON.fullmatch(program)
    return bool(known) or word.startswith("./")


def without_redirections(command: list[Word]) -> list[str]:
    words, skip = list[str](), False
    for word in command:
        if word.is_operator:
            skip = True
        elif skip:
            skip = False
        else:
            words.append(word.text)
    return words


def simple(words: list[Word]) -> Iterator[list[Word]]:
    """The commands between the separators."""
    command: list[Word] = []
    for word in words:
        if word.is_operator and word.text in SEPARATORS:
            if command:
                yield command
            command = []
        else:
            command.append(word)
    if command:
        yield command


def commands(body: str) -> Iterator[tuple[int, list[Word]]]:
    """The words of each command with its line: lines that belong together are read together, and the texts that a
    command is given behind `<<` are left out. Ends where the script cannot be read."""
    lines = body.split("\n")
    at = 0
    while at < len(lines):
        number, text = at + 1, lines[at]
        at += 1
        words = words_in(text)
        while words is None and at < len(lines) and at - number < MOST_JOINED:
            text = f"{text}\n{lines[at]}"
            at += 1
            words = words_in(text)
        if words is None:
            return
        for end in _ends(words):
            while at < len(lines) and lines[at].lstrip("\t") != end:
                at += 1
            at += 1
        yield number, words


def _ends(words: list[Word]) -> list[str]:
    """The words that end the texts which follow."""
    return [after.text for word, after in pairwise(words) if word.is_operator and word.text in HEREDOCS]


def words_in(text: str) -> list[Word] | None:
    """As a shell takes lines apart; None where a quote or a line goes on."""
    words: list[Word] = []
    word, is_word, at = "", False, 0

    def end() -> None:
        nonlocal word, is_word
        if is_word:
            words.append(Word(word))
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
            words.append(Word(";", is_operator=True))
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
            words.append(Word(match[0], is_operator=True))
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


def before_command(*keywords: str) -> str:
    """An expression for what stands before a command: the line's beginning or the end of another command, or one of
    these words; and variables that are set for it alone."""
    return rf"(?:^|[;&|({{]|\b(?:{'|'.join(keywords)})\s)\s*(?:[A-Za-z_]\w*={_VALUE}\s+)*"


def is_begun_by_another(text: str, program: str) -> bool:
    """Whether a command of the line is begun by another command, which finds programs and no functions of the shell."""
    if program not in text:
        return False
    called = re.compile(rf"\s{program}\s")
    begins = ((command, _BEGINS_ANOTHER.search(command)) for command in _END.split(text))
    return any(another and called.search(command, another.end()) for command, another in begins)
