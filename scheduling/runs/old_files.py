"""Files of programs whose jobs ended long ago: saved states, logs, progress. What the market says of them stays."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db.models import Exists, OuterRef

from scheduling.models import Run, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.models.runs import OPEN
from tenants.scoping import scope_disabled

FOLDER = re.compile(r"job-([1-9][0-9]*)")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Removed:
    """Jobs whose files are gone, and how many bytes those were; and jobs whose files somebody else owns."""

    jobs: tuple[int, ...]
    bytes: int
    refused: tuple[int, ...]


def jobs_with_old_files(root: Path, before: datetime) -> list[int]:
    """Ended before that moment, with nothing that runs or may run any more."""
    names = [entry.name for entry in root.iterdir()] if root.is_dir() else []
    numbers = [int(match[1]) for name in names if (match := FOLDER.fullmatch(name))]
    with scope_disabled("files of every tenant's programs are as old"):
        running = Run.objects.filter(job=OuterRef("pk"), state__in=OPEN)
        jobs = TrainingJob.objects.filter(pk__in=numbers, ended_at__lt=before).exclude(state__in=LIVE_STATES)
        return list(jobs.filter(~Exists(running)).order_by("pk").values_list("pk", flat=True))


def files_remove(root: Path, jobs: Sequence[int]) -> Removed:
    """A folder that cannot be removed whole is named, and tried again another day."""
    removed, refused, size = list[int](), list[int](), 0
    for job in jobs:
        folder = root / f"job-{job}"
        held = folder_bytes(folder)
        try:
            shutil.rmtree(folder)
        except OSError as error:
            log.warning("the files of job %s could not be removed: %s", job, error)
            refused.append(job)
        else:
            removed.append(job)
            size += held
    return Removed(tuple(removed), size, tuple(refused))


def folder_bytes(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
