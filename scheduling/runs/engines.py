"""The engines of this installation: the local one, and those that the file of `ENGINES_FILE` names.

A third kind is an `Engine` of `scheduling.engines.base` in a folder of its own, and a case in each function below that
asks for the name. Few other modules ask which kind an engine is: `engines.folders`, where a job's files lie;
`operator.pools`, where parts may be worth nothing; `operator.cluster_import`, which asks Slurm for its servers; and the
commands `engine` and `up`. `KNOWING` in tests/engines/test_every_engine.py lists them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR

from django.conf import settings
from django.db import connection

from scheduling.engines.base import Accounted, Engine, Timings, WrongEngine
from scheduling.engines.folders import job_folders
from scheduling.engines.launcher.gpus import Gpu
from scheduling.engines.local.engine import TIMINGS, LocalEngine
from scheduling.engines.local.gpus import gpus_of
from scheduling.engines.programs import PROGRAMS
from scheduling.engines.slurm.accounting import accounted
from scheduling.engines.slurm.commands import Commands
from scheduling.engines.slurm.configured import settings_in
from scheduling.engines.slurm.engine import SlurmEngine
from scheduling.engines.slurm.settings import SlurmSettings
from scheduling.models import Pool, ServerCapacity

LOCAL = "local"
NOBODY_SECONDS = 60.0
_LOCK = 0x656E67  # the first key of the lock that lets one engine of a name run at once


def run_folders() -> list[Path]:
    """Return the folders with the files of programs, each job's in a folder of its name: our own, and those that
    clusters share with us, if this machine has them. One that our account may not look at is there: who works in it
    hears of that."""
    folders = [settings.RUNS_DIR]
    for name in Pool.objects.exclude(engine=LOCAL).order_by("engine").values_list("engine", flat=True).distinct():
        with suppress(WrongEngine):  # it is not configured any more
            folders.append(job_folders(name, settings.RUNS_DIR, settings.ENGINES_FILE).root)
    return [folder for folder in dict.fromkeys(folders) if not _is_missing(folder)]


def _is_missing(folder: Path) -> bool:
    try:
        return not S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def engine_lock(name: str) -> tuple[int, int]:
    """Return the two keys of the database's lock that the engine of this name holds while it runs."""
    return _LOCK, zlib.crc32(name.encode()) - 2**31


def engines_at_work(names: Iterable[str]) -> set[str]:
    """Return the names whose lock is held by a process. PostgreSQL lists keys without their sign."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = %s AND objsubid = 2"
            " AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            [_LOCK],
        )
        held = {key for (key,) in cursor.fetchall()}
    return {name for name in names if engine_lock(name)[1] % 2**32 in held}


def local_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs of this machine that jobs may use; raises `WrongEngine` where they are not as LOCAL_GPUS says."""
    return gpus_of(settings.LOCAL_GPUS)


def local_engine(gpus: Sequence[Gpu] = ()) -> LocalEngine:
    """Return the engine of this machine, whose files are below the data folder. Whoever starts no gang needs no
    `gpus`."""
    return LocalEngine(settings.RUNS_DIR, Path(settings.BASE_DIR), PROGRAMS, shared=settings.SHARED_DIR, gpus=gpus)


def slurm_engine(name: str) -> SlurmEngine:
    """Return the engine of a cluster; raises `WrongEngine` with a sentence."""
    return SlurmEngine(name, slurm_settings(name), settings.RUNS_DIR, Path(settings.BASE_DIR), PROGRAMS)


def engine_named(name: str) -> Engine:
    """Return the engine of this name; raises `WrongEngine` if there is none, or its settings are wrong."""
    return local_engine(local_gpus()) if name == LOCAL else slurm_engine(name)


def timings_of(name: str) -> Timings:
    """Return the times that the engine can keep."""
    return TIMINGS if name == LOCAL else slurm_settings(name).timings


def units_sold(name: str) -> dict[str, dict[str, int]]:
    """Return the units of the engine's pools by server and resource. A server that is in no pool is left out."""
    sold: dict[str, dict[str, int]] = {}
    rows = ServerCapacity.objects.filter(server__pool__engine=name).order_by("server__name", "resource_id")
    for server, resource, units in rows.values_list("server__name", "resource__name", "units"):
        sold.setdefault(server, {})[resource] = units
    return sold


def patience_of(name: str) -> float:
    """Return the market's patience with this engine in seconds, or `NOBODY_SECONDS` if it is not configured any
    more."""
    try:
        return timings_of(name).patience
    except WrongEngine:
        return NOBODY_SECONDS


def accounted_of(pool: Pool, first: int, last: int) -> Sequence[Accounted] | str:
    """Return what the accounting of the pool's cluster says of these slots, or a sentence why it says nothing."""
    if pool.engine == LOCAL:
        return "The engine of this machine has no accounting of its own: what was delivered is known."
    try:
        commands = Commands(slurm_settings(pool.engine))
    except WrongEngine as error:
        return str(error)
    return accounted(commands, pool.slot_start(first).timestamp(), pool.slot_start(last + 1).timestamp())


def engine_openness(name: str) -> str:
    """Return a sentence about what programs of several tenants can see of each other on the engine's cluster, or ""."""
    try:
        return "" if name == LOCAL else slurm_settings(name).openness
    except WrongEngine as error:
        return str(error)


def engine_flaw(name: str, slot_seconds: int) -> str:
    """Return a sentence why a pool cannot have this engine, or "" if it can."""
    try:
        timings = timings_of(name)
    except WrongEngine as error:
        return str(error)
    if slot_seconds < timings.least_slot:
        return f"Slots of the engine {name} last {timings.least_slot:g} seconds at least, not {slot_seconds}."
    return ""


def slurm_settings(name: str) -> SlurmSettings:
    """Return the settings as the file has them now; raises `WrongEngine`."""
    return settings_in(settings.ENGINES_FILE, name)
