"""The form of a job that runs a registered program: its parameters come from the program's own description."""

from __future__ import annotations

import html as entities
import json
import re
from typing import Any

import pytest
from django.utils import timezone

from scheduling.engines.programs import CHOICE, PROGRAMS, TRAINER
from scheduling.models import Run
from scheduling.quotes.pages.submit_form import form_values
from scheduling.quotes.pages.submit_program import UNITS, field_name
from tenants.roles import SUBMITTER
from tenants.scoping import scope
from tests.quotes.test_submit_page import YAML, complaint, jobs, market, send
from tests.scheduling.live import SPEC, make_award
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db
PROGRAM = {"program": "trainer", "trainer__model": "logistic", "trainer__batch_size": "16"}


def page(**fields: Any) -> str:
    _, lumen = market()
    return str(send(client_as(SUBMITTER, lumen), lumen, **fields).content.decode())


def test_first_view_offers_each_program_with_its_parameters_and_their_help() -> None:
    _, lumen = market()
    html = client_as(SUBMITTER, lumen).get("/t/lumen/submit/", secure=True).content.decode()
    for program in PROGRAMS.values():
        assert program.title in html
        for parameter in program.parameters:
            if parameter.name in UNITS:
                continue  # the job's own fields say these
            assert f'name="{field_name(program, parameter)}"' in html
            assert parameter.help in entities.unescape(html)
            for value, title in parameter.choices:
                assert f'<option value="{value}"' in html
                assert title in entities.unescape(html)


def test_chosen_program_is_part_of_the_job_with_what_differs_from_its_defaults() -> None:
    _, lumen = market()
    assert send(client_as(SUBMITTER, lumen), lumen, **PROGRAM, trainer__learning_rate="0.2").status_code == 302
    (job,) = jobs()
    assert job.spec["program"] == {"name": "trainer", "parameters": {"model": "logistic", "batch_size": 16}}


def test_parameters_of_a_program_that_was_not_chosen_say_nothing() -> None:
    _, lumen = market()
    assert send(client_as(SUBMITTER, lumen), lumen, program="", trainer__batch_size="many").status_code == 302
    assert "program" not in jobs()[0].spec


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("batch_size", "many", "Batch size must be a whole number."),
        ("batch_size", "0", "Batch size must be between 1 and 1024."),
        ("learning_rate", "11", "Learning rate must be between 1e-06 and 10."),
        ("learning_rate", "nan", "Learning rate must be a number."),
        ("model", "dream", "Model must be one of logistic, multilayer, convolutional."),
    ],
)
def test_error_of_a_parameter_stands_at_its_field(field: str, value: str, sentence: str) -> None:
    name = f"trainer__{field}"
    html = page(**PROGRAM | {name: value})
    assert complaint(html, name) == sentence
    assert f'href="#id_{name}"' in html
    assert jobs() == []


def test_parameters_that_do_not_go_together_are_complained_of_at_the_program() -> None:
    html = page(**PROGRAM, chunks="200", minibatches="10000", trainer__features="1024")
    assert "more than" in complaint(html, "program")
    assert jobs() == []


def test_program_that_nobody_registered_is_refused_at_its_field() -> None:
    assert "program" in complaint(page(program="sh"), "program").lower()
    assert jobs() == []


def test_uploaded_job_takes_the_same_program_and_is_shown_in_the_form() -> None:
    text = YAML + '  program: {"name": "trainer", "parameters": {"model": "logistic", "layers": 3}}\n'
    html = page(source="text", text=text, show="1")
    assert re.search(r'name="program"\s+value="trainer" checked', html)
    assert re.search(r'<option value="logistic" selected', html)
    assert re.search(r'name="trainer__layers" value="3"', html)


def test_uploaded_program_that_is_wrong_is_complained_of_at_the_text() -> None:
    text = YAML + '  program: {"name": "trainer", "parameters": {"layers": 99}}\n'
    assert "program.parameters.layers" in complaint(page(source="text", text=text), "text")


@pytest.mark.parametrize(
    "program", [{"name": "gone", "parameters": {}}, {"name": "trainer", "parameters": {"x": 1}}, 3]
)
def test_job_of_a_program_that_the_form_does_not_know_opens_as_text(program: object) -> None:
    assert form_values(SPEC | {"program": program}, []) is None


def test_form_and_job_mean_the_same_program() -> None:
    values = {p.name: p.choices[-1][0] if p.kind == CHOICE else p.maximum for p in TRAINER.parameters}
    values = {name: value for name, value in values.items() if name not in UNITS}
    spec = SPEC | {"program": {"name": "trainer", "parameters": values | {"epochs": SPEC["epochs"]}}}
    fill = form_values(spec, [])
    assert fill is not None
    assert fill["program"] == "trainer"
    assert {name.partition("__")[2]: value for name, value in fill.items() if "__" in name} == values


def test_measured_times_are_offered_and_fill_the_form() -> None:
    pool, lumen = market()
    program = {"name": "trainer", "parameters": {"model": "logistic"}}
    award = make_award(pool, lumen, spec=SPEC | {"program": program})
    with scope(lumen):
        Run.objects.create(
            tenant=lumen, job=award.job, award=award, engine="local", key="a" * 32, program="trainer",
            state="finished", ends_at=pool.slot_start(2), due_at=pool.slot_start(0), seen_at=timezone.now(),
            progress={"minibatch_seconds": 0.7, "exchange_seconds": 0.16, "gradient_mb": 2.0},
        )  # fmt: skip
    client = client_as(SUBMITTER, lumen)
    fields = {"program": "trainer", "trainer__model": "logistic"}
    html = send(client, lumen, "quote/", **fields).content.decode()
    assert "measured" in html
    fill = json.loads(entities.unescape(re.findall(r'name="apply" value="([^"]*)" data-fill', html)[0]))
    assert fill == {"minibatch_seconds": 0.7, "gradient_mb": 2, "worker_mbps": 200, "ps_mbps": 800}
    applied = send(client, lumen, **fields, apply=json.dumps(fill)).content.decode()
    assert 'name="minibatch_seconds" value="0.7"' in applied
    assert "measured" not in applied[applied.index('id="quote"') :]
    other = send(client, lumen, "quote/", **fields | {"trainer__model": "multilayer"}).content.decode()
    assert "measured" not in other
