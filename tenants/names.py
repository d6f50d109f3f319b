"""Whether a text can be seen, and how a name stands in a line of text. A name of blanks alone is refused: nobody could
find, say or click it."""

from __future__ import annotations

import unicodedata

UNSEEN_NAME = "A name has at least one character that can be seen."
# Unicode counts these among letters and signs, but nothing is drawn for them: fillers of Hangul and hieroglyphs, the
# empty pattern of Braille, and a note without a head.
_EMPTY = frozenset("\u115f\u1160\u2800\u3164\uffa0\U0001d159\U00013441\U00013442")


def in_one_line(text: str) -> str:
    """Return the text without ends of lines, which names of people and tenants may hold: a head of a mail cannot have
    one, and in its body what follows would look like ours."""
    return " ".join(text.split())


def can_be_seen(sign: str) -> bool:
    """Return whether a character can be seen: it is no blank, control or format character, and no combining mark."""
    return unicodedata.category(sign)[0] not in "CMZ" and sign not in _EMPTY


def is_blank(text: str) -> bool:
    """Return whether the text is empty, or nothing in it can be seen."""
    return not any(can_be_seen(sign) for sign in text)
