"""From an award to phases: who runs where, when, and under which rank."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduling.core.policies import build
from scheduling.core.scenario import BadScenario
from scheduling.engines.ranks import ranked
from scheduling.market.decide.programs import program_of
from scheduling.models import Award, Pool
from scheduling.runs.plans import ends_at, generations
from tests.core.builders import make_cluster, make_job, make_ps, make_view
from tests.scheduling.builders import NOON

NAMES = {1: "s1", 2: "s2"}


def award(*rows: list[int], start: int = 2, end: int = 8, **fields: Any) -> Award:
    pool = Pool(slot_seconds=10, epoch_at=NOON)
    return Award(pool=pool, start=start, end=end, state="running", allocation=list(rows), **fields)


def phases(plan: Award, slot: int = 0) -> list[tuple[float, str]]:
    at = NOON + timedelta(seconds=10 * slot)
    return [
        ((one.at - NOON.timestamp()) / 10, " ".join(f"{each.role[0]}{each.rank}@{each.server}" for each in members))
        for one, members in ranked(generations(plan, NAMES, at))
    ]


def test_whoever_can_stay_keeps_its_rank_and_others_get_one_that_nobody_has() -> None:
    plan = award([1, 2, 4, 2, 1], [2, 4, 8, 1, 0], [1, 4, 8, 1, 1])
    assert phases(plan) == [(2, "p0@s1 w0@s1 w1@s1"), (4, "p0@s1 w0@s1 w2@s2")]


def test_pause_has_nobody_and_ranks_begin_anew_after_it() -> None:
    assert phases(award([1, 2, 3, 1, 1], [2, 5, 8, 2, 1])) == [(2, "p0@s1 w0@s1"), (3, ""), (5, "p0@s2 w0@s2 w1@s2")]


def test_where_no_parameter_server_can_stay_ranks_begin_anew() -> None:
    plan = award([1, 2, 8, 1, 0], [1, 2, 4, 0, 1], [2, 4, 8, 1, 1])
    assert phases(plan) == [(2, "p0@s1 w0@s1"), (4, "p0@s2 w0@s1 w1@s2")]


def test_job_without_parameter_servers_of_its_own_gets_one() -> None:
    assert phases(award([1, 2, 8, 2, 0])) == [(2, "p0@s1 w0@s1 w1@s1")]


def test_run_that_goes_on_later_begins_at_the_slot_that_runs() -> None:
    assert phases(award([1, 2, 4, 2, 1], [1, 4, 8, 1, 1]), slot=5) == [(5, "p0@s1 w0@s1")]


def test_award_that_was_cut_ends_at_the_cut() -> None:
    cut_award = award([1, 2, 8, 1, 1], cut_at=5)
    assert cut_award.used_until == 5
    assert ends_at(cut_award, NOON) == NOON + timedelta(seconds=50)
    cut_award.state = "void"
    assert ends_at(cut_award, NOON) == NOON


SPEC = {"epochs": 3, "chunks": 2, "minibatches": 5}


def test_program_takes_its_work_from_the_job() -> None:
    pair = program_of(SPEC | {"program": {"name": "trainer", "parameters": {"model": "logistic"}}})
    assert pair is not None
    program, values = pair
    assert (program.name, values["epochs"], values["chunks"], values["minibatches"]) == ("trainer", 3, 2, 5)
    assert program_of(SPEC) is None


@pytest.mark.parametrize(
    ("program", "place", "words"),
    [
        ("trainer", "program", "must be an object"),
        ({"name": "rm -rf"}, "program.name", "must be one of trainer"),
        ({"name": ["trainer"]}, "program.name", "must be one of"),
        ({"name": "trainer", "command": "sh"}, "program.command", "is not part of a program"),
        ({"name": "trainer", "parameters": []}, "program.parameters", "must be an object"),
        ({"name": "trainer", "parameters": {"model": "llm"}}, "program.parameters.model", "must be one of"),
        ({"name": "trainer", "parameters": {"modle": "x"}}, "program.parameters.modle", "has no parameter"),
        ({"name": "trainer", "parameters": {"epochs": 9}}, "program.parameters.epochs", "must be the job's own"),
    ],
)
def test_wrong_program_is_refused_at_the_field(program: object, place: str, words: str) -> None:
    with pytest.raises(BadScenario, match=words) as refused:
        program_of(SPEC | {"program": program})
    assert refused.value.place == place


def test_a_gang_that_optimus_scatters_unit_by_unit_runs_whole() -> None:
    cluster = make_cluster([[3, 2, 1], [0, 1, 3]])
    view = make_view(cluster=cluster, waiting=[make_job(chunks=6, epochs=9, ps_types=[make_ps(mbps=2.0)])])
    settings = {"name": "elastic", "policy": {"name": "optimus", "scatter": True}, "prices": {}}
    [booking] = build(settings, cluster, view.waiting).decide(view).bookings
    rows = [[row.server + 1, 0, 1, row.workers, row.ps] for row in booking.allocation]
    assert len({(workers, ps) for *_, workers, ps in rows}) > 1  # no even split
    phases_of_gang = generations(award(*rows, start=0, end=1, work_left=1.0), {1: "s1", 2: "s2", 3: "s3"}, NOON)
    [(_, members)] = ranked(phases_of_gang)
    roles = [one.role for one in members]
    assert (roles.count("worker"), roles.count("ps")) == (booking.workers, booking.ps)
    assert booking.workers > 1
    assert len({(one.role, one.rank) for one in members}) == len(roles)
