"""What all engines share: they write a gang's plan for its launcher, and read the launcher's records."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from scheduling.engines.base import Delivered, Gang, Generation, Member, OwnProgram, Status
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.launcher.unpack import packed
from scheduling.engines.ranks import members, ranked
from scheduling.programs.sbatch.request import MEBIBYTES, MEMORY

LEAST_ROOM = 16 * 2**20  # with fewer free bytes a gang can hardly begin, or save
# The most grace for a gang whose end is moved at each boundary. It learns whether it continues only some seconds before
# it would have to save.
MOST_GRACE_BETWEEN_DECISIONS = 4.0
LOAD = 'n=$1; shift; while [ "$n" -gt 0 ]; do module load "$1" || exit; shift; n=$((n - 1)); done; exec "$@"'
Phase = dict[str, Any]  # a generation as a plan has it: number, at, end, and the members with their ranks


def continued(
    phases: Sequence[Phase], generations: Sequence[Generation], now: float, *, anew: bool = False
) -> list[Phase]:
    """Return the phases of a plan from now on, with `generations` in place of all phases from the first of them on.

    Members that stay keep their ranks, and the same generations given again change nothing. With `anew`, each
    generation is started anew, so its ranks begin at 0."""
    first = generations[0].number
    earlier = [phase for phase in phases if phase["number"] < first]
    earlier = [phase for phase, later in pairwise([*earlier, None]) if phase and (later is None or later["at"] > now)]
    if earlier:
        earlier[-1] = earlier[-1] | {"end": min(earlier[-1]["end"], generations[0].at)}
    before = [Member(*each) for each in earlier[-1]["members"]] if earlier else []
    placed = [(each, members(each.servers)) for each in generations] if anew else ranked(generations, before)
    for generation, gang in placed:
        rows = [[member.role, member.rank, member.server] for member in gang]
        if earlier and earlier[-1]["members"] == rows and earlier[-1]["end"] == generation.at:
            earlier[-1] = earlier[-1] | {"end": generation.end}
        else:
            earlier.append({"number": generation.number, "at": generation.at, "end": generation.end, "members": rows})
    return earlier


def status_of(record: Mapping[str, Any]) -> Status:
    """Return a launcher's record as the `Status` that an engine has to give."""
    return Status(
        state=record["state"],
        started_at=record.get("started_at"),
        ended_at=record.get("ended_at"),
        end=record.get("end", ""),
        detail=record.get("detail", ""),
        exit_code=record.get("exit_code"),
        progress=record.get("progress", {}),
        restarts=record.get("restarts", 0),
        delivered=tuple(Delivered(*span) for span in record.get("delivered", ())),
    )


def own_part(gang: Gang, unpack: Sequence[str]) -> dict[str, Any] | None:
    """Return what a plan says of a program of the catalogue, or None where the gang runs a built-in program.

    `unpack` are the words after Python on the command line that puts its files into the job's folder."""
    if (own := gang.own) is None:
        return None
    command = replace(own.command, words=with_modules(own.command.words, own.modules))
    most = own.limits.get("output_mebibytes")
    grace = min(own.grace_seconds, MOST_GRACE_BETWEEN_DECISIONS) if gang.open_ended else own.grace_seconds
    return {
        "command": asdict(command),
        "job": own.job,
        "tenant": gang.tenant,
        "slot_seconds": own.slot_seconds,
        "keeps_size": own.keeps_size,
        "grace_seconds": min(grace, own.slot_seconds),
        "output_mb": None if most is None else most * most_members(gang),
        "unpack": list(unpack),
    }


def with_modules(words: Sequence[str], modules: Sequence[str]) -> tuple[str, ...]:
    """Return a command line whose shell loads the modules and then runs the words. Only a shell can load modules; it
    interprets none of the words itself."""
    if not modules:
        return tuple(words)
    return ("bash", "-lc", LOAD, "bash", str(len(modules)), *modules, *words)


def write_program(folder: Folder, own: OwnProgram) -> None:
    """Write the program's files and its secrets for the launcher. Secrets are not in the plan, as plans are backed
    up."""
    files.write_bytes(folder.program, packed(own.script, own.archive or b""))
    if own.secrets:
        is_shared = folder.ours.stat().st_mode & stat.S_ISGID  # with the tenant's user, who starts the launcher
        files.write(folder.secrets, dict(own.secrets), mode=files.READABLE if is_shared else files.OURS)


def limits_of(limits: ProcessLimits, gang: Gang) -> ProcessLimits:
    """Return the engine's limits, replaced by those that the program sets for a unit. A gang that bought memory may
    use it."""
    own = gang.own.limits if gang.own else {}
    bought = max((amounts.get(MEMORY, 0.0) for amounts in gang.amounts.values()), default=0.0)
    return replace(
        limits,
        memory_mb=own.get("memory_mebibytes", max(limits.memory_mb, int(bought * MEBIBYTES))),
        open_files=own.get("open_files", limits.open_files),
    )


def processor_seconds(limits: ProcessLimits, gang: Gang, seconds: float) -> int:
    """Return the processor time that one process may use, in a gang that lasts for `seconds`."""
    limit = gang.own.limits.get("processor_seconds") if gang.own else None
    return limits.cpu_seconds(seconds) if limit is None else limit


def round_up(amount: float) -> int:
    """Round up to a whole number. An amount less than 1e-9 above a whole number is rounded down to it."""
    return -int(-(amount - 1e-9) // 1)


def most_members(gang: Gang) -> int:
    """Return the largest number of members that the gang has at once, at least one."""
    sizes = (sum(sum(roles.values()) for roles in each.servers.values()) for each in gang.generations)
    return max(1, *sizes)


def room_alerts(*folders: Path) -> tuple[str, ...]:
    """Return a sentence for each folder of an engine whose disk is full, or whose free space cannot be read."""
    alerts = []
    for folder in folders:
        try:
            free = shutil.disk_usage(folder).free
        except FileNotFoundError:
            continue  # it is made for the first gang
        except OSError as error:
            alerts.append(f"The folder {folder} cannot be looked at: {error.strerror or error}.")
            continue
        if free < LEAST_ROOM:
            alerts.append(f"The disk of {folder} is full: gangs cannot begin there, nor save. Make room.")
    return tuple(alerts)
