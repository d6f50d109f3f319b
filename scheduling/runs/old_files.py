"""Remove files of programs whose jobs ended long ago: saved states, logs, progress. The market's own records of them
stay. Also remove what was saved of jobs that had everything refunded because they were never done (D16): at once, but
without their logs."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from stat import S_ISREG

from django.db.models import Exists, OuterRef

from scheduling.engines.launcher.strangers import looked_through
from scheduling.engines.launcher.strangers import removed as removed_folder
from scheduling.market.view import jobs_undone
from scheduling.models import Run, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.models.runs import OPEN
from tenants.scoping import scope_disabled

FOLDER = re.compile(r"job-([1-9][0-9]*)")
SAVED = "work"  # the folder that a program keeps from one of its job's gangs to the next
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Removed:
    """What was removed: the jobs whose files are gone, and how many bytes those had. `refused` are the jobs whose files
    could not be removed, for example because another user owns them."""

    jobs: tuple[int, ...]
    bytes: int
    refused: tuple[int, ...]


def jobs_with_old_files(root: Path, before: datetime) -> list[int]:
    """Return the jobs with files here that ended before that moment, and of which nothing runs or may run any more."""
    numbers = _jobs_in(root)
    with scope_disabled("files of every tenant's programs are as old"):
        running = Run.objects.filter(job=OuterRef("pk"), state__in=OPEN)
        jobs = TrainingJob.objects.filter(pk__in=numbers, ended_at__lt=before).exclude(state__in=LIVE_STATES)
        return list(jobs.filter(~Exists(running)).order_by("pk").values_list("pk", flat=True))


def jobs_with_worthless_states(root: Path) -> list[int]:
    """Return the jobs that still have a saved state though they were never done and their parts are worth nothing, and
    of which nothing runs."""
    numbers = [job for job in _jobs_in(root) if os.path.isdir(root / f"job-{job}" / SAVED)]  # not a closed one
    with scope_disabled("files of every tenant's programs are kept together"):
        running = Run.objects.filter(job=OuterRef("pk"), state__in=OPEN)
        jobs = jobs_undone().filter(~Exists(running), pk__in=numbers)
        return list(jobs.order_by("pk").values_list("pk", flat=True))


def _jobs_in(root: Path) -> list[int]:
    """Return the jobs that have a folder here; none where our account may not look: another one has to remove them."""
    try:
        names = os.listdir(root)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        log.warning("%s cannot be looked at, so that no files of programs are removed there: %s", root, error.strerror)
        return []
    return [int(match[1]) for name in names if (match := FOLDER.fullmatch(name))]


def states_remove(root: Path, jobs: Sequence[int]) -> Removed:
    """Remove what the jobs' programs saved, and leave the rest of their folders."""
    return _remove({job: root / f"job-{job}" / SAVED for job in jobs})


def files_remove(root: Path, jobs: Sequence[int]) -> Removed:
    """Remove the jobs' folders. One that cannot be removed as a whole is reported, and tried again another day."""
    return _remove({job: root / f"job-{job}" for job in jobs})


def _remove(folders: Mapping[int, Path]) -> Removed:
    removed, refused, size = list[int](), list[int](), 0
    for job, folder in folders.items():
        try:
            held = removed_folder(folder)
        except OSError as error:
            log.warning("the files of job %s could not be removed: %s", job, error)
            refused.append(job)
        else:
            removed.append(job)
            size += held
    return Removed(tuple(removed), size, tuple(refused))


def folder_bytes(folder: Path) -> int:
    """Return the bytes of a folder's files; 0 if it is gone by now, or closed to our account."""
    try:
        return sum(entry.about.st_size for entry in looked_through(folder) if S_ISREG(entry.about.st_mode))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return 0
