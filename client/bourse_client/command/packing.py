"""Pack what comes along with a script: files and folders of this machine as a tar.gz, whose bytes follow from the
files."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bourse_client.command.exits import UsageError
from bourse_client.command.screen import plain, several

MEBIBYTE = 1024**2
MOST_PACKED, MOST_BYTES, MOST_FILES = 20 * MEBIBYTE, 200 * MEBIBYTE, 10_000  # the server's limits of an archive
MOST_NAMED = 1_000  # names that one call may have
LEFT_OUT = frozenset({".git", "__pycache__", ".venv", ".bourse"})


@dataclass(frozen=True)
class Packed:
    """A packed archive. `names` are those of the files; where they are very many, those of their outermost folders,
    each with a slash at its end."""

    archive: bytes
    names: tuple[str, ...]
    files: int
    bytes: int
    left_out: int  # links to folders, pipes, sockets and devices

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.archive).hexdigest()

    @property
    def sentence(self) -> str:
        """Return a sentence for the person who sends it."""
        rest = f"; left out, as links to folders, pipes or devices: {self.left_out:,}" if self.left_out else ""
        files = several(self.files, "file")
        return f"Brings {files}, {self.bytes:,} bytes, {len(self.archive):,} as they are sent{rest}."


@dataclass(frozen=True)
class _File:
    name: str  # the path from the current folder
    place: Path
    size: int
    is_program: bool


def packed(named: Sequence[str], here: Path) -> Packed:
    """Pack the files that are named, and those in folders that are named, under their names from `here` on. The same
    files make the same bytes: no times, no owners, in the order of the names."""
    files: dict[str, _File] = {}
    left_out = 0
    for each in named:
        for file in _below(each, here):
            if isinstance(file, _File):
                files[file.name] = file
            else:
                left_out += 1
        _check(list(files.values()))
    if not files:
        raise UsageError(f"--with {plain(' '.join(named))}: there are no files that could come along.")
    ordered = [files[name] for name in sorted(files)]
    archive, total = _archive(ordered)
    if len(archive) > MOST_PACKED:
        packed_size = f"{len(archive) / MEBIBYTE:,.1f} MiB packed, in {several(len(ordered), 'file')},"
        _too_large(ordered, packed_size, f"{MOST_PACKED // MEBIBYTE} MiB")
    return Packed(archive, _names(sorted(files)), len(files), total, left_out)


def _below(named: str, here: Path) -> Iterator[_File | None]:
    """Yield the files of one name, those of a folder with all its folders; yield None for each thing that cannot come
    along."""
    place = Path(os.path.normpath(here / named))
    if not place.is_relative_to(here):
        raise UsageError(f"--with {plain(named)}: it lies outside of the current folder, from which names are told.")
    try:
        if not stat.S_ISDIR(place.stat().st_mode):
            yield _file(place, here)
            return
    except OSError as error:
        raise UsageError(f"--with {plain(named)}: {error.strerror}.") from error
    for folder, folders, names in os.walk(place, onerror=_unreadable):
        links = [name for name in folders if name not in LEFT_OUT and os.path.islink(os.path.join(folder, name))]
        yield from [None] * len(links)
        folders[:] = [name for name in folders if name not in LEFT_OUT and name not in links]
        for name in names:
            if name not in LEFT_OUT:
                yield _file(Path(folder, name), here)


def _file(place: Path, here: Path) -> _File | None:
    """Return the file, or None for what cannot come along. A link to a file comes along as the file."""
    try:
        about = place.stat()
    except OSError:
        return None  # a link to nothing
    if not stat.S_ISREG(about.st_mode):
        return None
    return _File(place.relative_to(here).as_posix(), place, about.st_size, bool(about.st_mode & 0o100))


def _unreadable(error: OSError) -> None:
    raise UsageError(f"--with: {plain(str(error.filename))}: {error.strerror}.") from error


def _check(files: Sequence[_File]) -> None:
    """Check the limits, before any file is read."""
    total = sum(file.size for file in files)
    if total > MOST_BYTES:
        size = f"{total / MEBIBYTE:,.1f} MiB in {several(len(files), 'file')}"
        _too_large(files, size, f"{MOST_BYTES // MEBIBYTE} MiB")
    if len(files) > MOST_FILES:
        _too_large(files, f"{len(files):,} files", f"{MOST_FILES:,} files")


def _too_large(files: Sequence[_File], what: str, most: str) -> None:
    largest = max(files, key=lambda file: file.size)
    raise UsageError(
        f"--with: {what} are more than the {most} that come along; the largest is {plain(largest.name)} with "
        f"{largest.size / MEBIBYTE:,.1f} MiB. Data is better fetched by the script, or lies where the servers see it."
    )


def _archive(files: Sequence[_File]) -> tuple[bytes, int]:
    """Return the archive, and how many bytes the files have."""
    out, total = io.BytesIO(), 0
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for file in files:
            try:
                data = file.place.read_bytes()
            except OSError as error:
                raise UsageError(f"--with: {plain(file.name)}: {error.strerror}.") from error
            about = tarfile.TarInfo(file.name)
            about.size, about.mode = len(data), 0o755 if file.is_program else 0o644
            tar.addfile(about, io.BytesIO(data))
            total += len(data)
    return out.getvalue(), total


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) <= MOST_NAMED:
        return tuple(names)
    outer = {f"{name.partition('/')[0]}/" if "/" in name else name for name in names}
    return tuple(sorted(outer))[:MOST_NAMED]
