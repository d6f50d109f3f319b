"""Read a folder that a stranger fills, for code that may read more than the stranger: list it, and open a file of it.

No link is followed: each part of a path is opened without links, below the folder before it, so that a link of the
stranger's leads nowhere, whenever it is made. Only a regular file with one name alone is opened: a pipe or a device
would keep us waiting, and another name may be somebody else's.

A path is bytes; as a text, each byte that is not printable is written \\xNN, and a backslash is doubled.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

MOST_NAMES = 10_000  # read of one folder at most
MOST_LOOKED_AT = 20_000  # names read in all folders for one listing
MOST_DEEP = 40  # nested folders
LONGEST_PATH = 1_000  # bytes that an address can hold
PIECE = 512 * 1024  # bytes that are read at once
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PASSED = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(\\))|([^\\]+)", re.DOTALL)

Parts = tuple[bytes, ...]  # of a path


@dataclass(frozen=True)
class StrangerFile:
    """A file as it is now. `changed_at` is in seconds since 1970."""

    path: Parts
    bytes: int
    changed_at: float


@dataclass(frozen=True)
class Listing:
    """Files in the order of their paths, part by part. `more` says that others follow the last one. `left_out` counts
    links, pipes and devices, files with several names, and what may not be read, as far as the listing went."""

    files: tuple[StrangerFile, ...]
    more: bool
    left_out: int


@dataclass(frozen=True)
class OpenedFile:
    """A file that is open for reading, and how it was at that moment."""

    about: StrangerFile
    version: str  # the same as long as the file is not written
    stream: FileIO

    @property
    def size(self) -> int:
        return self.about.bytes

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield its bytes from `start` to `end`: fewer where it was cut meanwhile, and never what it grew by."""
        with closing(self.stream) as stream:
            stream.seek(start)
            while (rest := end - start) > 0 and (piece := stream.read(min(PIECE, rest))):
                start += len(piece)
                yield piece

    def close(self) -> None:
        self.stream.close()


def path_shown(path: Parts) -> str:
    """Return the path as a text in which each character can be seen."""
    text = b"/".join(path).decode("utf-8", "surrogateescape")
    return "".join(_sign_shown(sign) for sign in text)


def path_said(text: str) -> Parts | None:
    """Return the path that such a text says; None where it says none, or one that leaves its folder."""
    try:
        line = text.encode()
    except UnicodeEncodeError:
        return None
    raw, at = bytearray(), 0
    while at < len(line):
        if (match := _ESCAPED.match(line, at)) is None:
            return None
        raw += bytes.fromhex(match[1].decode()) if match[1] else match[2] or match[3]
        at = match.end()
    parts = tuple(bytes(raw).split(b"/"))
    can_be = len(raw) <= LONGEST_PATH and b"\0" not in raw and not {b"", b".", b".."} & set(parts)
    return parts if can_be else None


def files_listed(
    root: Path, inner: Parts, most: int, *, after: Parts = (), skip: Callable[[Parts], bool] = lambda path: False
) -> Listing:
    """Return the first `most` files below the folder `inner` of `root` that come after a path. `skip` says which paths
    to hide. Raises `OSError` where there is no such folder."""
    with _below(root, inner, _FOLDER) as folder:
        walk = _Walk(most + 1, after, skip)
        walk.folder(folder, ())
    return Listing(tuple(walk.files[:most]), walk.is_cut or len(walk.files) > most, walk.left_out)


def file_opened(root: Path, inner: Parts, path: Parts) -> OpenedFile | None:
    """Open a file below the folder `inner` of `root`. Return None if it is no regular file with one name alone. Raises
    `OSError`."""
    with _below(root, (*inner, *path[:-1]), _PASSED) as folder:
        descriptor = os.open(path[-1], _FILE, dir_fd=folder)
    about = os.fstat(descriptor)
    if not _is_theirs(about):
        os.close(descriptor)
        return None
    version = f"{about.st_mtime_ns:x}-{about.st_size:x}-{about.st_ino:x}"
    return OpenedFile(StrangerFile(path, about.st_size, about.st_mtime), version, FileIO(descriptor, "r"))


class _Walk:
    """A walk through folders, one after the other, in the order of the names."""

    def __init__(self, most: int, after: Parts, skip: Callable[[Parts], bool]) -> None:
        self._most, self._after, self._skip = most, after, skip
        self.files: list[StrangerFile] = []
        self.left_out = self._looked_at = 0
        self.is_cut = False

    @property
    def _is_done(self) -> bool:
        return len(self.files) >= self._most

    def folder(self, descriptor: int, place: Parts) -> None:
        """Walk through all that is in an open folder."""
        for name in self._names(descriptor):
            path = (*place, name)
            if self._is_done:
                return
            if self._comes_before(path) or self._skip(path):
                continue
            self._entry(descriptor, name, path)

    def _entry(self, folder: int, name: bytes, path: Parts) -> None:
        try:
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                self._inner(folder, name, path)
                return
        except FileNotFoundError:
            return  # it was removed a moment ago
        except OSError:
            self.left_out += 1
            return
        if path <= self._after:
            return
        if _is_theirs(about) and len(b"/".join(path)) <= LONGEST_PATH:
            self.files.append(StrangerFile(path, about.st_size, about.st_mtime))
        else:
            self.left_out += 1

    def _inner(self, folder: int, name: bytes, path: Parts) -> None:
        if len(path) > MOST_DEEP:
            self.left_out += 1
            return
        if self._looked_at > MOST_LOOKED_AT:
            self.is_cut = True
            return
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
        try:
            self.folder(descriptor, path)
        finally:
            os.close(descriptor)

    def _names(self, descriptor: int) -> list[bytes]:
        """Return the names in a folder in their order; of very many only some, so that the listing counts as cut."""
        names: list[bytes] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self._looked_at += 1
                if len(names) >= MOST_NAMES or self._looked_at > MOST_LOOKED_AT:
                    self.is_cut = True
                    break
                names.append(os.fsencode(entry.name))
        return sorted(names)

    def _comes_before(self, path: Parts) -> bool:
        """Return whether the path, and all that it may hold, comes before what is asked for."""
        return path < self._after[: len(path)]


@contextmanager
def _below(root: Path, parts: Parts, how: int) -> Iterator[int]:
    """Open a folder below `root`, of whose path each part is a folder and no link, and yield its descriptor."""
    at = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts, 1):
            inner = os.open(part, how if number == len(parts) else _PASSED, dir_fd=at)
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)


def _is_theirs(about: os.stat_result) -> bool:
    return stat.S_ISREG(about.st_mode) and about.st_nlink == 1


def _sign_shown(sign: str) -> str:
    if sign == "\\":
        return "\\\\"
    if sign.isprintable():
        return sign
    return "".join(f"\\x{byte:02x}" for byte in sign.encode("utf-8", "surrogateescape"))
