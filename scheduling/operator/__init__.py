"""Changes by operators: pools, servers, cells, prices of use, weights, and holding or draining a pool."""

from scheduling.operator.cells import cells_change_on_server
from scheduling.operator.pools import PoolTerms, pool_create, steps_listed
from scheduling.operator.read_engines import EngineState, engine_states
from scheduling.operator.read_operator import PoolClock, entries_of, pool_states
from scheduling.operator.servers import server_add
from scheduling.operator.weights import weights_add

__all__ = [
    "EngineState",
    "PoolClock",
    "PoolTerms",
    "cells_change_on_server",
    "engine_states",
    "entries_of",
    "pool_create",
    "pool_states",
    "server_add",
    "steps_listed",
    "weights_add",
]
