"""Where the files of an engine's gangs lie, each job's in a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scheduling.engines.local.engine import LocalEngine
from scheduling.engines.slurm.configured import settings_in


@dataclass(frozen=True)
class JobFolders:
    """The folder that has those of the jobs. `is_ours` says that it is on this machine, where the clock removes files
    and our account may be kept out; else servers of a cluster share it with us."""

    root: Path
    is_ours: bool


def job_folders(engine: str, own: Path, engines_file: str | None) -> JobFolders:
    """Return where the jobs of the engine of this name have their folders. `own` is where those of this machine are,
    and `engines_file` describes the clusters; raises `WrongEngine` where the engine is none of them."""
    if engine == LocalEngine.name:
        return JobFolders(own, is_ours=True)
    return JobFolders(Path(settings_in(engines_file, engine).shared), is_ours=False)
