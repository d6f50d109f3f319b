"""Read the files of a job: what its program has in its folder, which outlives each start of the job. They are listed
and opened where the engine of the job's pool keeps them: on this machine, or in the shared folder of a cluster.

Everybody who may read a job's log may read them, with one exception: files that came with the program's archive are for
people who may read the program's text.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings

from scheduling.catalogue import archive_names, may_read
from scheduling.engines.base import WrongEngine
from scheduling.engines.folders import job_folders
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.unpack import OURS
from scheduling.jobs.read_stranger_files import (
    OpenedFile,
    Parts,
    StrangerFile,
    file_opened,
    files_listed,
    path_shown,
)
from scheduling.market.view import jobs_undone
from scheduling.models import PROGRAM, Award, RentState, Run, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.programs.stored import OPERATOR, stored_program
from tenants.access import Access, Refused
from tenants.common.zones import day_of, midnight

MOST_FILES = 1_000  # of one listing
NO_PROGRAM = "The job runs no program, so it has no files."
NOT_BEGUN = "The job has not begun, so it has no files yet."
NONE_YET = "Its program has written no files."
NONE_LEFT = "The job has no files here any more."
UNDONE = "Nothing is kept of what it saved: it was never done, and what it paid came back."
NOT_DONE = "Parts of a job are worth nothing in this pool until all of it is done: its files are given then."
CLOSED = "The folder of this job is closed to this server, which runs under another account than its engine."
NOT_SEEN = "The files of this job lie in the shared folder of {engine}, which this server does not see."
UNKNOWN_FILE = "unknown_file"
NO_SUCH_FILE = Refused(UNKNOWN_FILE, "The job has no such file.")
NO_FILE = Refused(UNKNOWN_FILE, "This is no file of the job's own: folders, links, pipes and devices are not sent.")
UNREADABLE = Refused(UNKNOWN_FILE, "The job's program has closed this file to others, this server among them.")


@dataclass(frozen=True)
class JobFile:
    """A file of a job. `path` begins at the job's folder, and is written as `path_shown` writes it."""

    path: str
    bytes: int
    changed_at: datetime


@dataclass(frozen=True)
class JobFiles:
    """A listing of a job's files. `more` says that others follow the last one. `left_out` counts links, pipes, devices
    and files that cannot be read. `sentence` says why there are none, where there are none. `is_told` says whether a
    person who did not ask wants to know. From `kept_until` on the files may be removed; it is None where the clock does
    not remove them."""

    files: tuple[JobFile, ...] = ()
    more: bool = False
    left_out: int = 0
    sentence: str = ""
    is_told: bool = False
    kept_until: datetime | None = None

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class _Place:
    """Where a job's folder is: `inner` is its path below `root`."""

    root: Path
    inner: Parts
    is_ours: bool  # whether it is on this machine, where the clock removes files
    engine: str


def job_files(job: TrainingJob, by: Access, at: datetime, *, after: Parts = (), most: int = MOST_FILES) -> JobFiles:
    """Return the job's files that come after a path, in the order of paths. Needs the tenant's scope; the job comes
    with its pool."""
    place = _place(job)
    if isinstance(place, JobFiles):
        return place
    try:
        listing = files_listed(place.root, place.inner, most, after=after, skip=_hidden(job, by))
    except OSError as error:
        return _why_none(job, place, error, at)
    files = tuple(map(_row, listing.files))
    until = _kept_until(job) if place.is_ours else None
    none = "" if files or listing.more else NONE_YET
    return JobFiles(files, listing.more, listing.left_out, none, is_told=bool(files), kept_until=until)


def job_file(job: TrainingJob, by: Access, at: datetime, path: Parts) -> OpenedFile | Refused:
    """Return one of the job's files, open for reading. Needs the tenant's scope; the job comes with its pool."""
    place = _place(job)
    if isinstance(place, JobFiles):
        return Refused(UNKNOWN_FILE, place.sentence)
    if not path or _hidden(job, by)(path):
        return NO_SUCH_FILE
    try:
        return file_opened(place.root, place.inner, path) or NO_FILE
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            return UNREADABLE
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):
            return NO_FILE
        sentence = _why_none(job, place, error, at).sentence
        return NO_SUCH_FILE if sentence == NONE_LEFT else Refused(UNKNOWN_FILE, sentence)


