"""The GPUs of one machine without a cluster: a gang takes those that it needs when it starts, each by a lock.

The kernel gives a lock back when the process ends that took it. So a GPU has one gang at a time, whoever was killed,
and also where a gang ends later than it should.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scheduling.engines.launcher.confine import DEVICES_FOLDER

# A program that got GPUs uses them through these devices, and networks that reach them directly.
DEVICES_BEGIN = ("nvidia", "kfd", "dri", "infiniband")
DRIVER = "nvidia"
FOLDER = "gpus"  # below the engine's folder, with a lock for each GPU
_OF_ONE = re.compile(DRIVER + r"\d+")  # a device of one GPU; the driver's other devices belong to all GPUs together


class Gpu(NamedTuple):
    """`name` is the one that programs are told, and `file` the name of its device below /dev."""

    name: str
    file: str


class TakenGpus:
    """The GPUs that a gang has, out of those of the machine that are for jobs. Their locks are files in `folder`."""

    def __init__(self, folder: Path, machine: Sequence[Gpu]) -> None:
        self._folder, self._machine = folder, machine
        self._locks: dict[Gpu, int] = {}  # the open files whose locks we hold

    def take(self, count: int) -> bool:
        """Take so many, all or none of them, and return whether they could be had."""
        self.give_back()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for gpu in self._machine:
            if len(self._locks) == count:
                break
            lock = os.open(self._folder / gpu.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._locks[gpu] = lock
            except BlockingIOError:
                os.close(lock)
        if len(self._locks) < count:
            self.give_back()
            return False
        return True

    def give_back(self) -> None:
        """Give all of them back."""
        for lock in self._locks.values():
            os.close(lock)
        self._locks.clear()

    @property
    def names(self) -> list[str]:
        return [gpu.name for gpu in self._machine if gpu in self._locks]

    @property
    def files(self) -> list[str]:
        """The devices that the gang may open: those of its own GPUs, and those that belong to all GPUs together."""
        there = [name for name in os.listdir(DEVICES_FOLDER) if name.startswith(DRIVER)]
        return sorted([*(gpu.file for gpu in self._locks), *(name for name in there if not _OF_ONE.fullmatch(name))])


def machine_devices() -> list[str]:
    """Return all devices of GPUs that this machine has: where a cluster says which of them a job may open."""
    return sorted(name for name in os.listdir(DEVICES_FOLDER) if name.startswith(DEVICES_BEGIN))
