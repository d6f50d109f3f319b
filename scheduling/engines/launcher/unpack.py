"""`python -m scheduling.engines.launcher.unpack` puts a program's files into the current folder.

It runs with the program's account and restrictions, because an earlier start of the program may have left anything
there: if that misleads it, it can only write into the program's own folder. It reads what `packed` returns.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from scheduling.engines.launcher.strangers import removed
from scheduling.programs.archives import FILE, FOLDER, HARD_LINK, LINK, OTHER, ArchiveEntry, refusals

OURS = Path(".bourse")
SCRIPT, PROGRESS, UNPACKED = OURS / "script.sh", OURS / "progress", OURS / "unpacked"
TEMPORARY = OURS / "tmp"  # the folder that the program gets as /tmp, where the machine can do that
CHECKPOINT = Path("checkpoint")
REFUSED, NO_ROOM = 3, 4  # exit codes: the program is at fault, or the machine
MACHINES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


def packed(script: str, archive: bytes) -> bytes:
    """Return the bytes that `unpack` reads: a line with the length of the script, the script, the archive."""
    text = script.encode()
    return b"%d\n%s%s" % (len(text), text, archive)


def unpack(data: bytes) -> str:
    """Unpack a program's files into the current folder. Return why that cannot be done, or "" where it is done.

    The archive is unpacked where another one, or none, was unpacked before. What the program has made since belongs to
    it and stays.
    """
    length, _, rest = data.partition(b"\n")
    script, archive = rest[: int(length)], rest[int(length) :]
    for folder in (OURS, CHECKPOINT):
        _make_folder(folder)
    for folder in (PROGRESS, TEMPORARY):
        _clear(folder)
        folder.mkdir()
    TEMPORARY.chmod(0o1777)  # some programs require this mode; nobody else can reach the folder
    digest = hashlib.sha256(archive).hexdigest()
    if archive and _unpacked() != digest:
        _clear(UNPACKED)
        try:
            with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
                members = tar.getmembers()
                if problems := refusals(map(_entry, members)):
                    return f"{problems[0].field} {problems[0].sentence}"
                _extract(tar, members)
        except (tarfile.TarError, EOFError, ValueError) as error:
            return f"its archive is broken: {error}"
        UNPACKED.write_text(digest)
    if script:
        _clear(SCRIPT)
        SCRIPT.write_bytes(script)
    return ""


def _entry(member: tarfile.TarInfo) -> ArchiveEntry:
    kinds = ((member.isreg(), FILE), (member.isdir(), FOLDER), (member.issym(), LINK), (member.islnk(), HARD_LINK))
    return ArchiveEntry(
        member.name, next((kind for is_it, kind in kinds if is_it), OTHER), member.size, member.linkname
    )


def _extract(tar: tarfile.TarFile, members: Iterable[tarfile.TarInfo]) -> None:
    for member in members:
        place = Path(member.name)
        for parent in reversed(place.parents[:-1]):
            _make_folder(parent)
        if member.isdir():
            _make_folder(place)
            continue
        _clear(place)
        if member.issym():
            place.symlink_to(member.linkname)
        elif member.islnk():
            os.link(member.linkname, place, follow_symlinks=False)
        elif (source := tar.extractfile(member)) is not None:
            with source, place.open("wb") as target:
                shutil.copyfileobj(source, target)
            place.chmod(0o700 if member.mode & 0o100 else 0o600)


def _make_folder(place: Path) -> None:
    """Make a folder, and remove whatever else has its name."""
    if place == Path("."):
        return
    if place.is_symlink() or not place.is_dir():
        _clear(place)
        place.mkdir()
    place.chmod(0o700)


def _clear(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        place.chmod(0o700)  # a program may have closed it
        removed(place)
    elif os.path.lexists(place):
        place.unlink()


def _unpacked() -> str:
    try:
        return "" if UNPACKED.is_symlink() else UNPACKED.read_text()[:64]
    except (OSError, ValueError):
        return ""


def main() -> int:
    """Unpack what standard input has, and print what is wrong, which goes to the log."""
    try:
        sentence = unpack(sys.stdin.buffer.read())
    except OSError as error:
        print(f"The program's files could not be put into its folder: {error.strerror}.", flush=True)
        return NO_ROOM if error.errno in MACHINES else REFUSED
    if sentence:
        print(f"The program cannot be unpacked: {sentence}.", flush=True)
    return REFUSED if sentence else 0


if __name__ == "__main__":
    sys.exit(main())
