"""What the processes of a gang may take. `confine` makes it so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessLimits:
    """Of each process, and of a gang together (`processes`, `threads`, `memory_mb`, `disk_mb`, `log_mb`).

    `threads` is what the kernel lets the gang's account have, where it has one of its own: a wall against programs that
    multiply faster than anybody can count them. It lies above what honest programs need. Each parameter server of our
    trainer has a thread for each worker, so that p servers and w workers have p w threads and a few each beside them.
    `address_space_mb`: 0 is no limit, as programs with GPUs need: CUDA reserves addresses for all memory of the machine
    and of its GPUs before it uses any. What they use of memory is counted all the same.
    Processor time: each process may use `cpu_share` seconds in a second of the gang's time, and `cpu_least` seconds
    in any case; the gang together as much as all its members may.
    """

    address_space_mb: int = 2_048
    file_mb: int = 128
    open_files: int = 256
    nice: int = 10
    processes: int = 96
    threads: int = 4_096
    memory_mb: int = 2_048
    disk_mb: int = 256
    log_mb: int = 4
    cpu_share: float = 2.0
    cpu_least: int = 60

    def cpu_seconds(self, seconds: float) -> int:
        """Of one process, in a gang that lasts so long."""
        return int(max(self.cpu_least, self.cpu_share * seconds))
