"""Jobs of a stored view that are read one by one say what they say where the view is read whole."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core import records, stored_jobs
from scheduling.core.policies import build
from scheduling.core.scenario import read
from scheduling.core.simulation import simulate
from scheduling.core.stored_jobs import document_and_jobs, view_shown
from scheduling.core.types import BATCH, Job, View
from tests.core.builders import make_job, make_view
from tests.core.random_markets import random_market
from tests.core.scenario_documents import Document, documents
from tests.core.test_records import Recorded, unusual, with_defaults
from tests.core.test_scenario_writing import assert_same

# What would begin or end a row, or all of them, if it did not stand in a text.
MISLEADING = (
    '"},{"arrival":1,',
    '],"memory":',
    ',"jobs":[',
    '"number":7,',
    ',"tenant":7,',
    "}",
    "\\",
    ',"divisible":true,',
)


def assert_reads_the_same(stored: bytes) -> None:
    """All fields of all jobs, each asked first of a job of which nothing was asked before."""
    whole = records.view_from(stored)
    for name in (field.name for field in fields(Job)):
        view = view_shown(stored)
        assert list(view.jobs) == list(whole.jobs)
        for number, job in whole.jobs.items():
            assert_same(getattr(view.jobs[number], name), getattr(job, name))
    view = view_shown(stored)
    assert [job.number for job in view.waiting] == [job.number for job in whole.waiting]
    assert all(view.jobs[job.number] is job for job in view.waiting)
    others = [field.name for field in fields(View) if field.name not in ("cluster", "jobs", "waiting")]
    for name in others:
        assert_same(getattr(view, name), getattr(whole, name))
    assert records.cluster_document(view.cluster) == records.cluster_document(whole.cluster)


@pytest.mark.wide
@settings(max_examples=60, deadline=None)
@given(documents(), st.lists(st.text() | st.sampled_from(MISLEADING), min_size=1))
def test_jobs_of_every_scenario_whatever_their_names(document: Document, names: list[str]) -> None:
    scenario = read(document)
    jobs = [replace(job, name=names[place % len(names)]) for place, job in enumerate(scenario.jobs)]
    assert_reads_the_same(records.view_bytes(make_view(jobs, cluster=scenario.cluster)))


@pytest.mark.parametrize("field", with_defaults(), ids=lambda field: field.name)
def test_job_with_a_field_that_is_not_as_usual(field: Any) -> None:
    jobs = [replace(make_job(number, chunks=9), **{field.name: unusual(field)}) for number in (3, 8)]
    assert_reads_the_same(records.view_bytes(make_view([make_job(1), *jobs])))


def test_views_of_markets_that_were_simulated() -> None:
    class Looked(Recorded):
        def decide(self, view: View) -> Any:
            assert_reads_the_same(records.view_bytes(view))
            return super().decide(view)

    for seed in range(6):
        scenario = random_market(seed, "guarantee")
        simulate(scenario, {BATCH: Looked(build(scenario.policy, scenario.cluster, scenario.jobs))})


def test_no_job_is_made_of_which_nothing_is_asked_but_what_its_row_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, whole = list[int](), records.job_from

    def counted(row: Any, units: Any) -> Job:
        numbers.append(row["number"])
        return whole(row, units)

    stored = records.view_bytes(make_view([make_job(number) for number in range(1, 40)]))
    monkeypatch.setattr(stored_jobs.records, "job_from", counted)
    view = view_shown(stored)
    about = [(job.number, job.tenant, job.arrival, job.divisible, job.value(2.0)) for job in view.waiting]
    assert (len(about), numbers) == (39, [])
    assert (view.jobs[7].epochs, view.jobs[7].work, view.jobs[9].lane) == (1, 1, BATCH)
    assert numbers == [7, 9]
    records.view_from(stored)
    assert len(numbers) == 41


@pytest.mark.parametrize("otherwise", [{"indent": 1}, {"sort_keys": False}], ids=["blanks", "another order"])
def test_text_that_is_not_canonical_is_read_whole(otherwise: dict[str, Any]) -> None:
    document = json.loads(records.view_bytes(make_view([make_job(1), make_job(2)])))
    document["jobs"] = [dict(reversed(row.items())) for row in document["jobs"]]
    text = json.dumps(document, **otherwise).encode()
    _, jobs = document_and_jobs(text)
    assert [type(job) for job in jobs.values()] == [Job, Job]
    assert_reads_the_same(text)


@pytest.mark.parametrize("cut", [b'"horizon"', b'"arrival"', b',"memory"', b'"waiting"'])
def test_text_that_ends_too_early_is_refused(cut: bytes) -> None:
    stored = records.view_bytes(make_view([make_job(1), make_job(2)]))
    with pytest.raises(ValueError, match="line 1"):
        view_shown(stored[: stored.index(cut)])
