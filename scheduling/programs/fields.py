"""What is wrong with an answer: a value, by the name of its field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldRefusal:
    """A field that cannot be as it is. `field` is a path, such as `parameters.rate`; `sentence` says what is wrong."""

    field: str
    sentence: str


def shown(text: str, longest: int = 40) -> str:
    """A stranger's text on one line, as it may be repeated in a sentence."""
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return f'"{plain}"' if len(plain) <= longest else f'"{plain[: longest - 3]}..."'


def nearest(word: str, words: Iterable[str]) -> str:
    """The known word that is most like this one; empty where none is."""
    near = difflib.get_close_matches(word, list(words), 1, cutoff=0.5)
    return near[0] if near else ""


def path_of(name: object) -> str:
    """A name that a stranger wrote, as it may stand in a field's path."""
    return shown(str(name))[1:-1] or '""'


def is_kept(text: str) -> bool:
    """Whether a database can keep it as it is: no NUL, and no half of a character."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
