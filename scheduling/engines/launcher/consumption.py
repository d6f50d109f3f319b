"""What a gang takes together: processes, memory, processor time and its folder, beside what it may."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scheduling.engines.launcher import processes
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.limits import GangLimits
from scheduling.engines.launcher.processes import Ended

MOST_FILES = 20_000  # each is looked at twice a second


class Consumption:
    """Of everybody below us."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._ended_seconds = 0.0  # processor time of those that have ended
        self._in_memory: dict[int, int] = {}  # bytes by process id, when they were last counted
        self._shared = 0  # bytes in their folders for shared memory

    def add(self, ended: Ended) -> None:
        """One of them is no more."""
        self._ended_seconds += ended.seconds

    def excess(self, plan: dict[str, Any]) -> str:
        """What they take together beyond their limits; empty where they do not."""
        limits, most, family = plan["limits"], GangLimits.of(plan), processes.descendants(os.getpid())
        if len(family) > most.processes:
            return f"it had {len(family)} processes, more than {most.processes}"
        self._in_memory = {pid: processes.memory(pid) for pid in family}
        self._shared = processes.shared_memory(family)
        if excess := self._memory_excess(plan):
            return excess
        used = self._ended_seconds + sum(map(processes.processor_seconds, family))
        if 0 < most.cpu_seconds < used:
            return f"it used {used:.1f} s of processor time, more than {most.cpu_seconds}"
        written, files = _size(self.work)
        if files > MOST_FILES:
            return f"it has more than {MOST_FILES:,} files in its folder"
        if written // MEGABYTE > limits["disk_mb"]:
            return f"it wrote {written // MEGABYTE} MB into its folder, more than {limits['disk_mb']}"
        return ""

    def excess_of(self, pid: int, ended: Ended, plan: dict[str, Any]) -> str:
        """Whether one that was killed had taken more than it may, or made the gang do so; empty where it had not."""
        if 0 < plan["cpu_seconds"] <= ended.seconds:
            return f"it used {ended.seconds:.1f} s of processor time, more than {plan['cpu_seconds']}"
        self._in_memory[pid] = max(ended.peak, self._in_memory.get(pid, 0))
        return self._memory_excess(plan)

    def _memory_excess(self, plan: dict[str, Any]) -> str:
        megabytes = (sum(self._in_memory.values()) + self._shared) // MEGABYTE
        most = GangLimits.of(plan).memory_mb
        return f"it took {megabytes} MB of memory, more than {most}" if megabytes > most else ""


def _size(folder: Path) -> tuple[int, int]:
    """Bytes in all its files, and how many they are; of more than may be, those that were counted until then."""
    total = count = 0
    for where, _, names in os.walk(folder):
        for name in names:
            count += 1
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except OSError:
                continue
            if count > MOST_FILES:
                return total, count
    return total, count
