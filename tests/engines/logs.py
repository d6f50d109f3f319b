"""The log of a gang as a test reads it."""

from __future__ import annotations

from pathlib import Path

from scheduling.engines.base import LogLine
from scheduling.engines.launcher.files import GangRecords


def log_lines(root: Path, home: str, key: str) -> list[LogLine]:
    records = GangRecords(root)
    part = records.log_part(home, key, 0, records.log_size(home, key))
    return [line for _, line in part.lines()]
