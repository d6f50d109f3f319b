"""Rows of the table: servers, cells and credits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.models import Server, ServerState
from tenants.roles import OPERATOR
from tests.api.table import Names, Row, World, answers, everybody

BY_OPERATOR = answers(200, OPERATOR)
POOL = "pools/{pool}/"
SERVER = POOL + "servers/{server}/"
REASON = {"reason": "The table says so."}


def why(names: Names) -> Mapping[str, Any]:
    return REASON


def server(world: World) -> Names:
    return {"server": f"{world.tenant.slug}-0"}


def drained(world: World) -> Names:
    Server.objects.filter(pool=world.pool, name=f"{world.tenant.slug}-0").update(state=ServerState.DRAINING)
    return server(world)


def cells_there(names: Names) -> Mapping[str, Any]:
    return REASON | {"cells": {names["tenant"]: {"worker": 5, "ps": 1}}}


def cells_of_tenant(names: Names) -> Mapping[str, Any]:
    return REASON | {"cells": {names["server"]: {"worker": 5, "ps": 1}}}


def payment(names: Names) -> Mapping[str, Any]:
    return REASON | {"amount": "2.5", "key": "invoice-1"}


ROWS = [
    Row("servers_list", "get", POOL + "servers/", everybody()),
    Row(
        "servers_create",
        "post",
        POOL + "servers/",
        answers(201, OPERATOR),
        body=lambda names: REASON | {"name": "s99", "capacity": {"worker": 4, "ps": 1}},
    ),
    Row("servers_read", "get", SERVER, everybody(), prepare=server),
    Row(
        "server_capacity_change",
        "post",
        SERVER + "capacity/",
        BY_OPERATOR,
        body=lambda names: REASON | {"capacity": {"worker": 9}},
        prepare=server,
    ),
    Row("server_drain", "post", SERVER + "drain/", BY_OPERATOR, body=why, prepare=server),
    Row("server_return", "post", SERVER + "return/", BY_OPERATOR, body=why, prepare=drained),
    Row("server_lose", "post", SERVER + "lose/", BY_OPERATOR, body=why, prepare=server),
    Row("cells_list", "get", POOL + "cells/", everybody()),
    Row("cells_change_on_server", "put", SERVER + "cells/", BY_OPERATOR, body=cells_there, prepare=server),
    Row(
        "cells_change_of_tenant",
        "put",
        POOL + "cells/{tenant}/",
        BY_OPERATOR,
        body=cells_of_tenant,
        prepare=server,
    ),
    Row("credits_grant", "post", "tenants/{tenant}/credits/grant/", BY_OPERATOR, body=payment),
    Row("credits_withdraw", "post", "tenants/{tenant}/credits/withdraw/", BY_OPERATOR, body=payment),
]
