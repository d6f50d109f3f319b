"""Scenario documents for tests: a small valid one, and strategies that draw any valid one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Document = dict[str, Any]
Change = Callable[[Document], object]


def make_row(name: str = "j0", **fields: Any) -> Document:
    """A job of u1 that runs two slots on one worker."""
    return {
        "name": name,
        "tenant": "u1",
        "arrival": 0,
        "epochs": 2,
        "chunks": 2,
        "minibatches": 1,
        "minibatch_seconds": 3600,
        "update_seconds": 0,
        "gradient_mb": 0,
        "worker_mbps": 1,
        "ps_mbps": 1,
        "worker_demand": {"worker": 1},
        "ps_demand": {"ps": 1},
        "value": {"kind": "linear", "slope": -2, "base": 100},
        **fields,
    }


def make_document(**fields: Any) -> Document:
    """Two servers and two tenants, each at home on one; two jobs; FIFO."""
    return copy.deepcopy(
        {
            "format": "scenario/1",
            "slot_seconds": 3600,
            "slots": 32,
            "servers": [
                {"name": "s1", "capacity": {"worker": 2, "ps": 1}, "cells": {"u1": {"worker": 2, "ps": 1}}},
                {"name": "s2", "capacity": {"worker": 4, "ps": 1}, "cells": {"u2": {"worker": 4, "ps": 1}}},
            ],
            "tenants": [{"name": "u1"}, {"name": "u2"}],
            "jobs": [make_row("j0"), make_row("j1", tenant="u2", arrival=1.5)],
            "policy": {"name": "fifo", "workers": 2},
            **fields,
        }
    )


def changed(change: Change) -> Document:
    """The document after a change in place."""
    document = make_document()
    change(document)
    return document


def at(*path: str | int) -> Callable[[object], Change]:
    """`at("jobs", 0, "chunks")(0)` sets one field."""

    def setter(value: object) -> Change:
        def change(document: Document) -> None:
            inner: Any = document
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = value

        return change

    return setter


def text(document: Document) -> str:
    """The document as Python writes it: NaN and Infinity as such."""
    return json.dumps(document)


# --- any valid document ---------------------------------------------------------------------------------------------

RESOURCES = ("worker", "ps", "gpu")
names = st.text("abcdefgh äß-_ 7", min_size=1, max_size=8)
amounts = st.one_of(st.integers(1, 50), st.decimals(0, 50, places=3).map(float))
positive = st.one_of(st.integers(1, 5000), st.decimals("0.001", 5000, places=3).map(float))
credit = st.one_of(st.integers(0, 10**6), st.floats(0, 1e6))

values = st.one_of(
    st.builds(lambda s, b: {"kind": "linear", "slope": -s, "base": b}, credit, credit),
    st.builds(lambda s, p: {"kind": "convex", "scale": s, "power": p}, positive, st.floats(0, 3)),
    st.builds(lambda p, d, t: {"kind": "sigmoid", "priority": p, "decay": d, "target": t}, credit, credit, credit),
    st.builds(lambda b, d: {"kind": "deadline", "base": b, "deadline": d}, credit, credit),
    st.builds(lambda s, b, u: {"kind": "linear_until", "slope": -s, "base": b, "until": u}, credit, credit, credit),
    st.builds(
        lambda p, d, u: {"kind": "sigmoid_until", "priority": p, "decay": d, "target": p, "until": u}, *[credit] * 3
    ),
)


@st.composite
def demands(draw: st.DrawFn) -> Document:
    demand = draw(st.dictionaries(st.sampled_from(RESOURCES), amounts, min_size=1))
    demand[draw(st.sampled_from(RESOURCES))] = draw(positive)
    return demand


@st.composite
def rows(draw: st.DrawFn, name: str, tenants: list[str]) -> Document:
    chunks = draw(st.integers(1, 60))
    most = draw(st.integers(1, chunks))
    alternatives = draw(st.integers(1, 3))
    several = draw(st.booleans())
    row = {
        "name": name,
        "tenant": draw(st.sampled_from(tenants)),
        "arrival": draw(st.floats(0, 1000)),
        "epochs": draw(st.integers(1, 100)),
        "chunks": chunks,
        "minibatches": draw(st.integers(1, 100)),
        "minibatch_seconds": [draw(positive) for _ in range(alternatives)] if several else draw(positive),
        "worker_demand": [draw(demands()) for _ in range(alternatives)] if several else draw(demands()),
        "worker_mbps": draw(positive),
        "ps_demand": draw(demands()),
        "value": draw(values),
    }
    optional = {
        "lane": st.sampled_from(["batch", "instant"]),
        "priority": st.integers(-9, 9),
        "update_seconds": credit.map(lambda x: x / 1e3),
        "gradient_mb": amounts,
        "ps_mbps": positive,
        "min_workers": st.integers(1, most),
        "max_workers": st.just(most),
        "max_ps": st.integers(1, 9),
        "max_price": credit,
        "rent": st.sampled_from(["never", "auto"]),
        "samples": positive,
        "batch_size": st.integers(1, 512),
        "sample_seconds": positive,
        "internal_mbps": positive,
        "ps_ratio": positive,
        "mode": st.sampled_from(["sync", "async"]),
        "speed": st.lists(st.floats(-10, 10), max_size=5),
        "model": names,
    }
    fields = draw(st.lists(st.sampled_from(sorted(optional)), unique=True))
    if "min_workers" in fields and "max_workers" not in fields:
        fields.append("max_workers")
    return row | {field: draw(optional[field]) for field in fields}


@st.composite
def documents(draw: st.DrawFn) -> Document:
    tenants = draw(st.lists(names.filter(lambda name: name != "operator"), min_size=1, max_size=3, unique=True))
    servers = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    with_cells = draw(st.booleans())
    server_rows = []
    for server in servers:
        capacity = {resource: draw(positive) for resource in RESOURCES}
        row: Document = {"name": server, "capacity": capacity}
        if draw(st.booleans()):
            row["hosts"] = draw(st.sampled_from([["worker"], ["ps"], ["ps", "worker"]]))
        if with_cells:
            share = {resource: round(amount / len(tenants) * 0.9, 6) for resource, amount in capacity.items()}
            row["cells"] = {tenant: share for tenant in tenants if draw(st.booleans())}
        server_rows.append(row)
    tenant_rows = []
    for tenant in tenants:
        tenant_row: Document = {"name": tenant, "lend": draw(st.sampled_from(["keep", "lend"]))}
        if draw(st.booleans()):
            tenant_row |= {"rent": "budget", "budget": draw(credit)}
        if draw(st.booleans()):
            tenant_row["reserve_price"] = draw(st.dictionaries(st.sampled_from(RESOURCES), credit))
        if draw(st.booleans()):
            tenant_row["plan"] = draw(st.sampled_from(["keep", "renew"]))
        if not with_cells:
            tenant_row["quota"] = {r: server_rows[0]["capacity"][r] / len(tenants) for r in RESOURCES}
        tenant_rows.append(tenant_row)
    count = draw(st.integers(0, 4))
    document: Document = {
        "format": "scenario/1",
        "slot_seconds": draw(positive) + 900,
        "slots": draw(st.integers(1, 10**6)),
        "servers": server_rows,
        "tenants": tenant_rows,
        "jobs": [draw(rows(f"j{number}", tenants)) for number in range(count)],
        "policy": {"name": "fifo"},
    }
    if draw(st.booleans()):
        document["instant"] = {"name": "oasis", "units": "worker_slots"}
    if draw(st.booleans()):
        part = 0.03 if with_cells else 0.25  # a tenth of each server is nobody's home
        document["preload"] = [
            {"server": servers[0], "slot": draw(st.integers(0, 9)), "resource": "ps", "amount": part * capacity_of_ps}
            for capacity_of_ps in [server_rows[0]["capacity"]["ps"]] * draw(st.integers(0, 3))
        ]
    return document


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.one_of(st.none(), st.floats(), st.text(max_size=2)), max_size=2),
    st.dictionaries(st.text(max_size=4), st.one_of(st.none(), st.floats(), st.text(max_size=2)), max_size=2),
)


@st.composite
def spoiled(draw: st.DrawFn) -> Document:
    """The small document with something else in one to three places."""
    document = make_document(preload=[{"server": "s1", "slot": 0, "resource": "ps", "amount": 0}])
    for _ in range(draw(st.integers(1, 3))):
        inner: Any = document
        while isinstance(inner, dict | list) and inner:
            step = draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else list(range(len(inner)))))
            if not isinstance(inner[step], dict | list) or draw(st.integers(0, 3)) == 0:
                inner[step] = draw(junk)
                break
            inner = inner[step]
    return document
