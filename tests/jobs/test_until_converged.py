"""A job that ends when its loss has stopped falling: what may be asked for, in every way of asking."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.models import JobState, ResourceKind
from scheduling.quotes.pages.submit_form import form_values
from tests.engines.market import PARAMETERS
from tests.quotes.test_submit_page import FIELDS, complaint, jobs
from tests.scheduling.builders import make_tenant
from tests.scheduling.clocks import moment
from tests.scheduling.elastic_world import make_elastic
from tests.scheduling.live import SPEC as LIVE_SPEC
from tests.scheduling.live import fund, make_live_pool, member
from tests.scheduling.markets import SPEC
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db
PROGRAM = {"name": "trainer", "parameters": PARAMETERS}
WISH = SPEC | {"epochs": 50, "program": PROGRAM}


def submit(**spec: Any) -> Any:
    pool, _, renter = make_elastic()
    wish = {"pool": pool, "name": "train", "lane": "batch", "by": member(renter), "at": moment(pool, 0.5)}
    return job_submit(spec={name: value for name, value in (WISH | spec).items() if value is not None}, **wish)


@pytest.mark.parametrize("target", [{}, {"threshold": 0.02}, {"threshold": 0.02, "patience": 5}])
def test_a_job_may_end_with_its_loss_and_what_it_leaves_open_has_a_default(target: dict[str, Any]) -> None:
    outcome = submit(until_converged=target)
    assert isinstance(outcome, Submitted), outcome
    assert (outcome.job.state, outcome.job.spec["until_converged"]) == (JobState.QUEUED, target)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"until_converged": 3}, "until_converged"),
        ({"until_converged": {"delta": 0.1}}, "until_converged.delta"),
        ({"until_converged": {"threshold": 0}}, "until_converged.threshold"),
        ({"until_converged": {"threshold": 0.9}}, "until_converged.threshold"),
        ({"until_converged": {"threshold": "1%"}}, "until_converged.threshold"),
        ({"until_converged": {"patience": 0}}, "until_converged.patience"),
        ({"until_converged": {"patience": 50}}, "until_converged.patience"),
        ({"until_converged": {}, "epochs": 2_001}, "epochs"),
        ({"until_converged": {}, "program": None}, "until_converged"),
    ],
)
def test_what_means_nothing_is_refused_at_its_field(spec: dict[str, Any], field: str) -> None:
    outcome = submit(**spec)
    assert isinstance(outcome, InvalidJob)
    assert outcome.field == field
    assert outcome.sentence.startswith(field)


def test_a_pool_that_is_paid_ahead_refuses_it() -> None:
    pool, tenant = make_live_pool(), make_tenant("lumen")
    fund(tenant)
    spec = LIVE_SPEC | {"epochs": 20, "program": PROGRAM, "until_converged": {}}
    wish = {"pool": pool, "name": "train", "lane": "batch", "by": member(tenant), "at": moment(pool, 0.5)}
    outcome = job_submit(spec=spec, **wish)
    assert isinstance(outcome, InvalidJob)
    assert "needs an elastic pool" in outcome.sentence


PROGRAM_FIELDS = {"program": "trainer", "epochs": "50"}
TICKED = PROGRAM_FIELDS | {"until_converged": "on"}


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        (TICKED, {"threshold": 0.01, "patience": 3}),
        (TICKED | {"threshold": "0.3", "patience": "5"}, {"threshold": 0.003, "patience": 5}),
        (PROGRAM_FIELDS | {"threshold": "0.3"}, None),  # the box is what counts
    ],
)
def test_the_form_says_it_and_shows_it_again(fields: dict[str, str], target: dict[str, Any] | None) -> None:
    pool, _, renter = make_elastic()
    client = client_as("owner", renter)
    answer = client.post(f"/t/{renter.slug}/submit/", FIELDS | fields, secure=True)
    [job] = jobs()
    assert answer.status_code == 302
    assert job.spec.get("until_converged") == target
    page = client.get(f"/t/{renter.slug}/submit/?from={job.pk}", secure=True).content.decode()
    assert "Stop when the loss has stopped falling" in page
    values = form_values(job.spec, list(ResourceKind.objects.filter(pool=pool)))
    assert values is not None
    form_fields = {name: values[name] for name in ("until_converged", "threshold", "patience") if name in values}
    again = {"until_converged": "on", "threshold": pytest.approx(100 * target["threshold"])} if target else {}
    assert form_fields == (again | {"patience": target["patience"]} if target else {})


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        (TICKED | {"threshold": "90"}, "threshold", "Must be from 0.0001 to 50 per cent."),
        (TICKED | {"patience": "60"}, "patience", "Must be less than"),
        (TICKED | {"epochs": "5000"}, "epochs", "Must be at most 2,000"),
    ],
)
def test_a_complaint_stands_at_its_field_of_the_form(fields: dict[str, str], field: str, sentence: str) -> None:
    _, _, renter = make_elastic()
    answer = client_as("owner", renter).post(f"/t/{renter.slug}/submit/", FIELDS | fields, secure=True)
    assert answer.status_code == 422
    assert sentence in complaint(answer.content.decode(), field)
    assert jobs() == []


def test_other_pools_do_not_offer_it() -> None:
    make_live_pool()
    fund(tenant := make_tenant("lumen"))
    page = client_as("owner", tenant).get(f"/t/{tenant.slug}/submit/", secure=True).content.decode()
    assert "until_converged" not in page
