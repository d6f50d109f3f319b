"""Work as an account without rights for a while, where we are root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def another_account() -> Iterator[bool]:
    """One without rights, if we are root. Yield whether we are it now."""
    ours = os.geteuid()
    if ours == 0:
        os.seteuid(65_534)
    try:
        yield ours == 0
    finally:
        os.seteuid(ours)
