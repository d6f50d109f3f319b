"""Bring in a cluster: show which servers an engine would bring into a pool and what differs, and make them once
confirmed.

Nothing is made before it is confirmed. Run again, it shows what has changed since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from scheduling.engines.base import WrongEngine
from scheduling.engines.slurm.commands import Commands
from scheduling.engines.slurm.nodes import Node, accounts_of, nodes_of
from scheduling.engines.slurm.settings import SlurmSettings
from scheduling.models import Pool, ResourceKind, Server, ServerCapacity
from scheduling.operator.cells import cells_change_on_server
from scheduling.operator.servers import server_add, server_capacity_change
from scheduling.runs import slurm_settings
from tenants.access import Access, Refused
from tenants.services.members import strangers_refusal

Units = Mapping[str, int]
PARTITION, ACCOUNT = "partition:", "account:"


@dataclass(frozen=True)
class ServerChange:
    """One server: its units in the pool, None if it is not there yet, and in the cluster, None if it is not there."""

    name: str
    now: Units | None
    cluster: Units | None
    owner: str = ""  # slug of the owner of all its units; empty for the operator

    @property
    def sentence(self) -> str:
        if self.cluster is None:
            return f"{self.name}: the cluster has no such server; it stays in the pool until an operator takes it out"
        units = ", ".join(f"{number} {name}" for name, number in self.cluster.items())
        if self.now is None:
            return f"{self.name}: new, with {units}, of {self.owner or 'the operator'}"
        before = ", ".join(f"{number} {name}" for name, number in self.now.items())
        return f"{self.name}: {units} instead of {before}"


@dataclass(frozen=True)
class Owners:
    """Owners of new servers, by slug: by the server's name, or by a partition that it is in, or by an account of Slurm
    to which one of its partitions is restricted, or the owner of all others."""

    others: str = ""
    servers: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)

    def of(self, node: Node, accounts_of: Mapping[str, Sequence[str]]) -> str | Refused:
        """Return the owner of a server. `accounts_of` are, by partition, the accounts to which it is restricted."""
        if node.name in self.servers:
            return self.servers[node.name]
        if partition := next((name for name in node.partitions if name in self.partitions), ""):
            return self.partitions[partition]
        accounts = {name for each in node.partitions for name in accounts_of.get(each, ()) if name in self.accounts}
        tenants = sorted({self.accounts[name] for name in accounts})
        if len(tenants) > 1:
            sentence = f"{node.name} is kept to accounts of {' and '.join(tenants)}: say whose it is by its name."
            return Refused("unknown_server", sentence)
        return tenants[0] if tenants else self.others


@dataclass(frozen=True)
class EngineCluster:
    """The servers of an engine's cluster in the engine's partition."""

    settings: SlurmSettings
    nodes: tuple[Node, ...]
    accounts: Mapping[str, tuple[str, ...]]  # by partition, the accounts to which it is restricted

    @property
    def digest(self) -> str:
        """Return a digest of what would be shown: a different one means that it has changed since."""
        amounts = [(node.name, node.partitions, node.cpus, node.memory_mb, node.gres) for node in self.nodes]
        words = (amounts, sorted(self.accounts.items()), sorted(self.settings.resources.items()))
        return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def cluster_of(engine: str, *, pool: Pool) -> EngineCluster | Refused:
    """Query the cluster whose servers are to be brought into the pool, which may take some seconds if it does not
    answer. The pool must run on this engine, or its jobs would be started elsewhere than on these servers."""
    if pool.engine != engine:
        return Refused("invalid_pool", f"The pool {pool.slug} runs on the engine {pool.engine}, and not on {engine}.")
    try:
        settings = slurm_settings(engine)
    except WrongEngine as error:
        return Refused("cluster_silent", str(error))
    commands = Commands(settings)
    answer, nodes = nodes_of(commands)
    if answer.is_good:
        answer, accounts = accounts_of(commands)
    if not answer.is_good:
        return Refused("cluster_silent", f"Slurm does not answer: {answer.sentence}.")
    return EngineCluster(settings, tuple(node for node in nodes if settings.partition in node.partitions), accounts)


def cluster_changes(*, pool: Pool, cluster: EngineCluster, owners: Owners) -> list[ServerChange] | Refused:
    """Return the differences between the pool and the cluster."""
    nodes, resources = cluster.nodes, cluster.settings.resources
    names = list(ResourceKind.objects.filter(pool=pool).order_by("pk").values_list("name", flat=True))
    if unsaid := [name for name in names if name not in resources]:
        return Refused("unknown_resource", f"The engine's settings do not say what a unit of {unsaid[0]} is.")
    of_others = Server.objects.filter(pool__engine=cluster.settings.name).exclude(pool=pool)
    elsewhere = set(of_others.values_list("name", flat=True))  # no server is sold twice
    nodes = tuple(node for node in nodes if node.name not in elsewhere)
    there = {node.name: {name: node.amount(resources[name]) for name in names} for node in nodes}
    if strangers := sorted(set(owners.servers) - set(there)):
        return Refused("unknown_server", f"The cluster has no server {strangers[0]}.")
    partitions = {partition for node in nodes for partition in node.partitions}
    if strangers := sorted(set(owners.partitions) - partitions):
        return Refused("unknown_server", f"No server of the cluster is in a partition {strangers[0]}.")
    accounts = {account for partition in partitions for account in cluster.accounts.get(partition, ())}
    if strangers := sorted(set(owners.accounts) - accounts):
        return Refused("unknown_server", f"No server of the cluster is kept to an account {strangers[0]}.")
    named = (owners.servers, owners.partitions, owners.accounts)
    tenants = {owners.others, *(tenant for each in named for tenant in each.values())} - {""}
    if refusal := strangers_refusal(tenants):
        return refusal
    here: dict[str, dict[str, int]] = {
        name: {} for name in Server.objects.filter(pool=pool).values_list("name", flat=True)
    }
    rows = ServerCapacity.objects.filter(pool=pool).order_by("resource_id")
    for server, resource, units in rows.values_list("server__name", "resource__name", "units"):
        here[server][resource] = units
    both, whose = sorted(there | here), dict[str, str]()
    for node in nodes:
        if isinstance(owner := owners.of(node, cluster.accounts), Refused):
            return owner
        whose[node.name] = owner
    changes = (ServerChange(name, here.get(name), there.get(name), whose.get(name, "")) for name in both)
    return [change for change in changes if change.now != change.cluster]


def owners_read(table: Mapping[str, str], others: str) -> Owners:
    """Read the owners from `table`, which is by a server's name, or by `partition:` or `account:` and its name."""
    of_kind: dict[str, dict[str, str]] = {"": {}, PARTITION: {}, ACCOUNT: {}}
    for name, tenant in table.items():
        kind = next((each for each in (PARTITION, ACCOUNT) if name.startswith(each)), "")
        of_kind[kind][name[len(kind) :]] = tenant
    return Owners(others, of_kind[""], of_kind[PARTITION], of_kind[ACCOUNT])


