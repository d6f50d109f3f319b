"""A mark for all processes of this machine that a boundary is being decided: a lock on a file, which ends with the
process that holds it. Whoever works where nobody else wants to looks at it and rests (`scheduling.learner.idle`)."""

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
    """Several may be decided at once. The mark is a courtesy: a boundary waits for nobody to make it, and is decided
    without one where the folder may not be written."""
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context(mark_file().open("ab"))
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
