"""Measure what a gang takes together (processes, memory, processor time, disk) and compare it with its limits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduling.engines.launcher import processes
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.limits import GangLimits
from scheduling.engines.launcher.processes import Ended
from scheduling.engines.launcher.strangers import looked_through

MOST_FILES = 20_000  # with folders and links; each is read twice a second
MOST_DEEP = 100  # nested folders


class Consumption:
    """What all descendants of this process take."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._ended_seconds = 0.0  # processor time of processes that have ended
        self._in_memory: dict[int, int] = {}  # bytes by process id, when they were last counted
        self._shared = 0  # bytes in their folders for shared memory, and in nameless files that are in memory
        self._memory = processes.memory_device()

    def add(self, ended: Ended) -> None:
        """Count the processor time of a process that has ended."""
        self._ended_seconds += ended.seconds

    def excess(self, plan: dict[str, Any]) -> str:
        """Return a clause about what they take together beyond their limits; empty where they do not."""
        limits, most, family = plan["limits"], GangLimits.of(plan), processes.descendants(os.getpid())
        if len(family) > most.processes:
            return f"it had {len(family)} processes, more than {most.processes}"
        self._in_memory = {pid: processes.memory(pid) for pid in family}
        held = list(processes.nameless(family))
        self._shared = processes.shared_memory(family) + _bytes_on(held, self._memory)
        if excess := self._memory_excess(plan):
            return excess
        used = self._ended_seconds + sum(map(processes.processor_seconds, family))
        if 0 < most.cpu_seconds < used:
            return f"it used {used:.1f} s of processor time, more than {most.cpu_seconds}"
        size = _size(self.work)
        size.on_disk += _bytes_on(held, processes.device(self.work))
        if size.entries > MOST_FILES:
            return f"it has more than {MOST_FILES:,} files in its folder"
        if size.depth > MOST_DEEP:
            return f"it has more than {MOST_DEEP} folders in one another"
        if size.on_disk // MEGABYTE > limits["disk_mb"]:
            return f"it wrote {size.on_disk // MEGABYTE} MB into its folder, more than {limits['disk_mb']}"
        if size.length // MEGABYTE > limits["disk_mb"]:  # a sparse file costs no room, until it is copied
            return f"its files are {size.length // MEGABYTE} MB long together, more than {limits['disk_mb']}"
        return ""

    def excess_of(self, pid: int, ended: Ended, plan: dict[str, Any]) -> str:
        """Return a clause about what a killed process had taken beyond its limits, or the gang with it; empty where
        they had not."""
        if 0 < plan["cpu_seconds"] <= ended.seconds:
            return f"it used {ended.seconds:.1f} s of processor time, more than {plan['cpu_seconds']}"
        self._in_memory[pid] = max(ended.peak, self._in_memory.get(pid, 0))
        return self._memory_excess(plan)

    def _memory_excess(self, plan: dict[str, Any]) -> str:
        megabytes = (sum(self._in_memory.values()) + self._shared) // MEGABYTE
        most = GangLimits.of(plan).memory_mb
        return f"it took {megabytes} MB of memory, more than {most}" if megabytes > most else ""


def _bytes_on(files: Iterable[os.stat_result], device: int | None) -> int:
    return sum(about.st_blocks * 512 for about in files if about.st_dev == device)


@dataclass
class _Size:
    """The size of a folder: bytes on the disk, the sum of its files' lengths, how many entries it has, and how deeply
    they are nested."""

    on_disk: int = 0
    length: int = 0
    entries: int = 0
    depth: int = 0


def _size(folder: Path) -> _Size:
    """Measure a folder. Where it has more than is allowed, return what was counted until then."""
    size = _Size()
    with contextlib.suppress(OSError):
        for entry in looked_through(folder, deepest=MOST_DEEP + 1):
            size.entries += 1
            size.on_disk += entry.about.st_blocks * 512
            size.length += 0 if entry.is_folder else entry.about.st_size
            size.depth = max(size.depth, len(entry.above) + entry.is_folder)
            if size.entries > MOST_FILES or size.depth > MOST_DEEP:
                break
    return size
