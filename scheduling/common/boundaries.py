"""A mark that tells all processes of this machine that a boundary is being decided. It is a lock on a file, which ends
with the process that holds it. Work that must not disturb the market checks it and pauses (`scheduling.learner.idle`).
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from django.conf import settings


def mark_file() -> Path:
    return Path(settings.VAR_DIR) / "boundary.lock"


@contextmanager
def boundary_marked() -> Iterator[None]:
    """Hold the mark while a boundary is decided. Several boundaries may hold it at once. The mark is a courtesy: a
    boundary never waits for it, and is decided without one where the folder is not writable."""
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context(mark_file().open("ab"))
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
