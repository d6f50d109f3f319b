"""What the processes of a gang may take. `confine` makes it so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessLimits:
    """Of each process, and of a gang together (`processes`, `memory_mb`, `disk_mb`, `log_mb`).

    Processor time: each process may use `cpu_share` seconds in a second of the gang's time, and `cpu_least` seconds
    in any case; the gang together as much as all its members may.
    """

    address_space_mb: int = 2_048
    file_mb: int = 128
    open_files: int = 256
    nice: int = 10
    processes: int = 96
    memory_mb: int = 2_048
    disk_mb: int = 256
    log_mb: int = 4
    cpu_share: float = 2.0
    cpu_least: int = 60

    def cpu_seconds(self, seconds: float) -> int:
        """Of one process, in a gang that lasts so long."""
        return int(max(self.cpu_least, self.cpu_share * seconds))
