"""What every engine writes into a gang's plan, and reads in what a launcher says."""

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

LEAST_ROOM = 16 * 2**20  # bytes below which hardly a gang can begin, or save
# Of a gang whose end is moved on at each boundary: it hears whether it goes on some seconds before it has to save.
MOST_GRACE_BETWEEN_DECISIONS = 4.0
LOAD = 'n=$1; shift; while [ "$n" -gt 0 ]; do module load "$1" || exit; shift; n=$((n - 1)); done; exec "$@"'
Phase = dict[str, Any]  # a generation as a plan has it: number, at, end, and the members with their ranks


def continued(
    phases: Sequence[Phase], generations: Sequence[Generation], now: float, *, anew: bool = False
) -> list[Phase]:
    """The phases of a plan from now on, with these generations in place of all from the first of them on. Members
    who stay keep their ranks; told again, it is the same. `anew`: each generation is started anew, so that its ranks
    begin at 0."""
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
    """A launcher's record as the contract has it."""
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
    """What a plan says of a program that people brought; None: the gang runs one of ours. `unpack`: the words after
    Python that put its files into the job's folder."""
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
    """The words behind a shell that loads these first, as only a shell can. It reads none of the words itself."""
    if not modules:
        return tuple(words)
    return ("bash", "-lc", LOAD, "bash", str(len(modules)), *modules, *words)


def write_program(folder: Folder, own: OwnProgram) -> None:
    """Its files and its secrets, for the launcher. A plan has no secrets in it: plans are backed up."""
    files.write_bytes(folder.program, packed(own.script, own.archive or b""))
    if own.secrets:
        is_shared = folder.ours.stat().st_mode & stat.S_ISGID  # with the user of the tenant, who starts the launcher
        files.write(folder.secrets, dict(own.secrets), mode=files.READABLE if is_shared else files.OURS)


def limits_of(limits: ProcessLimits, gang: Gang) -> ProcessLimits:
    """The engine's, with what the program says of a unit in their place. Who bought memory may take it."""
    own = gang.own.limits if gang.own else {}
    bought = max((amounts.get(MEMORY, 0.0) for amounts in gang.amounts.values()), default=0.0)
    return replace(
        limits,
        memory_mb=own.get("memory_mebibytes", max(limits.memory_mb, int(bought * MEBIBYTES))),
        open_files=own.get("open_files", limits.open_files),
    )


def processor_seconds(limits: ProcessLimits, gang: Gang, seconds: float) -> int:
    """Of one process, in a gang that lasts so long."""
    limit = gang.own.limits.get("processor_seconds") if gang.own else None
    return limits.cpu_seconds(seconds) if limit is None else limit


def most_members(gang: Gang) -> int:
    """At once, at least one."""
    sizes = (sum(sum(roles.values()) for roles in each.servers.values()) for each in gang.generations)
    return max(1, *sizes)


def room_alerts(*folders: Path) -> tuple[str, ...]:
    """A sentence for each folder of an engine whose disk is full or cannot be asked."""
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
