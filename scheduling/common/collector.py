"""Python's search for garbage in cycles rests while very many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_resting() -> Iterator[None]:
    """For steps over thousands of jobs: each of the collector's rounds would walk all of them again, a fifth to a third
    of the step's time, and find nothing. What is not in a cycle is freed at once as ever; the rest waits until the
    block has ended."""
    was_at_work = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_at_work:
            gc.enable()
