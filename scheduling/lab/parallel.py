"""Calling one function on many inputs, on all cores. The answers are in the order of the inputs."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import TypeVar

from scheduling.lab.progress import ProgressLine

EVERY = 1.0  # seconds between two reports of progress

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def each(
    function: Callable[[Task], Answer], tasks: Sequence[Task], processes: int, progress: ProgressLine
) -> list[Answer]:
    """Return the function's answer for every task. The function and the tasks are sent to other processes unless one is
    enough."""
    processes = min(processes, len(tasks))
    if processes <= 1:
        return [_reported(function(task), number, len(tasks), progress) for number, task in enumerate(tasks, 1)]
    # Fresh interpreters: a fork would copy whatever threads and locks the caller happens to have.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        try:
            futures = [pool.submit(function, task) for task in tasks]
            pending = set(futures)
            while pending:
                progress(len(tasks) - len(pending), len(tasks))  # also before the first one is done
                _, pending = wait(pending, timeout=EVERY, return_when=FIRST_COMPLETED)
            progress(len(tasks), len(tasks))
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _reported(answer: Answer, done: int, total: int, progress: ProgressLine) -> Answer:
    progress(done, total)
    return answer
