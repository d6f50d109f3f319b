"""Read the servers of a cluster as Slurm describes them, with what a market could sell of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engines.slurm.commands import CommandAnswer, Commands
from scheduling.engines.slurm.settings import CPUS, GRES, MEMORY_MB

EVERYBODY = "ALL"


@dataclass(frozen=True)
class Node:
    """One server, with what jobs may have of it. `cpus` counts cores, since Slurm gives no core to two jobs, however
    many threads it has. `gres` has Slurm's names, both `name` and `name:type`, with their amounts."""

    name: str
    cpus: int
    memory_mb: int
    gres: tuple[tuple[str, int], ...]
    partitions: tuple[str, ...]
    state: str

    def amount(self, what: str) -> int:
        """Return how many units of `what` the server has: of `cpus`, `memory_mb` or `gres:...`."""
        if what.startswith(GRES):
            return dict(self.gres).get(what[len(GRES) :], 0)
        return {CPUS: self.cpus, MEMORY_MB: self.memory_mb}.get(what, 0)


def nodes_of(commands: Commands) -> tuple[CommandAnswer, list[Node]]:
    """Return all servers of the cluster, sorted by name."""
    answer = commands.run("scontrol", "show", "node", "-o")
    lines = answer.text.splitlines() if answer.is_good else []
    return answer, sorted((node for line in lines if (node := _node(line))), key=lambda node: node.name)


def accounts_of(commands: Commands) -> tuple[CommandAnswer, dict[str, tuple[str, ...]]]:
    """Return by partition the accounts that may use it. Partitions that are open to every account are left out."""
    answer = commands.run("scontrol", "show", "partition", "-o")
    accounts: dict[str, tuple[str, ...]] = {}
    for line in answer.text.splitlines() if answer.is_good else ():
        fields = dict(re.findall(r"(?:\A|\s)([A-Za-z]+)=(\S*)", line))
        if (allowed := fields.get("AllowAccounts", EVERYBODY)) != EVERYBODY:
            accounts[fields.get("PartitionName", "")] = tuple(each for each in allowed.split(",") if each)
    return answer, accounts


def _node(line: str) -> Node | None:
    fields = dict(re.findall(r"(?:\A|\s)([A-Za-z]+)=(\S*)", line))
    if not fields.get("NodeName"):
        return None
    return Node(
        name=fields["NodeName"],
        cpus=_cores(fields),
        memory_mb=max(0, int(fields.get("RealMemory", 0)) - int(fields.get("MemSpecLimit", 0))),
        gres=_gres(fields.get("Gres", "")),
        partitions=tuple(each for each in fields.get("Partitions", "").split(",") if each),
        state=fields.get("State", "").lower(),
    )


def _cores(fields: Mapping[str, str]) -> int:
    """Return the cores that jobs may have, without those that the site keeps for the system (`CPUEfctv`, since Slurm
    22.05)."""
    total, threads = int(fields.get("CPUTot", 0)), max(1, int(fields.get("ThreadsPerCore", 1)))
    cores = int(fields.get("Sockets", 1)) * int(fields.get("CoresPerSocket", 1))
    usable = int(fields.get("CPUEfctv", total))
    return usable // threads if total > cores else usable  # a site's configuration may count cores as processors


def _gres(text: str) -> tuple[tuple[str, int], ...]:
    """Read `gpu:a100:4(S:0-1),gpu:2` as amounts of `gpu` (all types together) and of `gpu:a100`."""
    amounts: dict[str, int] = {}
    for each in re.sub(r"\([^)]*\)", "", text).split(","):
        parts = each.split(":")
        if len(parts) < 2 or not parts[-1].isdecimal():
            continue
        names = {parts[0], ":".join(parts[:-1])}
        for name in names:
            amounts[name] = amounts.get(name, 0) + int(parts[-1])
    return tuple(sorted(amounts.items()))
