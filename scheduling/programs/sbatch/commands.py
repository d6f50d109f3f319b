"""Commands in a line of a script. A script is a stranger's, and a line of it may have a million characters: so each
expression passes over a line a few times, and not from each of its places to its end."""

from __future__ import annotations

import re

# What a variable is set to before a command; without quotes it ends where the next command may begin.
_VALUE = r"""(?:"[^"\s]*+"|'[^'\s]*+'|\$\([^\s()]*+\)|\$\{[^\s{}]*+\}|[^\s;&|({])*+"""
_OTHERS = re.compile(r"\b(?:exec|nohup|timeout|nice|env|xargs|command)\b")
_END = re.compile(r"[;&|]")


def before_command(*keywords: str) -> str:
    """An expression for what stands before a command: the line's beginning or the end of another command, or one of
    these words; and variables that are set for it alone."""
    return rf"(?:^|[;&|({{]|\b(?:{'|'.join(keywords)})\s)\s*+(?:[A-Za-z_]\w*+={_VALUE}\s++)*+"


def is_begun_by_another(text: str, program: str) -> bool:
    """Whether a command of the line is begun by another command, which finds programs and no functions of the shell."""
    if program not in text:
        return False
    called = re.compile(rf"\s{program}\s")
    found = ((command, _OTHERS.search(command)) for command in _END.split(text))
    return any(other and called.search(command, other.end()) for command, other in found)
