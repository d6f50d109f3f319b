"""Back up a whole installation into a folder, and restore it: the database as of one moment, the files of programs, and
a fingerprint of its key.

The database's dump is one snapshot, whatever happens meanwhile: it contains all of an interval that is being decided or
of a slot that is being paid, or nothing of it. Files are copied after it, so that the files that rows name are there.

Webhooks' secrets and the key that signs bundles are encrypted with `SECRET_KEY`. The key is not in the backup, since
both together give access to everything; its fingerprint is, so that a wrong key is noticed before anything is restored.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.db import connection, transaction

from marketplace.checks import beyond_sentence, steps_beyond
from marketplace.embedded import programs
from marketplace.version import VERSION
from scheduling.engines.launcher.files import SECRETS
from scheduling.engines.launcher.strangers import MOST_HELD, FolderEntry, looked_through
from tenants import history
from tenants.access import access_of_system
from tenants.common.ownership import as_owner, has_owner

FORMAT = "bourse-backup/2"
EARLIER_FORMAT = "bourse-backup/1"  # without links
DATABASE, FILES, MANIFEST = "database.dump", "files.tar.gz", "manifest.json"
LONGEST_PATH = 3_000  # bytes, below the folder of all programs; the kernel allows 4,096
MOST_NAMES, LONGEST_NAME = 3, 80  # of paths in a sentence about what a backup lacks, and signs of each
PURPOSE = b"whose key a backup belongs to"
BACKUP_ACTION = "backup_make"  # name of a backup in the history
# Others know these rows by their numbers: folders of clusters, programs of tenants, followers of the feed.
KNOWN_OUTSIDE = ("scheduling_trainingjob", "scheduling_event")
NO_RIGHT = re.compile(r"permission denied|may lack SELECT privilege|must be owner of")  # from PostgreSQL's programs
SKIPPED = 1_000_000  # numbers; more than any installation uses between two backups


class BackupFailed(Exception):
    """A backup failed. The message says why, and what would help."""


def backup_make(folder: Path, at: datetime) -> Mapping[str, Any]:
    """Make a backup in a new folder that only we may read. The manifest is written last, then an entry of the history
    names the backup. An unfinished folder is removed: it must not be taken for a backup, and the next try may use the
    same folder."""
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise BackupFailed(f"{folder} is there already: a backup begins with a new folder.") from None
    except OSError as error:
        raise BackupFailed(f"{folder} cannot be made: {error.strerror or error}.") from None
    try:
        manifest = _write(folder, at)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise BackupFailed(f"{folder} cannot be written: {error.strerror or error}.") from None
        raise
    with transaction.atomic():
        by = access_of_system("backup")
        history.append(at=at, by=by, action=BACKUP_ACTION, subject="installation", after={"files": manifest["files"]})
    return manifest


def _write(folder: Path, at: datetime) -> Mapping[str, Any]:
    _run("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", "--file", str(folder / DATABASE)])
    left_out = _pack(settings.RUNS_DIR, folder / FILES)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "made_at": at.isoformat(),
        "key": _fingerprint(settings.SECRET_KEY),
        "files": {name: _digest(folder / name) for name in (DATABASE, FILES)},
        **asdict(left_out),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def backup_restore(folder: Path) -> Mapping[str, Any]:
    """Restore a backup into a database without tables, and where there are no files of programs. `migrate` must then
    give the rights. No number that was used since the backup is used again."""
    manifest = _manifest(folder)
    if manifest["key"] not in map(_fingerprint, (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)):
        raise BackupFailed(
            "SECRET_KEY is not the one of this backup, nor is any of SECRET_KEY_FALLBACKS: stored secrets would be"
            " lost."
        )
    if tables := connection.introspection.table_names():
        raise BackupFailed(f"The database is not empty: it has {len(tables)} tables. Restore into a new one.")
    if settings.RUNS_DIR.exists() and any(settings.RUNS_DIR.iterdir()):
        raise BackupFailed(f"{settings.RUNS_DIR} is not empty.")
    if beyond := steps_beyond(_steps_of(folder)):
        raise BackupFailed(beyond_sentence("The backup", beyond))
    options = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
    _run("pg_restore", [*options, "--dbname", _database()["NAME"], str(folder / DATABASE)])
    _skip_numbers()
    try:
        settings.RUNS_DIR.mkdir(parents=True, exist_ok=True)
        _unpack(folder / FILES, settings.RUNS_DIR)
    except OSError as error:
        raise BackupFailed(
            f"{settings.RUNS_DIR} cannot be written: {error.strerror or error}. The database is restored already: mend"
            " this, empty the folder, and restore again into a new database."
        ) from None
    return manifest


def _steps_of(folder: Path) -> list[tuple[str, str]]:
    """Return the migrations (app, name) that the database of a backup has."""
    rows = _run("pg_restore", ["--data-only", "--table=django_migrations", "--file=-", str(folder / DATABASE)])
    lines = (re.match(r"\d+\t(\w+)\t(\w+)\t", line) for line in rows.splitlines())
    return [(row[1], row[2]) for row in lines if row]


def _skip_numbers() -> None:
    """Skip numbers that were used after the backup. Their rows are gone, but others still know them: the shared folder
    of a cluster has what such a job saved, and another tenant's job with the same number would continue from there
    (decision 0323)."""
    with as_owner(), connection.cursor() as cursor:
        for table in KNOWN_OUTSIDE:
            cursor.execute(
                "SELECT setval(sequence, nextval(sequence) + %s) FROM pg_get_serial_sequence(%s, 'id') AS sequence",
                [SKIPPED, table],
            )


def _manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a backup, and check that the backup is whole."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise BackupFailed(f"{folder} holds no whole backup: {error}") from None
    if manifest.get("format") not in (FORMAT, EARLIER_FORMAT):
        raise BackupFailed(f"The backup is in the format {manifest.get('format')!r}; this version reads {FORMAT!r}.")
    for name, digest in manifest["files"].items():
        if not (folder / name).is_file() or _digest(folder / name) != digest:
            raise BackupFailed(f"{folder / name} is not what was written: it is missing, or was changed.")
    return manifest


def _fingerprint(key: str) -> str:
    return hashlib.blake2b(key.encode(), key=PURPOSE, digest_size=16).hexdigest()


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@dataclass(frozen=True)
class LeftOut:
    """What a backup lacks of the files of programs: files and folders that our account may not read, and folders of
    which not all is in it, as it lies too deep or its path is too long."""

    unreadable: Sequence[str] = ()
    too_deep: Sequence[str] = ()


def _pack(root: Path, target: Path) -> LeftOut:
    """Pack each file as it is when it is read, and links as links: logs grow meanwhile, and a file that is gone by then
    is left out. An error in writing the archive ends the backup."""
    if root.is_dir() and not os.access(root, os.R_OK | os.X_OK, effective_ids=True):
        raise BackupFailed(f"{root} may not be read by this account: make the backup as root.")
    unreadable, too_deep = list[str](), dict[str, None]()
    names: dict[tuple[int, int], str] = {}  # of the files with several names, each by its device and number
    with tarfile.open(target, "w:gz", compresslevel=1, dereference=True) as packed:
        for entry in looked_through(root, deepest=MOST_HELD) if root.is_dir() else ():
            above, path = "/".join(entry.above), "/".join((*entry.above, entry.name))
            if not entry.above:  # another job: its file may have got the number of one that is gone by now
                names.clear()
            if entry.name == SECRETS and "plan.json" in os.listdir(entry.folder):
                continue  # the secrets of processes in plain text: the database has them, encrypted
            if len(os.fsencode(path)) > LONGEST_PATH:  # nobody could unpack it
                if len(os.fsencode(above)) <= LONGEST_PATH:
                    too_deep[above] = None
                continue
            if entry.is_folder:
                packed.addfile(_info_of(path, tarfile.DIRTYPE, entry.about))
                if _is_closed(entry):
                    unreadable.append(path)
                elif len(entry.above) == MOST_HELD - 1 and not _is_empty(entry):
                    too_deep[path] = None
                continue
            if stat.S_ISLNK(entry.about.st_mode):
                with suppress(OSError):  # it is gone by now
                    link = _info_of(path, tarfile.SYMTYPE, entry.about)
                    link.linkname = os.readlink(entry.name, dir_fd=entry.folder)
                    packed.addfile(link)
                continue
            try:
                descriptor = entry.opened()
            except PermissionError:
                unreadable.append(path)
                continue
            except OSError:  # the sockets of running gangs, and files that are gone by now
                continue
            with open(descriptor, "rb") as content:
                about = packed.gettarinfo(arcname=path, fileobj=content)
                first = _first_name(names, descriptor, about.name)
                if first == about.name:
                    packed.addfile(about, AsLongAs(content, about.size))
                else:
                    about.type, about.linkname, about.size = tarfile.LNKTYPE, first, 0
                    packed.addfile(about)
    return LeftOut(tuple(unreadable), tuple(too_deep))


def lacks(manifest: Mapping[str, Any]) -> list[str]:
    """Return sentences about the files of programs that a backup lacks. One of an early version does not know."""
    sentences = []
    if unreadable := manifest.get("unreadable"):
        what = "file or folder of programs is" if len(unreadable) == 1 else "files or folders of programs are"
        sentences.append(
            f"{len(unreadable)} {what} not in it, as this account may not read them: {_names(unreadable)}."
            " Make the backup as root."
        )
    if too_deep := manifest.get("too_deep"):
        what = "folder of programs is" if len(too_deep) == 1 else "folders of programs are"
        sentences.append(
            f"{len(too_deep)} {what} not in it as a whole, as what is below lies more than {MOST_HELD} folders deep or"
            f" has a path of more than {LONGEST_PATH:,} bytes: {_names(too_deep)}. Copy that by other means."
        )
    return sentences


def _names(paths: Sequence[str]) -> str:
    first = [path if len(path) <= LONGEST_NAME else f"{path[:LONGEST_NAME]}..." for path in paths[:MOST_NAMES]]
    return ", ".join([*first, "..."] if len(paths) > MOST_NAMES else first)


def _is_empty(folder: FolderEntry) -> bool:
    """Return whether nothing is in a folder. One that cannot be looked at may have something."""
    try:
        descriptor = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder.folder)
    except OSError:
        return False
    try:
        return not os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _is_closed(folder: FolderEntry) -> bool:
    """Return whether our account may not look into a folder. In one of its own, `looked_through` gives it the right."""
    if folder.about.st_uid == os.geteuid():
        return False
    return not os.access(folder.name, os.R_OK | os.X_OK, dir_fd=folder.folder, effective_ids=True)


def _first_name(names: dict[tuple[int, int], str], descriptor: int, name: str) -> str:
    """Return the name under which an open file was packed before, or this one, which is kept in `names`."""
    about = os.fstat(descriptor)
    return name if about.st_nlink == 1 else names.setdefault((about.st_dev, about.st_ino), name)


def _info_of(path: str, kind: bytes, about: os.stat_result) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.mtime = kind, stat.S_IMODE(about.st_mode), about.st_mtime
    info.uid, info.gid = about.st_uid, about.st_gid
    return info


def _unpack(packed: Path, root: Path) -> None:
    """Unpack what `_pack` wrote: folders, files, further names of them and links below `root`, each with its mode. A
    link may lead anywhere, and nothing is written through one.

    The `filter` of `extractall`, which checks the same, is missing in some Python 3.11, such as that of Debian 12."""
    with tarfile.open(packed) as files:
        entries, present, links = files.getmembers(), set[str](), set[Path]()
        for entry in entries:
            place = Path(entry.name)
            ours = entry.isreg() or entry.isdir() or entry.issym() or (entry.islnk() and entry.linkname in present)
            leads_out = place.is_absolute() or ".." in place.parts or not links.isdisjoint((place, *place.parents))
            if leads_out or not ours:
                raise BackupFailed(f"{packed} has an entry that no backup writes: {entry.name}.")
            if entry.isreg():
                present.add(entry.name)
            if entry.issym():
                links.add(place)
        files.extraction_filter = lambda entry, _: entry
        files.extractall(root, entries)  # noqa: S202  each entry was checked


class AsLongAs:
    """A file that others write meanwhile, read as if it had exactly `size` bytes: later bytes are left out, and missing
    ones become zeros. An archive gives a file's length before its content, and a saved state may be larger than memory.
    """

    def __init__(self, content: BinaryIO, size: int) -> None:
        self._content, self._rest = content, size

    def read(self, most: int = -1, /) -> bytes:
        wanted = self._rest if most < 0 else min(most, self._rest)
        self._rest -= wanted
        return self._content.read(wanted).ljust(wanted, b"\0")


# --- PostgreSQL's own programs


def _database() -> Mapping[str, Any]:
    """Return the connection settings of the owning role, if there is one: the serving role may not read everything."""
    owner: Mapping[str, Any] = settings.DATABASE_OWNER or {}
    return {**settings.DATABASES["default"], **{name: value for name, value in owner.items() if value}}


def _run(program: str, arguments: list[str]) -> str:
    """Run a program of PostgreSQL against our database, and return what it writes."""
    database = _database()
    options = database.get("OPTIONS", {})
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PGHOST": str(database.get("HOST", "")),
        "PGPORT": str(database.get("PORT", "")),
        "PGUSER": str(database.get("USER", "")),
        "PGPASSWORD": str(database.get("PASSWORD", "")),
        "PGDATABASE": str(database["NAME"]),
        "PGSSLMODE": str(options.get("sslmode", "")),
        "PGSSLROOTCERT": str(options.get("sslrootcert", "")),
        "PGSSLCERT": str(options.get("sslcert", "")),
        "PGSSLKEY": str(options.get("sslkey", "")),
    }
    words = [str(_program(program)), *arguments]
    named = {name: value for name, value in environment.items() if value}
    ended = subprocess.run(words, env=named, capture_output=True, text=True, check=False)
    if ended.returncode:
        if NO_RIGHT.search(ended.stderr) and not has_owner():
            raise BackupFailed(f"{program} needs more rights than DATABASE_URL gives. Say DATABASE_OWNER_URL as well.")
        error, *_ = ended.stderr.split("\nCommand was:")  # what follows is SQL, often of many lines
        raise BackupFailed(f"{program} failed: {error.strip()[-2_000:]}.")
    return ended.stdout


def _program(name: str) -> Path:
    """Return the oldest program that is not older than the server: an older one refuses to read it, and a newer one
    may say what the server does not know."""
    server = connection.cursor().connection.info.server_version // 10_000
    versions = {place: _major_version(place) for place in _places(name)}
    if not (able := [place for place, version in versions.items() if version >= server]):
        raise BackupFailed(f"No {name} of version {server} or newer is here: install PostgreSQL's client programs.")
    return min(able, key=versions.__getitem__)


def _major_version(place: Path) -> int:
    line = subprocess.run([place, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"\S+ \(PostgreSQL\) (\d+)", line)
    return int(version[1]) if version else 0


def _places(name: str) -> Iterator[Path]:
    if installed := shutil.which(name):
        yield Path(installed)
    yield from (folder / name for folder in programs.postgres_folders() if (folder / name).is_file())
