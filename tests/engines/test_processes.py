"""What /proc tells of a process."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from scheduling.engines.launcher import processes

MANY = 64 * 2**20


def grows(area: mmap.mmap) -> int:
    """By how much our memory grows when all of this is looked at."""
    before = processes.memory(os.getpid())
    for at in range(0, MANY, mmap.PAGESIZE):
        _ = area[at]
    return processes.memory(os.getpid()) - before


def test_pages_of_files_are_nobodys_memory_and_what_processes_share_is(tmp_path: Path) -> None:
    """A gang of 95 maps the same libraries 95 times, and the machine has them once."""
    path = tmp_path / "library"
    path.write_bytes(b"x" * MANY)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as library:
        assert grows(library) < MANY // 8
    with mmap.mmap(-1, MANY) as shared:
        before = processes.memory(os.getpid())
        shared.write(b"x" * MANY)
        assert processes.memory(os.getpid()) - before > MANY // 2


def test_nobody_has_no_memory() -> None:
    assert processes.memory(2**30) == 0
