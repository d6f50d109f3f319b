"""In the instant lane a job that cannot go on elsewhere keeps its servers from its start to its end (O13)."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.jobs.describing import JobWording, job_describe
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.models import Award, Pool
from scheduling.programs.saving import Saves, unbroken_added
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.catalogue.builders import allow
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import SPEC, again, book_is_sound, fund, make_live_pool, member, moment, submitted

pytestmark = pytest.mark.django_db
ONE: dict[str, Any] = {"epochs": 1, "chunks": 1, "minibatches": 1, "max_workers": 1, "minibatch_seconds": 10.0}
FOUR_SLOTS: dict[str, Any] = ONE | {"epochs": 4}


@pytest.fixture
def market() -> tuple[Pool, Tenant]:
    """Two servers with room for one worker each; the first one is taken in its third slot."""
    pool, lumen = make_live_pool(), make_tenant("lumen")
    for name in ("s01", "s02"):
        make_server(pool, name, worker=1, ps=1)
    fund(lumen)
    submitted(pool, lumen, slot=1.5, **ONE)
    return pool, lumen


def places(award: Award) -> list[tuple[int, int]]:
    return [(start, end) for _, start, end, _, _ in again(award).allocation]


@pytest.mark.parametrize("fields", [{"divisible": False}, {"unbroken": True}])
def test_a_job_that_is_sold_whole_stays_where_it_is(market: tuple[Pool, Tenant], fields: dict[str, bool]) -> None:
    pool, lumen = market
    answer = submitted(pool, lumen, **FOUR_SLOTS, **fields)
    assert again(answer.job).spec["unbroken"] is True
    assert places(answer.award) == [(0, 4)]
    assert book_is_sound()
    with scope_disabled("the test verifies everything"):
        assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_any_other_job_takes_the_cheapest_slots_wherever_they_are(market: tuple[Pool, Tenant]) -> None:
    pool, lumen = market
    answer = submitted(pool, lumen, **FOUR_SLOTS)
    assert "unbroken" not in again(answer.job).spec
    assert len(places(answer.award)) > 1


def test_a_script_for_one_number_of_gpus_stays_where_it_is() -> None:
    """The pool's workers are its GPUs."""
    pool, lumen = make_live_pool(), make_tenant("lumen")
    for name in ("s01", "s02"):
        make_server(pool, name, worker=1)
    fund(lumen)
    allow(lumen)
    without_ps = {name: entry for name, entry in SPEC.items() if not name.startswith("ps_")} | ONE | {"ps_demand": []}
    first = job_submit(pool=pool, name="one", spec=without_ps, lane="instant", by=member(lumen), at=moment(1.5))
    assert isinstance(first, Submitted)
    script = "#!/bin/bash\n#SBATCH --ntasks=1 --time=0:00:40\nsleep 30\n"
    wording = JobWording(script=script, worth={"credits": "5", "within_seconds": 600, "later": "half"}, name="mine")
    answer = job_describe(pool=pool, wording=wording, lane="instant", by=member(lumen), at=moment(0))
    assert isinstance(answer, Submitted), answer
    job = again(answer.job)
    assert (job.spec["unbroken"], job.spec.get("divisible")) == (True, None)
    assert answer.award is not None
    assert places(answer.award) == [(0, 4)]


@pytest.mark.parametrize(
    ("spec", "saves", "added"),
    [
        ({}, None, {}),
        ({}, Saves("none"), {"unbroken": True}),
        ({}, Saves("restart"), {}),
        ({"divisible": False}, Saves("restart"), {"unbroken": True}),
        ({"divisible": True}, Saves("none"), {}),
        ({"unbroken": False}, Saves("none"), {}),
    ],
)
def test_who_is_unbroken(spec: dict[str, bool], saves: Saves | None, added: dict[str, bool]) -> None:
    assert unbroken_added(spec, saves) == added
