"""Whether anything of a text can be seen. A name of blanks alone is none: nobody finds, says or clicks it."""

from __future__ import annotations

import unicodedata

UNSEEN_NAME = "A name has at least one character that can be seen."
# Unicode counts these among letters and signs, and draws nothing for them: fillers of Hangul and hieroglyphs, the empty
# pattern of Braille, and a note without a head.
_EMPTY = frozenset("\u115f\u1160\u2800\u3164\uffa0\U0001d159\U00013441\U00013442")


def can_be_seen(sign: str) -> bool:
    """Of one character: neither a blank, nor a control or format character, nor a mark without a letter to stand on."""
    return unicodedata.category(sign)[0] not in "CMZ" and sign not in _EMPTY


def is_blank(text: str) -> bool:
    """Whether it is empty, or nothing of it can be seen."""
    return not any(can_be_seen(sign) for sign in text)
