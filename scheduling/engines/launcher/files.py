"""The folder of a gang: its supervisor's orders and records, and what the program wrote.

<root>/<home>/work             the program's own folder, with its checkpoint; it outlives the gang
<root>/<home>/starts           how often a program of the catalogue was started for this job; only we may read it
<root>/<home>/<key>/program    the script and the archive of a program of the catalogue
<root>/<home>/<key>/secrets    the secrets that its processes get; only we may read it, and no backup has it
<root>/<home>/<key>/           plan.json, state.json, log, progress.jsonl; only we may read them
<root>/<home>/<key>/<part>/    state.json, log, progress.jsonl, lock of one part, where a gang has several parts
<root>/alive                   is touched while an engine is running
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from scheduling.engines.base import LogLine

SECRETS = "secrets"

# Modes of folders that an engine and another user share through that user's group: files made in them get the group
# (set-group-ID). In the outer folders nobody can remove or rename what belongs to the other (sticky bit).
SHARED, SHARED_OUTER = 0o2770, 0o3770
DRAFT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW  # somebody else may have put a link there
READABLE = 0o640  # the mode of files; their folder decides who else may read them
OURS = 0o600
LONGEST_LINE = 2_000  # characters of a log's line
LONGEST_ROW = 4 * LONGEST_LINE + 100  # bytes of a log's line with its time, role and rank
LAST_MOMENT = 4e9  # seconds since 1970: the next century


@dataclass(frozen=True)
class Folder:
    """The paths of one gang, or of its part `part`, where it has several. They are cached: an engine needs the same
    ones each second, and building a path costs more than checking whether a file has grown."""

    root: Path
    home: str
    key: str
    part: str = ""

    @cached_property
    def ours(self) -> Path:
        return self.root / self.home / self.key

    @cached_property
    def place(self) -> Path:
        return self.ours / self.part if self.part else self.ours

    @cached_property
    def lock(self) -> Path:
        return self.place / "lock"

    @cached_property
    def work(self) -> Path:
        return self.root / self.home / "work"

    @cached_property
    def starts(self) -> Path:
        return self.root / self.home / "starts"

    @cached_property
    def program(self) -> Path:
        return self.ours / "program"

    @cached_property
    def secrets(self) -> Path:
        return self.ours / SECRETS

    @cached_property
    def plan(self) -> Path:
        return self.ours / "plan.json"

    @cached_property
    def state(self) -> Path:
        return self.place / "state.json"

    @cached_property
    def log(self) -> Path:
        return self.place / "log"

    @cached_property
    def progress(self) -> Path:
        return self.place / "progress.jsonl"

    @cached_property
    def alive(self) -> Path:
        return self.root / "alive"

    def make(self, group: int | None = None) -> None:
        """Make the folders. The program's processes may pass through the outer ones, but list none of them.

        Where the launcher runs as another user than the engine, both share the job's folder through that user's
        `group`, and what is made in it later belongs to the group, too."""
        home = self.root / self.home
        shared = group is not None or (home.exists() and bool(home.stat().st_mode & stat.S_ISGID))
        for path, mode in (
            (self.root, 0o711),
            (home, SHARED_OUTER if shared else 0o711),
            (self.work, SHARED if shared else 0o700),
            (self.ours, SHARED_OUTER if shared else 0o700),
            (self.place, SHARED if shared else 0o700),
        ):
            path.mkdir(parents=True, exist_ok=True)
            if os.geteuid() in (0, path.stat().st_uid):  # else the other user made it, with the right mode
                if group is not None and path != self.root:
                    os.chown(path, -1, group)
                path.chmod(mode)


def write(path: Path, document: Mapping[str, Any], *, durable: bool = False, mode: int = READABLE) -> None:
    """Write a document, whole or not at all. With `durable` it is on the disk before the file gets its name."""
    draft = path.with_name(f".{path.name}")
    with os.fdopen(os.open(draft, DRAFT, mode), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        json.dump(document, file)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(path)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all."""
    draft = path.with_name(f".{path.name}")
    with os.fdopen(os.open(draft, DRAFT, READABLE), "wb") as file:
        os.fchmod(file.fileno(), READABLE)
        file.write(data)
    draft.replace(path)


def read(path: Path) -> dict[str, Any] | None:
    """Read a document; None if the file does not exist yet, or has none: a machine that lost its power may leave it
    empty."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def theirs(path: Path) -> int:
    """Open a file that a launcher wrote, and return its descriptor; raises `OSError`. Neither it nor its folder may be
    a link: a user who may write there could let us read a file that is not theirs."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        return os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)


@dataclass(frozen=True)
class LogPart:
    """Whole lines of a log, from byte `start` to byte `end`."""

    data: bytes
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def rows(self, *, backward: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield each line unparsed, with the byte at which it begins. `log_line` parses it."""
        rows = self.data.splitlines(keepends=True)
        if backward:
            place = self.end
            for row in reversed(rows):
                place -= len(row)
                yield place, row
        else:
            place = self.start
            for row in rows:
                yield place, row
                place += len(row)

    def lines(self) -> Iterator[tuple[int, LogLine]]:
        return ((place, line) for place, row in self.rows() if (line := log_line(row)))


class GangRecords:
    """Logs and progress of gangs, for readers in other processes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def has_log(self, home: str, key: str) -> bool:
        return Folder(self.root, home, key).log.exists()

    def log_size(self, home: str, key: str) -> int:
        try:
            return Folder(self.root, home, key).log.stat().st_size
        except FileNotFoundError:
            return 0

    def log_part(self, home: str, key: str, start: int, end: int) -> LogPart:
        """Return the lines that begin in these bytes, each whole. A last line without an end is left out."""
        if end <= start:
            return LogPart(b"", start)
        first = max(start - 1, 0)
        try:
            with Folder(self.root, home, key).log.open("rb") as file:
                file.seek(first)
                data = file.read(end - first + LONGEST_ROW)
        except FileNotFoundError:
            return LogPart(b"", start)
        if start > 0:  # a line begins at `start` only if the byte before ends another one
            skipped = data.find(b"\n") + 1
            data, start = data[skipped:], first + skipped
            if not skipped or start >= end:
                return LogPart(b"", start)
        until = data.find(b"\n", end - 1 - start) + 1 or data.rfind(b"\n") + 1
        return LogPart(data[:until], start)

    def progress(self, home: str, key: str) -> Sequence[Mapping[str, Any]]:
        """Return all progress that the program reported, in order."""
        try:
            data = Folder(self.root, home, key).progress.read_bytes()
        except FileNotFoundError:
            return []
        rows = [progress_row(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
        return [row for row in rows if row]


def progress_row(line: bytes) -> dict[str, Any]:
    """Parse one line of progress; empty if it is no such line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) and isinstance(row.get("event"), str) else {}


def log_line(row: bytes) -> LogLine | None:
    """Read one line of a log; None if it is none, or its moment is none of this century: on a cluster, users may write
    into their jobs' logs."""
    parts = row.decode("utf-8", "replace").rstrip("\n").split(" ", 3)
    try:
        line = LogLine(float(parts[0]), parts[1], int(parts[2]), parts[3])
    except (IndexError, ValueError):
        return None  # the page begins in the middle of a line
    return line if 0.0 <= line.at < LAST_MOMENT else None
