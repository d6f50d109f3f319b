"""Whether a text can be seen, and how a name stands in a line of text. A name of blanks alone is refused: nobody could
find, say or click it. So is one with characters that change how the text around it is read: it would look like another.
Names from before that rule are kept."""

from __future__ import annotations

import re
import unicodedata

UNSEEN_NAME = "A name has at least one character that can be seen."
UNPRINTABLE_NAME = "A name has no control or format characters, such as one that turns the direction of what follows."
# Unicode counts these among letters and signs, but nothing is drawn for them: fillers of Hangul and hieroglyphs, the
# empty pattern of Braille, and a note without a head.
_EMPTY = frozenset("\u115f\u1160\u2800\u3164\uffa0\U0001d159\U00013441\U00013442")


def _arabic(form: str) -> str:
    """Return the letters of the Arabic script that have this form, by Unicode's table of forms."""
    forms = [unicodedata.decomposition(chr(code)).split() for code in range(0xFB50, 0xFEFD)]
    return "".join(chr(int(each[1], 16)) for each in forms if len(each) == 2 and each[0] == f"<{form}>")


# The zero-width non-joiner where it can be seen: between a letter that would join the next one, and one that would be
# joined. Anywhere else the name would look like the one without it. Indic scripts have no such rule: there the font
# decides whether it is seen, and the joiner, too.
_PARTS_LETTERS = re.compile(f"(?<=[{_arabic('medial')}])\u200c(?=[{_arabic('final')}])")


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


def name_flaw(name: str) -> str:
    """Return why nobody may have this name from now on, or an empty text. Names of jobs have the same rule, but for the
    sign between letters that Persian has."""
    if is_blank(name):
        return UNSEEN_NAME
    return "" if _PARTS_LETTERS.sub("", name).isprintable() else UNPRINTABLE_NAME


def in_printable(text: str) -> str:
    """Return the text in one line, without what a name may not have: for names that come from another system, whose
    bearers cannot change them here."""
    line = in_one_line(text)
    return "".join(sign for at, sign in enumerate(line) if sign.isprintable() or _PARTS_LETTERS.match(line, at))
