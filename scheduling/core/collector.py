"""Pause Python's search for garbage in cycles while very many objects are made that all stay in use."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_at_work_before: list[bool] = []  # one for each running block of any thread: whether the search was on before the first


@contextmanager
def collector_resting() -> Iterator[None]:
    """Pause the garbage collector inside a `with` block, for steps over thousands of jobs.

    Each of the collector's rounds would walk all of them again, which takes a fifth to a third of the step's time, and
    find nothing. An object that is in no cycle is still freed at once; the others wait until the block has ended. All
    threads share one collector: it is paused until the last of their blocks has ended.
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
