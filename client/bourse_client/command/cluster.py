"""`bourse servers` and `bourse share`: show the servers, and what the tenant's units do."""

from __future__ import annotations

from bourse_client.command import exits
from bourse_client.command.screen import credits, moment, zone
from bourse_client.command.session import Session
from bourse_client.shapes import Capacity, Quota, Sharing, UnitsOfResource, UnitsOnServer


def servers(session: Session) -> int:
    """Show a line for each server and resource."""
    screen, pool = session.screen, session.pool
    servers_of_pool = list(session.client.servers(pool, state=session.words.state))
    if screen.as_json:
        screen.document(servers_of_pool)
    elif servers_of_pool:
        rows = [
            (server["name"], server["state"].replace("_", " "), each["resource"], f"{each['units']:,}", _owners(each))
            for server in servers_of_pool
            for each in server["capacities"]
        ]
        screen.table(("server", "state", "resource", "units", "whose"), rows, right=("units",))
    else:
        screen.note(f"There are no such servers in {pool}.")
    return exits.DONE


def _owners(capacity: Capacity) -> str:
    owners = [f"{cell['tenant']} {cell['units']:,}" for cell in capacity["cells"]]
    operators = capacity["operator_units"]
    return ", ".join([*owners, *([f"the operator {operators:,}"] if operators else [])]) or "-"


def share(session: Session) -> int:
    screen, client, pool = session.screen, session.client, session.pool
    quota, sharing = client.quota(pool), client.sharing(pool)
    if screen.as_json:
        screen.document({"quota": quota, "sharing": sharing})
        return exits.DONE
    since = f"{quota['slot']:,} from {moment(quota['starts_at'])} ({zone()})"
    screen.line(f"Units of {client.tenant} in pool {pool}, slot {since}")
    heads = ("resource", "own", "used", "lent", "idle", "rented", "not lent below")
    prices = sharing["reserve_price"]
    rows = [
        (each["resource"], *map(_units, _figures(each)), _units(each["rented"]), credits(prices.get(each["resource"])))
        for each in quota["resources"]
    ]
    screen.table(heads, rows, right=heads[1:])
    if session.words.servers:
        screen.line()
        _by_server(session, quota)
    screen.line()
    screen.pairs([("rents", _rents(sharing)), ("lends", _lends(sharing)), ("plans", sharing["plan"])])
    return exits.DONE


def _by_server(session: Session, quota: Quota) -> None:
    """Show the tenant's own units first, then those that it rents."""
    own = [(each["server"], each["resource"], "own", *map(_units, _figures(each))) for each in quota["servers"]]
    rented = [
        (each["server"], each["resource"], each["whose"], _units(each["units"]), _units(each["units"]), "-", "-")
        for each in quota["rented"]
    ]
    heads = ("server", "resource", "whose", "units", "used", "lent", "idle")
    session.screen.table(heads, [*own, *rented], right=heads[3:])


def _figures(row: UnitsOfResource | UnitsOnServer) -> tuple[float, float, float, float]:
    return row["units"], row["used"], row["lent"], row["idle"]


def _units(number: float) -> str:
    """Return whole units without a point, and parts of a unit with as many digits as they have."""
    whole = int(number)
    return f"{whole if whole == number else number:,}"


def _rents(sharing: Sharing) -> str:
    if sharing["rent"] == "budget" and sharing["budget"] is not None:
        return f"up to {credits(sharing['budget'])} credits in each {sharing['budget_period']}"
    return {"auto": "what its jobs are worth", "never": "never"}.get(sharing["rent"], sharing["rent"])


def _lends(sharing: Sharing) -> str:
    return {"lend": "what is idle", "keep": "nothing"}.get(sharing["lend"], sharing["lend"])
