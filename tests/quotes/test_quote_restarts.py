"""What a program loses where its size changes stands in the quote."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.core.types import Allocation, Booking
from scheduling.programs.catalogue import Program, ProgramOwner, read
from scheduling.quotes.api.quotes import quote_values
from scheduling.quotes.quotes import Quote, job_quote
from scheduling.quotes.restarts import Resize, Restarts, resizes_of, restarts_of
from tests.catalogue.builders import BY, register
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import SPEC, fund, make_live_pool, member, moment

MICRO_OF_SLOTS = [[[1, 400_000]], [[1, 300_000], [2, 100_000]], [[1, 200_000]], [], [[1, 600_000]]]


def booking(*rows: tuple[int, int, int, int, int]) -> Booking:
    allocation = tuple(Allocation(*row) for row in rows)
    start, end = min(row[1] for row in rows), max(row[2] for row in rows)
    return Booking(7, start, end, allocation, work=1.0, workers=4, ps=1)


def program(**fields: Any) -> Program:
    answer = read({"name": "mine", "shape": "all_reduce", "command": ["true"]} | fields, ProgramOwner())
    assert isinstance(answer, Program), answer
    return answer


@pytest.mark.parametrize(
    ("rows", "resizes"),
    [
        ([(0, 10, 15, 4, 1)], []),
        ([(0, 10, 12, 4, 1), (0, 12, 15, 4, 1)], []),  # rows that meet are one gang
        ([(0, 10, 12, 4, 1), (0, 12, 15, 2, 1)], [(12, 5, 400_000)]),
        ([(0, 10, 12, 4, 0), (1, 12, 15, 4, 0)], [(12, 4, 400_000)]),  # it moves
        ([(0, 10, 13, 2, 0), (0, 14, 15, 2, 0)], [(13, 2, 200_000)]),  # it pauses once, and is saved once
        ([(0, 10, 15, 1, 0), (1, 11, 12, 2, 0)], [(11, 1, 400_000), (12, 3, 400_000)]),
    ],
)
def test_each_change_of_size_or_place_is_one_with_what_is_held_before_it(
    rows: list[tuple[int, int, int, int, int]], resizes: list[tuple[int, int, int]]
) -> None:
    assert resizes_of(booking(*rows), MICRO_OF_SLOTS) == tuple(Resize(*each) for each in resizes)
    assert [each.price for each in resizes_of(booking(*rows), [])] == [0] * len(resizes)


def test_what_is_lost_is_the_grace_of_each_restart_and_nothing_where_the_size_stays() -> None:
    resizes = (Resize(12, 5, 400_000), Resize(13, 3, 200_001))
    mine = program(resize="restart", grace_seconds=15)
    assert restarts_of(resizes, mine, 60) == Restarts(2, 15.0, 2.0, 150_000)
    assert restarts_of(resizes, mine, 10) == Restarts(2, 10.0, 8.0, 600_001)  # at most a slot
    assert restarts_of((), mine, 60) is None
    assert restarts_of(resizes, None, 60) is None
    assert restarts_of(resizes, program(resize="none"), 60) is None


@pytest.mark.django_db
def test_quote_of_a_program_that_restarts_says_what_its_changes_of_size_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which sizes a schedule has is the policy's own; here it changes once."""
    monkeypatch.setattr("scheduling.quotes.desks.resizes_of", lambda booking, charges: (Resize(1, 2, 10_001),))
    pool, lumen = make_live_pool(), make_tenant("lumen")
    make_server(pool, "s01", worker=4, ps=2)
    fund(lumen)
    register(BY, resize="restart", grace_seconds=5)
    register(BY, name="fixed")
    workers = {name: value for name, value in SPEC.items() if not name.endswith("mbps")}
    question = {"pool": pool, "name": "train", "lane": "instant", "by": member(lumen), "at": moment(0.0)}
    quotes = [
        job_quote(spec=workers | {"ps_demand": [], "program": {"name": name, "parameters": {}}}, **question)
        for name in ("align", "fixed")
    ]
    restarts = [quote.restarts for quote in quotes if isinstance(quote, Quote)]
    assert restarts == [Restarts(1, 5.0, 1.0, 5_000), None]
    assert isinstance(quotes[0], Quote)
    assert quote_values(pool, quotes[0], payer="lumen")["restarts"] == restarts[0]
