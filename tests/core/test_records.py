"""Stored views and plans: the bytes say all, and a replay from them decides the same to the last byte."""

from __future__ import annotations

import json
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduling.core import records
from scheduling.core.plain import RowTexts, canonical, plain_array
from scheduling.core.policies import build
from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH, Job, Plan, Policy, UnitType, View
from tests.core.builders import make_job, make_view
from tests.core.random_markets import random_market
from tests.core.test_scenario_writing import assert_same


@dataclass
class Recorded:
    """A policy that answers from the stored view, and checks that this changes nothing."""

    policy: Policy
    name: ClassVar[str] = "recorded"
    bookings: int = 0

    def decide(self, view: View) -> Plan:
        stored = records.view_bytes(view)
        read = json.loads(stored)
        assert stored == records.to_bytes(read)
        assert read.pop("cluster") == json.loads(canonical(records.cluster_document(view.cluster)))
        assert read == json.loads(records.view_text(view))
        assert read["occupied"] == json.loads(canonical(plain_array(view.occupied)))
        replayed = records.view_from(stored)
        assert records.view_bytes(replayed) == stored
        plan = self.policy.decide(view)
        answer = records.plan_bytes(plan)
        assert records.plan_bytes(self.policy.decide(replayed)) == answer
        assert records.plan_bytes(records.plan_from(answer)) == answer
        self.bookings += len(plan.bookings)
        return plan


@pytest.mark.one_case
@pytest.mark.parametrize("mode", ["paper", "guarantee"])
@pytest.mark.parametrize("policy", ["astraea", "fifo", "oasis"])
def test_a_replay_from_bytes_decides_the_same(mode: str, policy: str) -> None:
    bookings = 0
    for seed in range(40):
        scenario = random_market(seed, mode)
        settings = scenario.policy if policy == "astraea" else {"name": policy}
        recorded = Recorded(build(settings, scenario.cluster, scenario.jobs))
        simulate(scenario, {BATCH: recorded})
        bookings += recorded.bookings
    assert bookings > 20


def test_a_chain_depends_on_every_part_and_on_where_one_part_ends() -> None:
    link = records.digest("0" * 64, b"input", b"result")
    assert link != records.digest("1" * 64, b"input", b"result")
    assert link != records.digest("0" * 64, b"inputr", b"esult")
    assert link == records.digest("0" * 64, b"input", b"result")


# What stands of a job in every stored view: all that a job had before a field was left out where it says what is usual.
ALWAYS = {
    *("number", "name", "tenant", "arrival", "epochs", "chunks", "minibatches", "worker_types", "ps_types", "value"),
    *("gradient_mb", "min_workers", "max_workers", "max_ps", "lane", "priority", "max_price", "rent", "samples"),
}
ALWAYS_SAMPLES = {"total", "batch_size", "seconds", "internal_mbps", "ps_ratio", "mode", "speed", "model"}
# By the type of a field, a value that is no field's default.
UNUSUAL = {"int": 7, "float": 0.375, "str": "unusual", "tuple[float, ...]": (1.0, 0.5)}


def unusual(field: Field[Any]) -> Any:
    """A value of the field's type that is not its default; of a record, one with such values alone."""
    kind = str(field.type).removesuffix(" | None")
    if kind == "bool":
        return not field.default
    if field.default_factory is not MISSING and is_dataclass(default := field.default_factory()):
        return replace(default, **{inner.name: unusual(inner) for inner in fields(default)})
    return UNUSUAL[kind]  # a field of another type: say above which value is none that is usual


def with_defaults() -> list[Field[Any]]:
    return [field for field in fields(Job) if field.default is not MISSING or field.default_factory is not MISSING]


def usual_job() -> Job:
    """One that says nothing where it need not."""
    base = make_job(chunks=9)
    return Job(**{field.name: getattr(base, field.name) for field in fields(Job) if field not in with_defaults()})


def stored(job: Job) -> Any:
    """The job as a stored view has it."""
    return json.loads(records.view_bytes(make_view(waiting=(job,))))["jobs"][0]


def restored(job: Job) -> Job:
    """The job as it comes out of a stored view."""
    (again,) = records.view_from(records.view_bytes(make_view(waiting=(job,)))).waiting
    return again


@pytest.mark.parametrize("field", with_defaults(), ids=lambda field: field.name)
def test_field_of_a_job_that_is_not_as_usual_is_kept(field: Field[Any]) -> None:
    usual, value = usual_job(), unusual(field)
    assert value != getattr(usual, field.name)
    job = replace(usual, **{field.name: value})
    assert field.name in stored(job)
    assert_same(restored(job), job)


def test_job_in_which_no_field_is_as_usual_is_kept_whole() -> None:
    job = replace(usual_job(), **{field.name: unusual(field) for field in with_defaults()})
    assert_same(restored(job), job)


def test_job_that_is_as_usual_is_stored_as_it_was_before_there_was_a_newer_field() -> None:
    """Else every stored view would be another, and a job that nobody changed would be stored anew. Whoever adds a field
    to `Job` leaves it out where it has its default, in `records.py`; a field of `Samples` likewise."""
    row = stored(usual_job())
    assert (set(row), set(row["samples"])) == (ALWAYS, ALWAYS_SAMPLES)
    assert_same(restored(usual_job()), usual_job())


def test_jobs_of_a_stored_view_share_the_units_that_are_alike_and_no_others() -> None:
    market = random_market(3, "guarantee", backlog=True)
    usual = market.jobs[0].worker_types
    jobs = tuple(replace(job, worker_types=usual) if job.number % 2 else job for job in market.jobs)
    scenario = replace(market, jobs=jobs)
    policy = build(scenario.policy, scenario.cluster, scenario.jobs)
    shared = 0

    @dataclass
    class Reader:
        name: ClassVar[str] = "reader"

        def decide(self, view: View) -> Plan:
            nonlocal shared
            read = records.view_from(records.view_bytes(view))
            kinds: dict[tuple[object, ...], UnitType] = {}
            for number, job in read.jobs.items():
                assert [fields_of(unit) for unit in units(read, number)] == [
                    fields_of(unit) for unit in units(view, number)
                ]
                for unit in job.worker_types:
                    shared += fields_of(unit) in kinds
                    assert kinds.setdefault(fields_of(unit), unit) is unit
            return policy.decide(view)

    simulate(scenario, {BATCH: Reader()})
    assert shared


def units(view: View, number: int) -> tuple[UnitType, ...]:
    return view.jobs[number].worker_types


def fields_of(unit: UnitType) -> tuple[object, ...]:
    return unit.seconds, unit.mbps, unit.amounts


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_did_not_change_are_written_as_if_nobody_had_known_them(seed: int) -> None:
    """Rows of few values, whose runs go on in the next row; zeros of both signs; shapes that change and come back."""
    dice, texts = np.random.default_rng(seed), RowTexts()
    array = np.zeros((2, 3, 20))
    for _ in range(200):
        step = dice.integers(0, 12)
        row = dice.integers(0, array.shape[0]), dice.integers(0, array.shape[1])
        if step == 0:
            array = np.zeros((2, int(dice.integers(0, 4)) or 3, int(dice.choice([0, 1, 20, 40]))))
        elif step < 4:
            array[row] = dice.choice([0.0, -0.0, 0.1 + 0.2, 7.0])
        elif array.shape[2]:
            array[row][dice.integers(0, array.shape[2])] = dice.choice([0.0, -0.0, 1.0, 2.5])
        rows = array if step % 2 else array[:, ::-1]  # written to later, in and out of the order of memory
        assert texts.text(rows) == canonical(plain_array(rows))
