"""Python's search for garbage in cycles rests while very many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_at_work_before: list[bool] = []  # of each block that runs, in whichever thread: whether the search was on before all


@contextmanager
def collector_resting() -> Iterator[None]:
    """For steps over thousands of jobs: each of the collector's rounds would walk all of them again, a fifth to a third
    of the step's time, and find nothing. What is not in a cycle is freed at once as ever; the rest waits until the
    block has ended. It is one search for all threads: it rests until the last of their blocks has ended.
    """
    with _lock:
        _at_work_before.append(_at_work_before[0] if _at_work_before else gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            if _at_work_before.pop() and not _at_work_before:
                gc.enable()
