"""Check the entries of an archive before any of them is unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.programs.fields import FieldRefusal, shown

MOST_BYTES = 20 * 1024**2  # of the archive as it is sent
MOST_UNPACKED = 200 * 1024**2
MOST_ENTRIES = 10_000
LONGEST_NAME = 1_000
IS_ONE = ""  # marks the end of a name in a tree; no name has an empty part
FILE, FOLDER, LINK, HARD_LINK, OTHER = "file", "folder", "link", "hard_link", "other"


@dataclass(frozen=True)
class ArchiveEntry:
    """One entry of an archive. `target` is what a link names, relative to the link's own folder, or for a hard link to
    the archive's top."""

    name: str
    kind: str  # file | folder | link | hard_link | other (a device, a pipe, a socket)
    size: int = 0
    target: str = ""


def refusals(entries: Iterable[ArchiveEntry]) -> list[FieldRefusal]:
    """Return why an archive cannot be unpacked into a job's folder: at most a hundred reasons, each with the entry's
    name."""
    problems: list[FieldRefusal] = []
    links = _Places()
    total = count = 0
    for entry in entries:
        count, total = count + 1, total + max(entry.size, 0)
        if sentence := _wrong(entry, links):
            problems.append(FieldRefusal("archive", f"{shown(entry.name)} {sentence}"))
        if count > MOST_ENTRIES or total > MOST_UNPACKED or len(problems) >= 100:
            break
        if entry.kind == LINK:
            links.add(parts_of(entry.name))
    if count > MOST_ENTRIES:
        problems.append(FieldRefusal("archive", f"holds more than {MOST_ENTRIES:,} entries"))
    if total > MOST_UNPACKED:
        problems.append(FieldRefusal("archive", f"is larger than {MOST_UNPACKED // 1024**2} MiB when it is unpacked"))
    return problems


class _Places:
    """Names of an archive as a tree: a name may have hundreds of parts, and each is compared only once."""

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}

    def add(self, parts: Sequence[str]) -> None:
        at = self._top
        for part in parts:
            at = at.setdefault(part, {})
        at[IS_ONE] = {}

    def leads_through(self, parts: Sequence[str]) -> bool:
        """Return whether one of the names is this place, or a folder above it."""
        at = self._top
        for part in parts:
            if part not in at:
                return False
            at = at[part]
            if IS_ONE in at:
                return True
        return False


def _wrong(entry: ArchiveEntry, links: _Places) -> str:
    """Return why an entry is refused; "" if it is not. `links` are those before it: nothing may be written through
    one."""
    if not entry.name or "\0" in entry.name or "\0" in entry.target or len(entry.name) > LONGEST_NAME:
        return "is no name of a file"
    if len(entry.target) > LONGEST_NAME:
        return "is a link to a name that is too long"
    if entry.name.startswith("/") or entry.target.startswith("/"):
        return "is absolute" if entry.name.startswith("/") else "is a link to an absolute name"
    parts = parts_of(entry.name)
    if ".." in parts:
        return "leaves the folder"
    if entry.kind == OTHER:
        return "is a device, a pipe or a socket"
    if links.leads_through(parts):
        return "goes through a link that came before it"
    if entry.kind in (LINK, HARD_LINK):
        inside = [*parts[:-1], *parts_of(entry.target)] if entry.kind == LINK else parts_of(entry.target)
        depth = 0
        for part in inside:
            depth += -1 if part == ".." else 1
            if depth < 0:
                return f"is a link that leaves the folder, to {shown(entry.target)}"
        if entry.kind == HARD_LINK and links.leads_through(inside):
            return "is a link through a link that came before it"
    return ""


def parts_of(name: str) -> list[str]:
    """Return the parts of a name of an archive, without empty ones and dots."""
    return [part for part in name.split("/") if part not in ("", ".")]
