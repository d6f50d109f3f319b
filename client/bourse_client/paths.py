"""Read paths of a job's files as the interface writes them: a character that is not printable is \\xNN, a backslash
two."""

from __future__ import annotations

import os
import re

_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(\\))|([^\\]+)", re.DOTALL)


class BadPath(Exception):
    """A path that cannot be used here. The text is a sentence."""


def local_parts(text: str) -> list[str]:
    """Return the parts of a path, which stays below whatever folder it is put into. Raises `BadPath` for any other
    path: a server is not trusted to say where on this machine something is written."""
    line, raw, at = text.encode("utf-8", "surrogateescape"), bytearray(), 0
    while at < len(line):
        if (match := _ESCAPED.match(line, at)) is None:
            raise BadPath("it is no path of a job's file.")
        raw += bytes.fromhex(match[1].decode()) if match[1] else match[2] or match[3]
        at = match.end()
    parts = [os.fsdecode(part) for part in bytes(raw).split(b"/")]
    separators = {os.sep, os.altsep or os.sep, "\0"} | ({":"} if os.name == "nt" else set())
    if any(part in ("", ".", "..") or separators & set(part) for part in parts):
        raise BadPath("it leads out of its folder, and is not written here.")
    return parts
