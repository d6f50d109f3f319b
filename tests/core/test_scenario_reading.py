"""Reading scenario files: what a good one becomes, and the one line that each bad one gets."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings

from scheduling.core.scenario import BadScenario, read
from scheduling.core.speed import exact
from scheduling.core.types import Samples
from scheduling.core.value import Convex, Deadline, Linear, LinearUntil, Sigmoid, SigmoidUntil
from tests.core.scenario_documents import Change, Document, at, changed, make_document, make_row, spoiled, text


def flaw(source: Any) -> str:
    """The line that refuses a source."""
    with pytest.raises(BadScenario) as refusal:
        read(source)
    line = str(refusal.value)
    assert "\n" not in line
    return line


# --- what is read -----------------------------------------------------------------------------------------------------


def test_reads_the_cluster_in_the_order_of_the_file() -> None:
    cluster = read(text(make_document())).cluster
    assert cluster.resources == ("worker", "ps")
    assert cluster.servers == ("s1", "s2")
    assert cluster.owners == ("u1", "u2", "operator")
    assert cluster.capacity.tolist() == [[2, 4], [1, 1]]
    assert cluster.cells is not None
    assert cluster.cells[0].tolist() == [[2, 0], [0, 4]]
    assert cluster.quota.tolist() == [[2, 4], [1, 1]]


def test_leaves_to_the_operator_what_no_quota_covers() -> None:
    document = make_document(
        servers=[{"name": "s", "capacity": {"worker": 5, "ps": 2}}],
        tenants=[{"name": "u1", "quota": {"worker": 3}}, {"name": "u2"}],
    )
    cluster = read(document).cluster
    assert cluster.cells is None
    assert cluster.shares.tolist() == [[3, 0, 2], [0, 0, 2]]


def test_reads_a_job_with_its_defaults() -> None:
    row = {
        name: value
        for name, value in make_row().items()
        if name not in ("minibatches", "update_seconds", "gradient_mb", "worker_mbps", "ps_mbps")
    }
    job = read(make_document(jobs=[row])).jobs[0]
    assert (job.minibatches, job.gradient_mb, job.min_workers, job.max_workers) == (1, 0.0, 1, 2)
    assert (job.lane, job.priority, job.max_ps, job.max_price, job.rent) == ("batch", 0, None, None, None)
    assert (job.worker_types[0].mbps, job.ps_types[0].mbps, job.ps_types[0].seconds) == (1.0, 1.0, 0.0)
    assert job.samples == Samples() or job.samples.total is None
    assert isinstance(job.value, Linear)


def test_gives_parameter_servers_the_rate_of_the_fastest_worker_unless_told() -> None:
    row = make_row(worker_demand=[{"worker": 1}, {"worker": 2}], worker_mbps=[100, 300], gradient_mb=5)
    del row["ps_mbps"]
    assert read(make_document(jobs=[row])).jobs[0].ps_types[0].mbps == 300


def test_reads_several_types_as_alternatives() -> None:
    row = make_row(
        worker_demand=[{"worker": 1}, {"worker": 2}],
        minibatch_seconds=[3600, 1800],
        worker_mbps=7,
        ps_demand=[{"ps": 1}],
        update_seconds=[4],
    )
    job = read(make_document(jobs=[row])).jobs[0]
    assert [(unit.seconds, unit.mbps, unit.demand.tolist()) for unit in job.worker_types] == [
        (3600, 7, [1, 0]),
        (1800, 7, [2, 0]),
    ]
    assert [(unit.seconds, unit.demand.tolist()) for unit in job.ps_types] == [(4, [0, 1])]


def test_reads_every_kind_of_value() -> None:
    kinds = [
        {"kind": "linear", "slope": -1, "base": 3},
        {"kind": "convex", "scale": 2, "power": 3},
        {"kind": "sigmoid", "priority": 1, "decay": 2, "target": -3},
        {"kind": "deadline", "base": 5, "deadline": 6},
        {"kind": "linear_until", "slope": -1, "base": 3, "until": 4},
        {"kind": "sigmoid_until", "priority": 1, "decay": 2, "target": -3, "until": 4},
    ]
    ended = [LinearUntil(-1, 3, 4), SigmoidUntil(1, 2, -3, 4)]
    jobs = read(make_document(jobs=[make_row(f"j{k}", value=kind) for k, kind in enumerate(kinds)])).jobs
    assert [job.value for job in jobs] == [Linear(-1, 3), Convex(2, 3), Sigmoid(1, 2, -3), Deadline(5, 6), *ended]


def test_reads_what_other_policies_need_of_a_job() -> None:
    row = make_row(
        samples=4,
        batch_size=4,
        sample_seconds=0.5,
        internal_mbps=2,
        ps_ratio=3,
        mode="async",
        speed=[1, 2.5],
        model="m",
    )
    samples = read(make_document(jobs=[row])).jobs[0].samples
    assert (samples.total, samples.batch_size, samples.seconds) == (4.0, 4, 0.5)
    assert (samples.internal_mbps, samples.ps_ratio, samples.mode) == (2.0, 3.0, "async")
    assert (samples.speed, samples.model) == ((1.0, 2.5), "m")


def test_keeps_decimals_exact() -> None:
    job = read(text(make_document(jobs=[make_row(minibatch_seconds=0.1)]))).jobs[0]
    assert exact(job.worker_types[0].seconds).limit_denominator() == exact(job.worker_types[0].seconds)
    assert exact(job.worker_types[0].seconds) * 10 == 1


def test_allows_a_scenario_without_jobs() -> None:
    assert read(make_document(jobs=[])).jobs == ()


def test_takes_null_for_a_field_that_may_be_missing() -> None:
    job = read(make_document(jobs=[make_row(max_ps=None, max_price=None, rent=None, max_workers=None)])).jobs[0]
    assert (job.max_ps, job.max_price, job.rent, job.max_workers) == (None, None, None, 2)


def test_reads_a_budget_that_a_job_overrides_the_rent_policy_with() -> None:
    document = make_document(
        tenants=[{"name": "u1", "rent": "never", "budget": 7}, {"name": "u2"}], jobs=[make_row(rent="budget")]
    )
    scenario = read(document)
    assert (scenario.cluster.tenants[0].budget, scenario.jobs[0].rent) == (7.0, "budget")


def test_reads_capacity_that_is_taken_already() -> None:
    document = make_document(preload=[{"server": "s2", "slot": 3, "resource": "worker", "amount": 4}])
    for server in document["servers"]:
        del server["cells"]
    preload = read(document).preload[0]
    assert (preload.server, preload.slot, preload.resource, preload.amount) == (1, 3, 0, 4.0)


def test_home_cells_cannot_be_taken_already() -> None:
    document = make_document(preload=[{"server": "s2", "slot": 3, "resource": "worker", "amount": 2}])
    document["servers"][1]["cells"]["u2"]["worker"] = 2
    assert read(document).preload
    document["preload"][0]["amount"] = 3
    with pytest.raises(BadScenario, match=r"preload\[0\]\.amount: 3 are taken .* above what is nobody's home, 2"):
        read(document)


def test_accepts_a_byte_order_mark() -> None:
    assert read(b"\xef\xbb\xbf" + text(make_document()).encode()).slots == 32


def test_gives_read_only_arrays() -> None:
    scenario = read(make_document())
    assert not scenario.cluster.capacity.flags.writeable
    assert not scenario.jobs[0].worker_types[0].demand.flags.writeable


def test_a_refusal_survives_the_way_between_processes() -> None:
    refusal = BadScenario("jobs[3].chunks", "must be a positive integer")
    assert str(pickle.loads(pickle.dumps(refusal))) == "jobs[3].chunks: must be a positive integer"  # noqa: S301


# --- what is refused --------------------------------------------------------------------------------------------------

job, server, tenant = (lambda f: at("jobs", 0, f)), (lambda f: at("servers", 0, f)), (lambda f: at("tenants", 0, f))
LONG = {"worker": 1, **{f"r{k}": 1 for k in range(70)}}

FLAWS: list[tuple[str, Change]] = [
    # format and top level
    ('format: must be "scenario/1", not "result/1"', at("format")("result/1")),
    ('format: must be "scenario/1"; it is missing', lambda d: d.pop("format")),
    ('slot_second: unknown field; did you mean "slot_seconds"?', at("slot_second")(60)),
    ("slots: is missing", lambda d: d.pop("slots")),
    ("slots: must be a positive integer, not 0", at("slots")(0)),
    ("slots: must be a positive integer, not 2.5", at("slots")(2.5)),
    ("slots: must be at most 1,000,000, not 1000000000", at("slots")(10**9)),
    ("slots: must be at most 1,000,000, not 1000000000000000000000000000000000000...", at("slots")(10**300)),
    ("slot_seconds: must be above 0, not 0", at("slot_seconds")(0)),
    ("slot_seconds: must be above 0, not -60", at("slot_seconds")(-60)),
    ("slot_seconds: must be a finite number, not Infinity", at("slot_seconds")(float("inf"))),
    ("jobs: must be a list, not 3", at("jobs")(3)),
    ("jobs[0]: must be an object, not []", at("jobs", 0)([])),
    ('policy: must be an object, not "fifo"', at("policy")("fifo")),
    ("policy.name: is missing", at("policy")({})),
    ("policy.name: must be a text, not 7", at("policy")({"name": 7})),
    ("instant.name: is missing", at("instant")({"units": 1})),
    # servers
    ("servers: must have at least one server", at("servers")([])),
    ("servers: must have at most 20,000 elements, not 20,001", at("servers")([{}] * 20_001)),
    ("servers: name 72 resources, more than 64", server("capacity")(LONG)),
    ('servers[1].name: "s1" is already the name of servers[0]', at("servers", 1, "name")("s1")),
    ('servers[0].name: must be 1 to 200 printable characters, not ""', server("name")("")),
    ("servers[0].capacity.worker: must be 0 or more, not -2", server("capacity")({"worker": -2, "ps": 1})),
    ('servers[0].capacity.worker: must be a number, not "2"', server("capacity")({"worker": "2"})),
    ("servers[0].capacity: must be above 0 for at least one resource", server("capacity")({"worker": 0, "ps": 0})),
    (
        "servers[0].capacity.gpu: is 0, and no other server has any of it",
        server("capacity")({"worker": 2, "ps": 1, "gpu": 0}),
    ),
    ('servers[0].hosts[1]: must be one of worker, ps, not "disk"', server("hosts")(["worker", "disk"])),
    ("servers[0].hosts: must name worker, ps or both, each once", server("hosts")([])),
    ("servers[0].hosts: must name worker, ps or both, each once", server("hosts")(["ps", "ps"])),
    ('servers[0].cells.u11: unknown tenant; did you mean "u1"?', server("cells")({"u11": {"worker": 1}})),
    ("servers[0].cells.u1.gpu: unknown resource; there are worker, ps", server("cells")({"u1": {"gpu": 1}})),
    (
        "servers[0].cells: cells of worker sum to 3, above the capacity of 2",
        server("cells")({"u1": {"worker": 1}, "u2": {"worker": 2}}),
    ),
    # tenants
    ('tenants[1].name: "u1" is already the name of tenants[0]', at("tenants", 1, "name")("u1")),
    (
        'tenants[0].name: "operator" is the name of whoever owns what no quota covers',
        at("tenants")([{"name": "operator"}]),
    ),
    ("tenants[0].quota.worker: is 1, but the cells sum to 2", tenant("quota")({"worker": 1})),
    ("tenants[0].quota.worker: must be 0 or more, not -1", tenant("quota")({"worker": -1})),
    (
        "tenants: quotas of worker sum to 8, above the capacity of 6",
        lambda d: [s.pop("cells") for s in d["servers"]] + [u.update(quota={"worker": 4}) for u in d["tenants"]],
    ),
    ('tenants[0].rent: must be one of never, budget, auto, not "always"', tenant("rent")("always")),
    ('tenants[0].budget: is missing; rent "budget" needs it', tenant("rent")("budget")),
    ("tenants[0].budget: must be 0 or more, not -1", tenant("budget")(-1)),
    ('tenants[0].lend: must be one of keep, lend, not "no"', tenant("lend")("no")),
    ("tenants[0].reserve_price.gpu: unknown resource; there are worker, ps", tenant("reserve_price")({"gpu": 1})),
    # jobs
    ('jobs[1].name: "j0" is already the name of jobs[0]', at("jobs", 1, "name")("j0")),
    ('jobs[0].tenant: unknown tenant "u22"; did you mean "u2"?', job("tenant")("u22")),
    ("jobs[0].tenant: is missing", lambda d: d["jobs"][0].pop("tenant")),
    ("jobs[0].arrival: must be 0 or more, not -1", job("arrival")(-1)),
    ("jobs[0].arrival: must be a finite number, not NaN", job("arrival")(float("nan"))),
    ("jobs[0].arrival: must be a number, not true", job("arrival")(True)),
    ("jobs[0].chunks: must be a positive integer, not 0", job("chunks")(0)),
    ("jobs[0].chunks: must be a positive integer, not -3", job("chunks")(-3)),
    ("jobs[0].chunks: must be at most 1,000,000, not 10000000", job("chunks")(10**7)),
    ('jobs[0].chunk: unknown field; did you mean "chunks"?', job("chunk")(1)),
    ("jobs[0].depends_on: unknown field", job("depends_on")(["j1"])),
    (
        "jobs[0]: epochs * chunks * minibatches must be at most 1,000,000,000,000,000",
        lambda d: d["jobs"][0].update(epochs=10**9, minibatches=10**9),
    ),
    ("jobs[0]: takes one worker 2e+09 slots, more than 1e+08", job("epochs")(10**9)),
    ("jobs[0].max_workers: must be at most chunks (2), not 3", job("max_workers")(3)),
    (
        "jobs[0].min_workers: must be at most max_workers (1), not 2",
        lambda d: d["jobs"][0].update(min_workers=2, max_workers=1),
    ),
    ("jobs[0].max_ps: must be a positive integer, not 0", job("max_ps")(0)),
    ('jobs[0].lane: must be one of batch, instant, not "fast"', job("lane")("fast")),
    ("jobs[0].rent: needs tenants[0].budget", job("rent")("budget")),
    ("jobs[0].max_price: must be 0 or more, not -1", job("max_price")(-1)),
    ("jobs[0].minibatch_seconds: must be above 0, not 0", job("minibatch_seconds")(0)),
    ("jobs[0].minibatch_seconds: must be a finite number, not Infinity", job("minibatch_seconds")(float("inf"))),
    ("jobs[0].update_seconds: must be 0 or more, not -1", job("update_seconds")(-1)),
    ("jobs[0].worker_mbps: must be above 0, not 0", job("worker_mbps")(0)),
    ("jobs[0].ps_mbps: must be above 0, not 0", job("ps_mbps")(0)),
    (
        "jobs[0].worker_mbps: is missing",
        lambda d: d["jobs"][0].update(gradient_mb=5) or d["jobs"][0].pop("worker_mbps"),
    ),
    ("jobs[0].worker_demand: must take some amount of a resource", job("worker_demand")({})),
    ("jobs[0].ps_demand: must take some amount of a resource", job("ps_demand")({"ps": 0})),
    ('jobs[0].worker_demand.wrker: unknown resource; did you mean "worker"?', job("worker_demand")({"wrker": 1})),
    ("jobs[0].worker_demand.worker: must be a number, not [1]", job("worker_demand")({"worker": [1]})),
    ("jobs[0].worker_demand[1].ps: must be 0 or more, not -1", job("worker_demand")([{"worker": 1}, {"ps": -1}])),
    ("jobs[0].worker_demand: must have 1 to 16 alternatives, not 0", job("worker_demand")([])),
    (
        "jobs[0].minibatch_seconds: must be one number, or one for each of the 1 alternatives",
        job("minibatch_seconds")([1, 2]),
    ),
    ("jobs[0].value: must be an object, not 3", job("value")(3)),
    (
        "jobs[0].value.kind: must be one of linear, convex, sigmoid, deadline, linear_until, sigmoid_until, "
        'not "quadratic"',
        job("value")({"kind": "quadratic"}),
    ),
    (
        "jobs[0].value.slope: must be 0 or less, not 2: a value never rises with time",
        job("value")({"kind": "linear", "slope": 2, "base": 1}),
    ),
    (
        "jobs[0].value.slope: must be 0 or less, not 2: a value never rises with time",
        job("value")({"kind": "linear_until", "slope": 2, "base": 1, "until": 3}),
    ),
    ("jobs[0].value.base: is missing", job("value")({"kind": "linear", "slope": -1})),
    ("jobs[0].value.base: unknown field", job("value")({"kind": "convex", "scale": 1, "power": 1, "base": 1})),
    ("jobs[0].value.decay: must be 0 or more, not -1", job("value")({"kind": "sigmoid", "priority": 1, "decay": -1})),
    (
        "jobs[0].value.base: must be 0 or more, not -1",
        job("value")({"kind": "deadline", "base": -1, "deadline": 3}),
    ),
    (
        "jobs[0].value: is worth more than 1e+12 after one slot",
        job("value")({"kind": "convex", "scale": 1000, "power": 5}),
    ),
    ("jobs[0].batch_size: must be a positive integer, not 0", job("batch_size")(0)),
    ('jobs[0].mode: must be one of sync, async, not "both"', job("mode")("both")),
    ('jobs[0].speed[1]: must be a number, not "x"', job("speed")([1, "x"])),
    # preload
    (
        'preload[0].server: unknown server "s9"',
        at("preload")([{"server": "s9", "slot": 0, "resource": "ps", "amount": 1}]),
    ),
    (
        'preload[0].resource: unknown resource "gpu"',
        at("preload")([{"server": "s1", "slot": 0, "resource": "gpu", "amount": 1}]),
    ),
    (
        "preload[0].amount: 1.5 are taken there in all, above what is nobody's home, 0",
        at("preload")([{"server": "s1", "slot": 0, "resource": "worker", "amount": 1.5}]),
    ),
]


@pytest.mark.parametrize(("line", "change"), FLAWS, ids=[line for line, _ in FLAWS])
def test_refuses_with_one_line_that_names_the_place(line: str, change: Change) -> None:
    assert flaw(changed(change)) == line


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("scenario: is empty", ""),
        ("scenario: is empty", b" \n"),
        ("scenario: must be an object, not []", "[]"),
        ("scenario: must be an object, not null", "null"),
        ("line 2, column 1: not JSON (expecting property name enclosed in double quotes)", '{"a": 1,\n}'),
        ("line 1, column 9: not JSON (extra data)", '{"a": 1}{'),
        ("byte 1: is not UTF-8", b'"\xff"'),
        ("scenario: is nested too deeply", "[" * 100_000),
        ("scenario: is nested too deeply", '{"a":' * 100_000),
        ("scenario: holds an integer of 5000 digits", '{"slots": ' + "9" * 5000 + "}"),
        ('slots: the name "slots" stands twice', '{"slots": 1, "slots": 1}'),
        ('jobs[1].value.base: the name "base" stands twice', '{"jobs": [{}, {"value": {"base": 1, "base": 2}}]}'),
        ("policy.theta.worker: must be a finite number, not NaN", '{"policy": {"theta": {"worker": NaN}}}'),
        ("policy.clock[0]: must be a finite number, not -Infinity", '{"policy": {"clock": [-Infinity]}}'),
    ],
)
def test_refuses_what_is_not_strict_json(line: str, source: str | bytes) -> None:
    assert flaw(source) == line


def test_names_a_number_too_large_for_a_double() -> None:
    source = text(make_document()).replace('"arrival": 1.5', '"arrival": 1e999')
    assert flaw(source) == "jobs[1].arrival: must be a finite number, not Infinity"


def test_refuses_a_hostile_name_without_repeating_it_raw() -> None:
    document = changed(job("tenant")("\x1b[31m\n" * 50))
    assert flaw(document).isprintable()
    assert len(flaw(document)) < 200


def test_refuses_a_table_of_cells_that_would_fill_the_memory() -> None:
    servers = [{"name": f"s{k}", "capacity": {"worker": 1}, "cells": {}} for k in range(20_000)]
    tenants = [{"name": f"u{k}"} for k in range(1_001)]
    line = flaw(make_document(servers=servers, tenants=tenants, jobs=[]))
    assert line == "servers: too large: resources * tenants * servers must be at most 20,000,000"


def test_quota_that_agrees_with_the_cells_may_be_written_too() -> None:
    document = changed(tenant("quota")({"worker": 2.0, "ps": 1}))
    np.testing.assert_array_equal(read(document).cluster.quota, [[2, 4], [1, 1]])


@settings(max_examples=500, deadline=None)
@given(spoiled())
@example(make_document(servers={"name": "s1"}))
def test_whatever_stands_in_a_document_it_is_read_or_refused_in_one_line(document: Document) -> None:
    line = ""
    try:
        read(document)
    except BadScenario as refusal:
        line = str(refusal)
    assert line == "" or line.isprintable()
    assert len(line) < 400
