"""What each process of a job is started with: its words, and what it is told by environment variables.

Scripts that were written for other places run unchanged: all-reduce processes are told what PyTorch's `env://` reads,
and those with parameter servers what TensorFlow reads, beside our own names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WORKER, PS = "worker", "ps"


@dataclass(frozen=True)
class Command:
    """What a program's version and a job's values say of every process, wherever it runs. The launcher is told this."""

    words: tuple[str, ...]
    variables: Mapping[str, str]  # the program's own, and a script's parameters
    ring: bool = False  # its processes are told what `env://` reads
    roles: bool = False  # they are told where the members of both roles are
    each_gpu: bool = False  # one process for each GPU of a worker


@dataclass(frozen=True)
class GangMember:
    """A worker or a parameter server of a gang, and where it is. `rank` counts from 0 within its role."""

    role: str  # worker | ps
    rank: int
    host: str
    port: int
    gpus: tuple[str, ...] = ()  # as the engine dealt them; none: the unit has none


@dataclass(frozen=True)
class Start:
    """One start of a job's gang. Folders and files are as its processes see them."""

    job: int
    tenant: str
    slot_seconds: float
    ends_at: int  # seconds since 1970: the reservation's end
    checkpoint: str  # a folder that stays from one start of the job to the next
    progress: str  # a folder; each process has a file of its own in it
    restart: int  # how often the job was started before
    members: tuple[GangMember, ...]


@dataclass(frozen=True)
class ProcessStart:
    """One process: where, its words, and all variables that it is told. Secrets are set by the engine alone."""

    member: GangMember
    local_rank: int
    rank: int  # within its role, over all its processes
    words: tuple[str, ...]
    environment: Mapping[str, str]


def processes(command: Command, start: Start) -> tuple[ProcessStart, ...]:
    """All processes of a gang, parameter servers and workers each in order of their ranks.

    A worker is one process, or one for each of its GPUs where the program says so.
    """
    common = _common(command, start)
    workers = sorted((each for each in start.members if each.role == WORKER), key=lambda each: each.rank)
    servers = sorted((each for each in start.members if each.role == PS), key=lambda each: each.rank)
    counts = [max(1, len(each.gpus)) if command.each_gpu else 1 for each in workers]
    gang: list[ProcessStart] = []
    for member in servers:
        variables = common | _own(member, member.rank, start, "ps") | _roles(command, start, member)
        gang.append(ProcessStart(member, 0, member.rank, command.words, variables))
    for index, member in enumerate(workers):
        for local in range(counts[index]):
            rank = sum(counts[:index]) + local
            variables = common | _own(member, rank, start, "worker") | _roles(command, start, member)
            if command.ring:
                variables |= _ring(workers, counts, index, local)
            gang.append(ProcessStart(member, local, rank, command.words, variables))
    return tuple(gang)


def _common(command: Command, start: Start) -> dict[str, str]:
    """What everybody is told."""
    seconds = float(start.slot_seconds)
    workers = sorted((each for each in start.members if each.role == WORKER), key=lambda each: each.rank)
    return dict(command.variables) | {
        "BOURSE_JOB": str(start.job),
        "BOURSE_TENANT": start.tenant,
        "BOURSE_SLOT_SECONDS": str(int(seconds) if seconds.is_integer() else seconds),
        "BOURSE_ENDS_AT": str(start.ends_at),
        "BOURSE_CHECKPOINT": start.checkpoint,
        "BOURSE_RESTART": str(start.restart),
        "BOURSE_HOSTS": ",".join(each.host for each in workers),
    }


def _own(member: GangMember, rank: int, start: Start, role: str) -> dict[str, str]:
    variables = {
        "BOURSE_ROLE": role,
        "BOURSE_RANK": str(rank),
        "BOURSE_PORT": str(member.port),
        "BOURSE_PROGRESS": f"{start.progress}/{role}-{rank}.jsonl",
    }
    if member.gpus:
        devices = ",".join(member.gpus)
        variables |= {"CUDA_VISIBLE_DEVICES": devices, "ROCR_VISIBLE_DEVICES": devices}
    return variables


def _ring(workers: Sequence[GangMember], counts: Sequence[int], index: int, local: int) -> dict[str, str]:
    """What `env://` reads. A worker is a group of local processes, as with torchrun, also where two are on one host."""
    return {
        "MASTER_ADDR": workers[0].host,
        "MASTER_PORT": str(workers[0].port),
        "WORLD_SIZE": str(sum(counts)),
        "RANK": str(sum(counts[:index]) + local),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(counts[index]),
        "GROUP_RANK": str(index),
        "NODE_RANK": str(index),
    }


def _roles(command: Command, start: Start, member: GangMember) -> dict[str, str]:
    """Both roles with host and port of each member, and the same in the form that TensorFlow reads."""
    if not command.roles:
        return {}
    members = sorted(start.members, key=lambda each: (each.role, each.rank))
    roles = {role: [each for each in members if each.role == role] for role in (PS, WORKER)}
    ours = {role: [{"host": each.host, "port": each.port} for each in those] for role, those in roles.items()}
    theirs = {role: [f"{each.host}:{each.port}" for each in those] for role, those in roles.items()}
    task = {"type": member.role, "index": member.rank}
    return {
        "BOURSE_MEMBERS": json.dumps(ours, separators=(",", ":")),
        "TF_CONFIG": json.dumps({"cluster": theirs, "task": task}, separators=(",", ":")),
    }
