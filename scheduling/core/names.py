"""Names in documents that people write: which known name an unknown one is like, and which name stands twice.

Scenario files, descriptions of jobs and bodies of the interface are all refused by these two. What is said about the
name is said where it is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

MOST_LETTERS = 100  # of a name that is compared: a longer one is like none of ours, and would take long


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the known name that is most like this one; "" if none is like it."""
    near = difflib.get_close_matches(name, list(names), 1) if len(name) <= MOST_LETTERS else []
    return near[0] if near else ""


def doubled_name(pairs: Sequence[tuple[str, object]]) -> str:
    """Return the first name that stands twice. Each name is compared once only."""
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            return name
        names.add(name)
    raise ValueError("no name stands twice")
