"""Say what is wrong with a description, by the field that is wrong, and show untrusted text safely in sentences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldRefusal:
    """A field whose value is refused. `field` is a path, such as `parameters.rate`; `sentence` says what is wrong."""

    field: str
    sentence: str


def shown(text: str, longest: int = 40) -> str:
    """Return an untrusted text on one line, so that it can be quoted in a sentence."""
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return f'"{plain}"' if len(plain) <= longest else f'"{plain[: longest - 3]}..."'


def path_of(name: object) -> str:
    """Return an untrusted name so that it can be part of a field's path."""
    return shown(str(name))[1:-1] or '""'


def is_kept(text: str) -> bool:
    """Return whether the database can store the text as it is: it has no NUL, and no half of a character."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
