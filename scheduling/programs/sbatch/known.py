"""The commands that are known by name: one table for all questions about a script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
INTERPRETERS = (*SHELLS, "Rscript", "julia", "perl", "ruby", "node")
LAUNCHERS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
MODULES = ("module", "ml")
SOURCES = ("source", ".")
# Commands that start another one, given after their options. Only after the first two it may be a shell function.
OF_SHELL = ("srun", "time")
WRAPPERS = (
    *OF_SHELL, "exec", "nohup", "nice", "timeout", "env", "stdbuf", "command", "setsid", "numactl", "taskset",
    "mpirun", "mpiexec", "conda", "mamba", "micromamba", "poetry", "pipenv", "uv", "xargs", "parallel",
)  # fmt: skip
KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "function", "coproc"})
SETTING = ("export", "declare", "typeset", "local", "readonly", "env")  # set variables by the words after them
READING_WORDS = ("eval", "trap", "parallel")  # read their words as commands
# They ask or order something of Slurm, which hears nothing of a program.
ORDERS = ("sbatch", "salloc", "scancel", "squeue", "sinfo", "sacct", "sstat", "sprio", "sattach", "sbcast")
# After one of these any file may exist, or the script may be in another folder.
UNSURE = frozenset({
    "cd", "pushd", "popd", "git", "hg", "svn", "wget", "curl", "aria2c", "tar", "unzip", "gunzip", "7z", "cp", "mv",
    "ln", "rsync", "scp", "sftp", "aws", "gsutil", "gcloud", "az", "rclone", "s3cmd", "mc", "hf", "huggingface-cli",
    "kaggle", "dvc", "wandb", "make", "cmake", "ninja", "patch", "install", "chroot", "singularity", "apptainer",
    "docker", "podman", "ssh", "sbatch", "base64", "dd", "split", "xargs", "find", "parallel",
})  # fmt: skip
PROGRAMS = UNSURE | {*INTERPRETERS, *LAUNCHERS, *MODULES, *WRAPPERS, *READING_WORDS, *ORDERS, "scontrol"}
PYTHON = re.compile(r"python(3(\.[0-9]+)?)?")
OPTIONS_OF_PYTHON = {"-W", "-X"}  # options with a value after them
VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=")
OPERAND = re.compile(r"-|[0-9]|run$|exec$|[A-Za-z_][A-Za-z0-9_]*=")  # words of a wrapper before the command


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A program that a command starts. `at` is its index among the words. `hidden` is the word that keeps the shell
    from calling a function of that name, or empty."""

    name: str
    at: int
    hidden: str


def programs(words: Sequence[str]) -> Iterator[ProgramCall]:
    """Yield each program that a command starts, each started by the one before: `timeout`, `srun` and `python`. The
    value of a variable may start another one."""
    at, hidden = 0, ""
    while at < len(words):
        word = words[at]
        if word in KEYWORDS or VARIABLE.match(word):
            at += 2 if word == "function" else 1
            continue
        name = word.rpartition("/")[2]
        yield ProgramCall(name, at, hidden or (word if name != word else ""))
        is_variable, at = word[:1] == "$", at + 1
        if not (is_variable or name in WRAPPERS) or (name == "command" and words[at : at + 1] in (["-v"], ["-V"])):
            return
        hidden = hidden or ("" if is_variable or word in OF_SHELL else word)
        while at < len(words) and not is_program(words[at]) and (words[at - 1][:1] == "-" or OPERAND.match(words[at])):
            at += 1


def is_program(word: str) -> bool:
    name = word.rpartition("/")[2]
    return name in PROGRAMS or PYTHON.fullmatch(name) is not None or word.startswith(("./", "$"))


def variables_set(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each variable that a command sets, with its value."""
    sets, setter = True, ""  # before the command's name, and after a command that sets variables
    for word in words:
        if sets and (match := VARIABLE.match(word)):
            yield match[1], word[match.end() :]
        elif word in SETTING:
            sets, setter = True, word
        elif word not in KEYWORDS and word[:1] != "-":
            sets = setter not in ("", "env")
