"""The folder of a gang: what its supervisor is to do, what it says, and what the program wrote.

<root>/<home>/work             the program's own folder: its checkpoint outlives the gang
<root>/<home>/<key>/           plan.json, state.json, log, progress.jsonl; only ours
<root>/alive                   touched while an engine is there
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduling.engines.base import LogLine, LogPage

PAGE_BYTES = 64 * 1024
LONGEST_LINE = 2_000  # characters of a log's line


@dataclass(frozen=True)
class Folder:
    """The places of one gang."""

    root: Path
    home: str
    key: str

    @property
    def ours(self) -> Path:
        return self.root / self.home / self.key

    @property
    def work(self) -> Path:
        return self.root / self.home / "work"

    @property
    def plan(self) -> Path:
        return self.ours / "plan.json"

    @property
    def state(self) -> Path:
        return self.ours / "state.json"

    @property
    def log(self) -> Path:
        return self.ours / "log"

    @property
    def progress(self) -> Path:
        return self.ours / "progress.jsonl"

    @property
    def alive(self) -> Path:
        return self.root / "alive"

    def make(self) -> None:
        """The program's processes pass through the outer folders and may look into none of them."""
        for path, mode in ((self.root, 0o711), (self.root / self.home, 0o711), (self.work, 0o700), (self.ours, 0o700)):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(mode)


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    draft = path.with_name(f".{path.name}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file)
    draft.replace(path)


def read(path: Path) -> dict[str, Any] | None:
    """None: not there yet."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


class Records:
    """What other processes may read of gangs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def log(self, home: str, key: str, after: int, most: int) -> LogPage:
        """Lines from byte `after` on: whole ones only, as the last may still be on its way."""
        try:
            with Folder(self.root, home, key).log.open("rb") as file:
                file.seek(after)
                data = file.read(PAGE_BYTES)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return LogPage((), 0, False)
        whole = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)[:most]
        end = after + sum(map(len, whole))
        return LogPage(tuple(line for row in whole if (line := _line(row))), end, bool(whole) and end < size)

    def log_tail(self, home: str, key: str, lines: int) -> LogPage:
        """The last lines."""
        try:
            size = Folder(self.root, home, key).log.stat().st_size
        except FileNotFoundError:
            return LogPage((), 0, False)
        page = self.log(home, key, max(0, size - PAGE_BYTES // 2), 10_000)
        return LogPage(page.lines[-lines:], page.after, page.more)

    def progress(self, home: str, key: str) -> Sequence[Mapping[str, Any]]:
        """Everything the program told, in order."""
        try:
            data = Folder(self.root, home, key).progress.read_bytes()
        except FileNotFoundError:
            return []
        rows = [told(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
        return [row for row in rows if row]


def told(line: bytes) -> dict[str, Any]:
    """One line of progress; empty where it is none."""
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) and isinstance(row.get("event"), str) else {}


def _line(row: bytes) -> LogLine | None:
    parts = row.decode("utf-8", "replace").rstrip("\n").split(" ", 3)
    try:
        return LogLine(float(parts[0]), parts[1], int(parts[2]), parts[3])
    except (IndexError, ValueError):
        return None  # a page that begins in the middle of a line
