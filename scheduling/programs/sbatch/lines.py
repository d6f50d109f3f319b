"""One #SBATCH line: its words, the options in it, and what became of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

UNDERSTOOD, IGNORED, NOT_KEPT = "understood", "ignored", "not_kept"
PREFIX = "#SBATCH"
OURS = "#BOURSE"  # begins lines of our own options, which Slurm reads as comments
QUOTES = re.compile(r"[\"'\\]")


@dataclass(frozen=True)
class OptionLine:
    """What becomes of one option. An option that is `ignored` changes nothing in what is computed; `not_kept` means
    that the script runs, but does not get what the option requests."""

    number: int  # of the line, from 1
    option: str  # as the script names it, such as --nodes; empty for the line as a whole
    verdict: str  # understood | ignored | not_kept
    sentence: str


@dataclass(frozen=True)
class LineRefusal:
    """Why a script is refused: the line, a sentence, and the nearest text that is allowed."""

    line: int
    option: str  # as the script names it; empty for the line as a whole
    sentence: str
    nearest: str = ""


@dataclass(frozen=True)
class OptionText:
    """An option with its value as it is written, or None if it has no value."""

    line: int
    option: str  # as it is written: --nodes or -N
    value: str | None


def words_of(text: str) -> list[str] | None:
    """Return the words of a line as Slurm splits them: by blanks, with quotes and backslashes, up to a # outside of
    quotes, even within a word. Return None if a quote does not end."""
    if not QUOTES.search(text):
        return text.partition("#")[0].split()
    parts: list[str] = []
    word: list[str] | None = None
    quote, at = "", 0
    while at < len(text):
        char = text[at]
        at += 1
        if char in " \t" and not quote:
            if word is not None:
                parts.append("".join(word))
            word = None
            continue
        if char == "#" and not quote:
            break
        word = [] if word is None else word
        if char == quote:
            quote = ""
        elif char in "'\"" and not quote:
            quote = char
        elif char == "\\" and at < len(text) and (not quote or (quote == '"' and text[at] in '"\\')):
            word.append(text[at])
            at += 1
        else:
            word.append(char)
    if quote:
        return None
    return parts if word is None else [*parts, "".join(word)]


def options_in(
    number: int, words: list[str], shorts: Mapping[str, str], flags: frozenset[str]
) -> Iterator[OptionText | str]:
    """Yield the options of a line; a word that belongs to no option is yielded as it is.

    `shorts` maps letters to long names; `flags` are the long names of options that take no value.
    """
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word.partition("=")
            takes = name[2:] not in flags
        elif word.startswith("-") and len(word) > 1 and word[1] != "-":
            name, value = word[:2], word[2:]
            equals = value
            takes = shorts.get(word[1], "") not in flags
        else:
            yield word
            continue
        if equals:
            yield OptionText(number, name, value)
        elif takes and at < len(words) and not _is_option(words[at]):
            yield OptionText(number, name, words[at])
            at += 1
        else:
            yield OptionText(number, name, None)


def _is_option(word: str) -> bool:
    """Return whether a word begins an option and is not the value of the one before: -1 is a value."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()
