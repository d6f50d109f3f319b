"""Limits on what the processes of a gang may take. `confine` sets those of the kernel, and supervisors count the
rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProcessLimits:
    """Limits of each process (`address_space_mb`, `file_mb`, `open_files`, `nice`), of a gang together (`processes`,
    `threads`, `disk_mb`, `log_mb`), and of each of its members (`memory_mb`, and in large gangs `processes_of_member`).

    `threads` is how many the kernel lets the gang's account have, where it has an account of its own. It stops programs
    that multiply faster than we can count them, and is above what honest programs need. Each parameter server of our
    trainer has a thread for each worker, so p servers and w workers have p w threads and a few more each.
    `address_space_mb`: 0 means no limit. Libraries reserve addresses for what they may use: PyTorch three gigabytes
    when it is imported, CUDA all memory of the machine and of its GPUs. Memory in use is counted all the same.
    Processor time: each process may use `cpu_share` seconds in a second of the gang's time, and `cpu_least` seconds
    in any case; the gang together as much as all its members may. A share of 0 means no limit: a process that computes
    on all cores uses many seconds in one, and its time ends with the slot.
    """

    address_space_mb: int = 0
    file_mb: int = 2_048
    open_files: int = 1_024
    nice: int = 10
    processes: int = 96
    processes_of_member: int = 16
    threads: int = 4_096
    memory_mb: int = 2_048
    disk_mb: int = 4_096
    log_mb: int = 4
    cpu_share: float = 0.0
    cpu_least: int = 60

    def cpu_seconds(self, seconds: float) -> int:
        """Return the processor time of one process in a gang that lasts for `seconds`; 0 means no limit."""
        return int(max(self.cpu_least, self.cpu_share * seconds)) if self.cpu_share else 0


@dataclass(frozen=True)
class GangLimits:
    """The limits of a gang together by its current plan; an elastic gang may have more members later."""

    processes: int
    memory_mb: int
    cpu_seconds: int  # 0 means no limit

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> GangLimits:
        """Return the limits for the most members that a plan has at once. Processor time counts one member more, for a
        coordinator."""
        limits, members = plan["limits"], max([1, *(len(phase["members"]) for phase in plan["phases"])])
        processes = max(limits["processes"], limits["processes_of_member"] * members)
        return cls(processes, limits["memory_mb"] * members, plan["cpu_seconds"] * (1 + members))
