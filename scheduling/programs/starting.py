"""What each process of a job is started with: the words of its command line, and its environment variables.

Scripts that were written for other places run unchanged: beside our own variables, all-reduce processes get those that
PyTorch's `env://` reads, and those with parameter servers get the one that TensorFlow reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WORKER, PS = "worker", "ps"


@dataclass(frozen=True)
class Command:
    """What every process is started with, on whichever server: a program's version with a job's values. The launcher
    gets this."""

    words: tuple[str, ...]
    variables: Mapping[str, str]  # the program's own, and a script's parameters
    ring: bool = False  # its processes get the variables that `env://` reads
    roles: bool = False  # they get the addresses of the members of both roles
    each_gpu: bool = False  # one process for each GPU of a worker


@dataclass(frozen=True)
class GangMember:
    """A worker or a parameter server of a gang, with its address. `rank` counts from 0 within its role."""

    role: str  # worker | ps
    rank: int
    host: str
    port: int
    gpus: tuple[str, ...] = ()  # the GPUs that the engine gave it; empty if the unit has none


@dataclass(frozen=True)
class Start:
    """One start of a job's gang. Paths of folders and files are those that its processes see."""

    job: int
    tenant: str
    slot_seconds: float
    ends_at: int  # the reservation's end, in seconds since 1970
    checkpoint: str  # a folder that is kept from one start of the job to the next
    progress: str  # a folder; each process has a file of its own in it
    restart: int  # how often the job was started before
    members: tuple[GangMember, ...]


@dataclass(frozen=True)
class ProcessStart:
    """One process: its member, its words, and all its variables except secrets, which only the engine sets."""

    member: GangMember
    rank: int  # within its role, over all its processes
    words: tuple[str, ...]
    environment: Mapping[str, str]


def processes(command: Command, start: Start) -> tuple[ProcessStart, ...]:
    """Return all processes of a gang: first parameter servers, then workers, each in order of their ranks.

    A worker is one process, or one for each of its GPUs where the program says so.
    """
    common = _common(command, start)
    workers = sorted((each for each in start.members if each.role == WORKER), key=lambda each: each.rank)
    servers = sorted((each for each in start.members if each.role == PS), key=lambda each: each.rank)
    counts = [max(1, len(each.gpus)) if command.each_gpu else 1 for each in workers]
    gang: list[ProcessStart] = []
    for member in servers:
        variables = common | _own(member, member.rank, start, "ps") | _roles(command, start, member)
        gang.append(ProcessStart(member, member.rank, command.words, variables))
    for index, member in enumerate(workers):
        for local in range(counts[index]):
            rank = sum(counts[:index]) + local
            variables = common | _own(member, rank, start, "worker") | _roles(command, start, member)
            if command.ring:
                variables |= _ring(workers, counts, index, local)
            gang.append(ProcessStart(member, rank, command.words, variables))
    return tuple(gang)


def _common(command: Command, start: Start) -> dict[str, str]:
    """Return the variables that all processes get."""
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
    """Return the variables that `env://` reads. A worker is a group of local processes, as with torchrun, also if two
    workers are on one host."""
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
    """Return host and port of the members of both roles, in our own form and in the one that TensorFlow reads."""
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