def _place(job: TrainingJob) -> _Place | JobFiles:
    """Return where the job's files are; or why it gives none, whatever lies there."""
    if PROGRAM not in job.spec:
        return JobFiles(sentence=NO_PROGRAM)
    run = Run.objects.filter(job=job).order_by("-pk").only("pk", "engine").first()
    if run is None:
        return JobFiles(sentence=NOT_BEGUN)
    if jobs_undone().filter(pk=job.pk).exists():
        return JobFiles(sentence=UNDONE, is_told=True)
    pieces = Award.objects.filter(job=job, work__isnull=False, rent=RentState.OPEN)
    if job.pool.parts_worth_nothing and pieces.exists():  # nothing of it is paid yet, and all of it may come back (D16)
        return JobFiles(sentence=NOT_DONE, is_told=True)
    try:
        folders = job_folders(run.engine, settings.RUNS_DIR, settings.ENGINES_FILE)
    except WrongEngine:
        return JobFiles(sentence=NOT_SEEN.format(engine=run.engine), is_told=True)
    work = Folder(folders.root, f"job-{job.pk}", "").work.relative_to(folders.root)
    return _Place(folders.root, tuple(part.encode() for part in work.parts), folders.is_ours, run.engine)


def _why_none(job: TrainingJob, place: _Place, error: OSError, at: datetime) -> JobFiles:
    """Return why there are no files where the folder cannot be opened."""
    is_closed = error.errno in (errno.EACCES, errno.EPERM)
    if place.is_ours and is_closed:
        return JobFiles(sentence=CLOSED, is_told=True)
    if place.is_ours:
        sentence = files_over(job, at)
        return JobFiles(sentence=sentence or NONE_LEFT, is_told=bool(sentence))
    if is_closed or not os.path.exists(place.root / "alive"):
        return JobFiles(sentence=NOT_SEEN.format(engine=place.engine), is_told=True)
    return JobFiles(sentence=NONE_LEFT)


def _hidden(job: TrainingJob, by: Access) -> Callable[[Parts], bool]:
    """Return a test for paths that this reader does not see: the platform's own, and files that came with a program
    whose text the reader may not read. Every path is hidden where it is not known any more which files came."""
    ours = tuple(part.encode() for part in OURS.parts)
    if (paths := _archive_paths(job, by)) is None:
        return lambda path: True
    return lambda path: path[: len(ours)] == ours or path in paths


def _archive_paths(job: TrainingJob, by: Access) -> frozenset[Parts] | None:
    """Return the files of the program's archive if this reader may not read them, else none. Return None if the archive
    is not kept any more."""
    named = job.spec[PROGRAM]
    name, version, owner = named["name"], named.get("version"), named.get("owner")
    if version is None:  # it is built in
        return frozenset()
    stored = stored_program(tenant_id=job.tenant_id, name=name, version=version, owner=owner, with_archive=False)
    if stored is None or not stored.program.archive or may_read(by, stored.program.owner.tenant or OPERATOR):
        return frozenset()
    return archive_names(stored.program.archive)


def _kept_until(job: TrainingJob) -> datetime | None:
    """Return when the job's files may be removed, as `scheduling.app.retention` does: by whole days of UTC after its
    end."""
    days: int = settings.RETENTION_RUN_FILES_DAYS
    if not days or job.ended_at is None or job.state in LIVE_STATES:
        return None
    return midnight(day_of(job.ended_at, UTC), UTC) + timedelta(days=days + 1)


def files_over(job: TrainingJob, at: datetime) -> str:
    """Return since when and by which rule the job's files on this machine may be removed, logs among them; an empty
    text where they may not."""
    until = _kept_until(job)
    if until is None or at < until:
        return ""
    days, day = settings.RETENTION_RUN_FILES_DAYS, day_of(until, UTC)
    span = "a day" if days == 1 else f"{days:,} days"
    return f"Files of a job are kept for {span} after its end; those of this one could go from {day} (UTC) on."


def _row(file: StrangerFile) -> JobFile:
    return JobFile(path_shown(file.path), file.bytes, _moment(file.changed_at))


def _moment(seconds: float) -> datetime:
    """Return the time of these seconds since 1970. A program may have given its file a time that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)
