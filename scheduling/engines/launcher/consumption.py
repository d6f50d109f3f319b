"""What a gang takes together: processes, memory, processor time and its folder, beside what it may."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scheduling.engines.launcher import processes
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.processes import Ended


class Consumption:
    """Of everybody below us."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._ended_seconds = 0.0  # processor time of those that have ended
        self._in_memory: dict[int, int] = {}  # bytes by process id, when they were last counted

    def add(self, ended: Ended) -> None:
        """One of them is no more."""
        self._ended_seconds += ended.seconds

    def excess(self, plan: dict[str, Any]) -> str:
        """What they take together beyond their limits; empty where they do not."""
        limits, family = plan["limits"], processes.descendants(os.getpid())
        if len(family) > limits["processes"]:
            return f"it had {len(family)} processes, more than {limits['processes']}"
        self._in_memory = {pid: processes.memory(pid) for pid in family}
        if excess := self._memory_excess(plan):
            return excess
        used = self._ended_seconds + sum(map(processes.processor_seconds, family))
        if used > plan["cpu_seconds_together"]:
            return f"it used {used:.1f} s of processor time, more than {plan['cpu_seconds_together']}"
        written = _size(self.work) // MEGABYTE
        if written > limits["disk_mb"]:
            return f"it wrote {written} MB into its folder, more than {limits['disk_mb']}"
        return ""

    def excess_of(self, pid: int, ended: Ended, plan: dict[str, Any]) -> str:
        """Whether one that was killed had taken more than it may, or made the gang do so; empty where it had not."""
        if ended.seconds >= plan["cpu_seconds"]:
            return f"it used {ended.seconds:.1f} s of processor time, more than {plan['cpu_seconds']}"
        self._in_memory[pid] = max(ended.peak, self._in_memory.get(pid, 0))
        return self._memory_excess(plan)

    def _memory_excess(self, plan: dict[str, Any]) -> str:
        taken, most = sum(self._in_memory.values()) // MEGABYTE, plan["limits"]["memory_mb"]
        return f"it took {taken} MB of memory, more than {most}" if taken > most else ""


def _size(folder: Path, most_files: int = 20_000) -> int:
    """Bytes in all its files; so many files are too many as well."""
    total = count = 0
    for where, _, names in os.walk(folder):
        for name in names:
            count += 1
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except OSError:
                continue
            if count > most_files:
                return 2**60
    return total
