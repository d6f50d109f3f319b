"""What the processes of a gang may take. `confine` makes it so, and whoever watches over them counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProcessLimits:
    """Of each process (`address_space_mb`, `file_mb`, `open_files`, `nice`), of a gang together (`processes`,
    `threads`, `disk_mb`, `log_mb`), and of each of its members (`memory_mb`, and of many, `processes_of_member`).

    `threads` is what the kernel lets the gang's account have, where it has one of its own: a wall against programs that
    multiply faster than anybody can count them. It lies above what honest programs need. Each parameter server of our
    trainer has a thread for each worker, so that p servers and w workers have p w threads and a few each beside them.
    `address_space_mb`: 0 is no limit. Libraries reserve addresses for what they may use: PyTorch three gigabytes as it
    is imported, CUDA all memory of the machine and of its GPUs. What is used of memory is counted all the same.
    Processor time: each process may use `cpu_share` seconds in a second of the gang's time, and `cpu_least` seconds
    in any case; the gang together as much as all its members may. A share of 0 is no limit: a process that computes on
    all cores uses many seconds in one, and its time ends with the slot.
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
        """Of one process, in a gang that lasts so long; 0 is no limit."""
        return int(max(self.cpu_least, self.cpu_share * seconds)) if self.cpu_share else 0


@dataclass(frozen=True)
class GangLimits:
    """Of a gang together, as its plan is now: an elastic one has more members later."""

    processes: int
    memory_mb: int
    cpu_seconds: int  # 0: no limit

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> GangLimits:
        """With as many members as there are at once; its coordinator, where it has one, computes too."""
        limits, members = plan["limits"], max([1, *(len(phase["members"]) for phase in plan["phases"])])
        processes = max(limits["processes"], limits["processes_of_member"] * members)
        return cls(processes, limits["memory_mb"] * members, plan["cpu_seconds"] * (1 + members))
