"""Walk and remove a folder that an untrusted program fills, whatever it has put there or does meanwhile.

No link is followed. Folders may be nested more deeply than Python can recurse, and their paths longer than the kernel
accepts: so we go down by a name relative to an open folder, and up to a folder that is still open. In very deep trees
not all folders stay open: there we go up by "..", and only if that is the folder that we came from.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

MOST_HELD = 128  # nested folders that are open at once; only deeper ones can be moved away while we walk
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PASSED = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True)
class FolderEntry:
    """A file, folder or link. `folder` is the descriptor of the folder in which it is, open until the next entry is
    requested. `above` are the names of the folders down to it."""

    folder: int
    name: str
    about: os.stat_result
    above: tuple[str, ...]

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.about.st_mode)

    def opened(self) -> int:
        """Open a file for reading and return its descriptor; raises `OSError` if it is no file, or not any more."""
        file = os.open(self.name, _FILE, dir_fd=self.folder)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "no file")
        return file


@dataclass
class _Level:
    """A folder on the way down. `descriptor` is -1 while it is not open."""

    descriptor: int
    identity: tuple[int, int]
    names: Iterator[str]
    entry: FolderEntry | None = None  # its entry in the folder above
    above: tuple[str, ...] = field(default=())


def looked_through(top: Path, *, deepest: int = 0, folders_last: bool = False) -> Generator[FolderEntry, None, None]:
    """Yield all entries below a folder, by name; each folder comes before its contents, or after them with
    `folders_last`.

    The walk goes `deepest` levels down; 0 means no limit. Raises `OSError` where there is no such folder, or where a
    very deep one is moved meanwhile."""
    first = os.open(top, _FOLDER)
    levels = [_level(first)]
    try:
        while levels:
            level = levels[-1]
            name = next(level.names, None)
            if name is None:
                yield from _up(levels, folders_last=folders_last)
                continue
            try:
                about = os.stat(name, dir_fd=level.descriptor, follow_symlinks=False)
            except OSError:
                continue  # it was removed a moment ago
            entry = FolderEntry(level.descriptor, name, about, level.above)
            goes_down = entry.is_folder and not 0 < deepest <= len(levels)
            if not (goes_down and folders_last):
                yield entry
            if goes_down and not _down(levels, entry) and folders_last:
                yield entry
    finally:
        for level in levels:
            if level.descriptor >= 0:
                os.close(level.descriptor)


def removed(top: Path) -> int:
    """Remove a folder with everything in it, and return how many bytes its files had. Raises `OSError` where something
    cannot be removed."""
    size = 0
    for entry in looked_through(top, folders_last=True):
        if entry.is_folder:
            os.rmdir(entry.name, dir_fd=entry.folder)
        else:
            size += entry.about.st_size if stat.S_ISREG(entry.about.st_mode) else 0
            os.unlink(entry.name, dir_fd=entry.folder)
    os.rmdir(top)
    return size


def _level(descriptor: int, entry: FolderEntry | None = None) -> _Level:
    about = os.fstat(descriptor)
    above = () if entry is None else (*entry.above, entry.name)
    return _Level(descriptor, (about.st_dev, about.st_ino), iter(sorted(os.listdir(descriptor))), entry, above)


def _down(levels: list[_Level], entry: FolderEntry) -> bool:
    """Go into a folder. Return False if it cannot be read, or is no folder any more."""
    try:
        inner = _opened(entry)
    except OSError:
        return False
    try:
        levels.append(_level(inner, entry))
    except OSError:
        os.close(inner)
        return False
    if len(levels) > MOST_HELD:
        outer = levels[-2]
        os.close(outer.descriptor)
        outer.descriptor = -1
    return True


def _up(levels: list[_Level], *, folders_last: bool) -> Iterator[FolderEntry]:
    """Leave the current folder, whose entries have all been read, for the one above."""
    level = levels[-1]
    if len(levels) > 1 and levels[-2].descriptor < 0:
        outer, above = levels[-2], os.open("..", _FOLDER, dir_fd=level.descriptor)
        about = os.fstat(above)
        if (about.st_dev, about.st_ino) != outer.identity:
            os.close(above)
            raise OSError(errno.ESTALE, "a folder was moved meanwhile")
        outer.descriptor = above
    levels.pop()
    os.close(level.descriptor)
    if folders_last and level.entry is not None:
        yield FolderEntry(levels[-1].descriptor, level.entry.name, level.entry.about, level.entry.above)


def _opened(entry: FolderEntry) -> int:
    """Open a folder for reading. Its owner may have taken the right to read it, which also keeps us out if we are the
    same account; then the right is given back first."""
    with contextlib.suppress(PermissionError):
        return os.open(entry.name, _FOLDER, dir_fd=entry.folder)
    passed = os.open(entry.name, _PASSED, dir_fd=entry.folder)
    try:
        os.chmod(f"/proc/self/fd/{passed}", stat.S_IRWXU)  # by its descriptor: the name may lead elsewhere by now
    finally:
        os.close(passed)
    return os.open(entry.name, _FOLDER, dir_fd=entry.folder)
