"""The most memory that a process had at once."""

from __future__ import annotations

import re
from pathlib import Path

MEBIBYTE = 1 << 10  # in the kibibytes that the kernel counts in


def peak_forget() -> None:
    """Begin to count the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_mib(process: int | str = "self") -> int:
    """Return the peak memory of this process or of another one, since `peak_forget` was last called for it."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[0]) // MEBIBYTE
