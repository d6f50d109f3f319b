"""One #SBATCH line: its words, the options in it, and what came of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

UNDERSTOOD, IGNORED, NOT_KEPT = "understood", "ignored", "not_kept"
PREFIX = "#SBATCH"
OURS = "#BOURSE"  # begins lines that Slurm takes for comments: what no option of sbatch can say
QUOTES = re.compile(r"[\"'\\]")


@dataclass(frozen=True)
class OptionLine:
    """What comes of one option. `ignored` changes nothing in what is computed; `not_kept` is something that the script
    asks for and does not get, though it runs."""

    number: int  # of the line, from 1
    option: str  # as the script names it, such as --nodes; empty: the line as a whole
    verdict: str  # understood | ignored | not_kept
    sentence: str


@dataclass(frozen=True)
class LineRefusal:
    """Why a script cannot be taken: the line, and what is allowed that is nearest to what it says."""

    line: int
    option: str  # as the script names it; empty: the line as a whole
    sentence: str
    nearest: str = ""


@dataclass(frozen=True)
class OptionText:
    """An option with its value as it is written. None: the option stands alone."""

    line: int
    option: str  # as it is written: --nodes or -N
    value: str | None


def words_of(text: str) -> list[str] | None:
    """The words of a line as Slurm parts them: by blanks, with quotes and backslashes, up to a # outside of quotes,
    also one within a word. None where a quote does not end."""
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
    """The options of a line; a word that belongs to none is given as it is.

    `shorts` are long names by their letters; `flags` are the long names of those that take no value.
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
    """Whether a word begins an option and is not the value of the one before: -1 is a value."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()
