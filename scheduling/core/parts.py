"""Cut a cluster in two, server by server: home cells, and the operator's part. It is cut once, for it never changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scheduling.core.types import Cluster, FloatArray


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a cluster. `counter` is the cluster as the instant lane sees it: the operator part of server i of n
    is at index i, and its home part, with the cells of those tenants that lend, at index i + n."""

    whole: Cluster
    cells: FloatArray  # (resources, tenants, servers)
    home: Cluster
    operator: Cluster
    counter: Cluster


def parts_of(cluster: Cluster) -> Parts:
    """Return the parts of a cluster; raise `ValueError` if it has no home cells."""
    if cluster.cells is None:
        raise ValueError("two lanes need home cells: a mere count of units does not say which servers are whose")
    home = replace(cluster, capacity=cluster.cells.sum(axis=1))
    operator = replace(cluster, capacity=cluster.operator_cells)
    return Parts(cluster, cluster.cells, home, operator, _counter(cluster, cluster.cells, operator.capacity))


def _counter(cluster: Cluster, whose: FloatArray, operators: FloatArray) -> Cluster:
    resources, tenants, servers = whose.shape
    lenders = [index for index, tenant in enumerate(cluster.tenants) if tenant.lend == "lend"]
    cells = np.zeros((resources, tenants, 2 * servers))
    cells[:, lenders, servers:] = whose[:, lenders]
    cells.setflags(write=False)  # so that it is not copied: it is as large as the tenants times the servers
    return replace(
        cluster,
        servers=(*cluster.servers, *(f"{name} (home)" for name in cluster.servers)),
        capacity=np.concatenate([operators, cells[..., servers:].sum(axis=1)], axis=1),
        cells=cells,
        hosts_workers=np.tile(cluster.hosts_workers, 2),
        hosts_ps=np.tile(cluster.hosts_ps, 2),
    )
