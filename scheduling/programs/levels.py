"""Recognise the level of a line of output, if the line has one in a usual form. Programs need not write one.

These forms are recognised near a line's beginning: a word in capitals ("2026-03-02 12:00:00 ERROR ...", "WARNING:
..."), one in brackets ("[info]"), one before a colon ("warning: ...", "UserWarning: ..."), a named one ("level=warn",
also in JSON), the letter and digits of glog ("E0302 12:00:00"), and the head of a traceback.
"""

from __future__ import annotations

import re

DEBUG, INFO, WARNING, ERROR = LEVELS = ("debug", "info", "warning", "error")  # from the least to the most
NEAR = 120  # characters from the beginning of a line

_WORDS = {
    "trace": DEBUG, "debug": DEBUG, "info": INFO, "notice": INFO, "warn": WARNING, "warning": WARNING, "err": ERROR,
    "error": ERROR, "severe": ERROR, "critical": ERROR, "fatal": ERROR, "panic": ERROR,
}  # fmt: skip
_ANY = "|".join(_WORDS)
_FORMS = re.compile(
    rf"""
      (?:^|[\s\[(<|:-])(?P<capitals>{_ANY.upper()})(?=$|[\s\])>|:,-])
    | [\[<(](?P<bracketed>(?i:{_ANY}))[\])>]
    | (?:^|[\s:])(?P<before>(?i:{_ANY})):(?=\s|$)
    | \b(?i:level|lvl|severity)"?\s*[=:]\s*"?(?P<named>(?i:{_ANY}))\b
    | \b[A-Z]\w*(?P<python>Error|Warning|Exception):\s
    """,
    re.VERBOSE | re.ASCII,
)
_GLOG = re.compile(r"([IWEF])[0-9]{4} [0-9]{2}:[0-9]{2}:", re.ASCII)
_GLOG_LEVELS = {"I": INFO, "W": WARNING, "E": ERROR, "F": ERROR}
# Every line with the level of a warning or an error matches this: a quick test of its bytes, before it is parsed.
GRAVE = re.compile(rb"(?i:warn|err|severe|critical|fatal|panic|exception|traceback)|[WEF][0-9]{4} ")


def level_of(text: str) -> str:
    """Return the level of a line; "" if it has none."""
    head = text[:NEAR]
    if head.startswith("Traceback (most recent call last)"):
        return ERROR
    if glog := _GLOG.match(head):
        return _GLOG_LEVELS[glog[1]]
    match = _FORMS.search(head)
    if match is None:
        return ""
    if ending := match["python"]:
        return WARNING if ending == "Warning" else ERROR
    return _WORDS[(match["capitals"] or match["bracketed"] or match["before"] or match["named"]).lower()]


def at_least(level: str, least: str) -> bool:
    """Return whether a level is at least `least`. A line without a level passes only if `least` is empty."""
    return not least or (bool(level) and LEVELS.index(level) >= LEVELS.index(least))
