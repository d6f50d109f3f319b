"""Read the entries of a tar.gz without unpacking it. It is untrusted, so the amount that is read at once is limited."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from scheduling.programs.archives import (
    FILE,
    FOLDER,
    HARD_LINK,
    LINK,
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_UNPACKED,
    OTHER,
    ArchiveEntry,
    parts_of,
    refusals,
)
from scheduling.programs.fields import FieldRefusal

PIECE = 1 << 20  # the most bytes that are decompressed at once; a header is never longer
MOST_READ = MOST_UNPACKED + 2 * MOST_ENTRIES * tarfile.BLOCKSIZE  # a header and a last, partly used block for each file
BROKEN = (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, OverflowError)


def archive_refusals(file: IO[bytes]) -> list[FieldRefusal]:
    """Return why this file cannot be the archive of a program, each reason with the name of its entry."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if not size:
        return [FieldRefusal("archive", "is empty")]
    if size > MOST_BYTES:
        return [FieldRefusal("archive", f"must be at most {MOST_BYTES // 1024**2} MiB")]
    try:
        return refusals(entries(file))
    except BROKEN:
        return [FieldRefusal("archive", "is no tar.gz that can be read, or holds more than it may")]


@dataclass(frozen=True)
class ArchiveRead:
    """An archive that was read: its digest, and the names of its files."""

    digest: str
    names: tuple[str, ...]


def archive_read(file: IO[bytes]) -> ArchiveRead | list[FieldRefusal]:
    """Read a file before it is registered; or return why it cannot be an archive."""
    if refused := archive_refusals(file):
        return refused
    file.seek(0)
    names = tuple("/".join(parts_of(entry.name)) for entry in entries(file) if entry.kind != FOLDER)
    return ArchiveRead(digest_of(file), names)


def digest_of(file: IO[bytes]) -> str:
    """Return the SHA-256 of a file, which is never whole in memory."""
    file.seek(0)
    digest = hashlib.sha256()
    for piece in iter(lambda: file.read(PIECE), b""):
        digest.update(piece)
    return digest.hexdigest()


def entries(file: IO[bytes]) -> Iterator[ArchiveEntry]:
    """Yield each entry; raises one of `BROKEN`."""
    with tarfile.open(fileobj=_Unpacked(file), mode="r:") as archive:  # type: ignore[call-overload]
        for member in archive:
            yield ArchiveEntry(member.name, _kind(member), member.size if member.isreg() else 0, member.linkname)
            archive.members = []  # otherwise it keeps all of them in memory


def _kind(member: tarfile.TarInfo) -> str:
    if member.isreg():
        return FILE
    if member.isdir():
        return FOLDER
    if member.issym():
        return LINK
    return HARD_LINK if member.islnk() else OTHER


class _Unpacked:
    """The tar inside of a gzip file. It can be read at most a piece at once, and not beyond the largest archive."""

    def __init__(self, file: IO[bytes]) -> None:
        self._stream = gzip.GzipFile(fileobj=file)

    def read(self, size: int) -> bytes:
        if not 0 <= size <= PIECE or self.tell() > MOST_READ:
            raise OverflowError("more than a piece")
        return self._stream.read(size)

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Move forward, as an archive is read: what is in between is decompressed piece by piece and dropped."""
        if whence != os.SEEK_SET or place > MOST_READ:
            raise OverflowError("beyond what an archive may be")
        if place < self.tell():
            return self._stream.seek(place)
        while (rest := place - self.tell()) > 0 and self._stream.read(min(rest, PIECE)):
            pass
        return self.tell()

    def close(self) -> None:
        self._stream.close()