@transaction.atomic
def cluster_import(
    *, pool: Pool, changes: Sequence[ServerChange], by: Access, reason: str, at: datetime
) -> Refused | None:
    """Make all changes or none. A new server belongs to its owner as a whole; for an existing one only the capacity
    follows the cluster, and cells stay as they are. Pools of one engine are changed one after the other, so that no two
    sell the same server."""
    of_engine = list(Pool.objects.select_for_update(no_key=True).filter(engine=pool.engine).order_by("pk"))
    new = {change.name for change in changes if change.now is None}
    if other := Server.objects.filter(pool__in=of_engine, name__in=new).exclude(pool=pool).order_by("name").first():
        return Refused("invalid_server", f"{other.name}: the pool {other.pool.slug} sells it already.")
    for change in changes:
        if change.cluster is None:
            continue
        if change.now is None:
            outcome = server_add(pool=pool, name=change.name, capacity=change.cluster, by=by, reason=reason, at=at)
            refusal = outcome if isinstance(outcome, Refused) else None
            if isinstance(outcome, Server) and change.owner:
                cells = cells_change_on_server(
                    server=outcome, cells={change.owner: change.cluster}, by=by, reason=reason, at=at
                )
                refusal = cells if isinstance(cells, Refused) else None
        else:
            server = Server.objects.get(pool=pool, name=change.name)
            refusal = server_capacity_change(server=server, capacity=change.cluster, by=by, reason=reason, at=at)
        if refusal:
            transaction.set_rollback(True)
            return Refused(refusal.code, f"{change.name}: {refusal.sentence}")
    return None
