"""The form of a job: who may open it, what it says, and that one form makes one job."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from django.test import Client
from django.utils import timezone

from scheduling.common.texts import MOST_VALUES, plain_document
from scheduling.core.workload.model_types import MODEL_TYPES
from scheduling.models import Pool, TrainingJob
from scheduling.quotes.pages.submit_form import form_values
from scheduling.quotes.pages.submit_text import LONGEST, BadText, job_text, read_job
from tenants.models import Tenant
from tenants.roles import OWNER, ROLES_ALLOWED, STAFF_ROLES, SUBMITTER, TENANT_ROLES, Permission
from tenants.scoping import scope_disabled
from tests.database import as_superuser
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import SPEC, fund, make_live_pool
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db

KEY = "a" * 32
FIELDS = {
    "key": KEY,
    "pool": "main",
    "source": "form",
    "name": "vision",
    "wanted": "batch",
    "epochs": "2",
    "chunks": "4",
    "minibatch_seconds": "10",
    "max_workers": "4",
    "worker_takes_worker": "1",
    "ps_takes_ps": "1",
    "worker_mbps": "1",
    "ps_mbps": "4",
    "kind": "linear",
    "worth": "100",
    "loss": "1",
}


def market() -> tuple[Pool, Tenant]:
    """Castor's four idle workers and eight of the operator; Lumen has credits and no cells."""
    pool, lumen, castor = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen"), make_tenant("castor")
    make_cells(make_server(pool, "s01", worker=4, ps=2), castor, {"worker": 4, "ps": 2})
    make_server(pool, "s02", worker=8, ps=2)
    fund(lumen)
    return pool, lumen


def send(client: Client, tenant: Tenant, where: str = "", **fields: Any):
    return client.post(f"/t/{tenant.slug}/submit/{where}", FIELDS | fields, secure=True)


def jobs() -> list[TrainingJob]:
    with scope_disabled("the test looks at all jobs"):
        return list(TrainingJob.objects.order_by("pk"))


def answer(html: str) -> str:
    return text_of(html[html.index('id="quote"') :])


def complaint(html: str, field: str) -> str:
    match = re.search(rf'<div id="id_{field}_error"[^>]*>(.*?)</div>', html, re.DOTALL)
    return text_of(match[1]) if match else ""


@pytest.mark.parametrize("role", [*TENANT_ROLES, *STAFF_ROLES])
def test_opens_for_each_role_that_may_submit(role: str) -> None:
    _, lumen = market()
    expected = 200 if role in ROLES_ALLOWED[Permission.JOBS_SUBMIT] else 403
    client = client_as(role, lumen)
    assert client.get("/t/lumen/submit/", secure=True).status_code == expected
    assert send(client, lumen, "quote/").status_code == expected
    assert send(client, lumen).status_code == (302 if expected == 200 else 403)


def test_is_not_there_for_members_of_another_tenant() -> None:
    _, lumen = market()
    client = client_as(OWNER, make_tenant("castor"))
    assert client.get("/t/lumen/submit/", secure=True).status_code == 404
    assert send(client, lumen).status_code == 404
    assert send(client, lumen, "quote/").status_code == 404
    assert jobs() == []


def test_first_view_has_a_form_that_could_be_sent_and_asks_for_its_quote() -> None:
    _, lumen = market()
    client = client_as(SUBMITTER, lumen)
    html = client.get("/t/lumen/submit/", secure=True).content.decode()
    assert "no more workers than chunks help" in html
    assert all(each.label in html for each in MODEL_TYPES)
    assert 'hx-trigger="load, input' in html
    assert "Would be admitted" not in html
    assert "Get the quote" in answer(html)  # for who has no scripts
    assert "Would be admitted" in answer(send(client, lumen, "quote/").content.decode())
    again = send(client, lumen, quote="1").content.decode()
    assert "Would be admitted" in answer(again)
    assert 'hx-trigger="input' in again


def test_form_sent_is_the_job_that_was_written() -> None:
    _, lumen = market()
    reply = send(client_as(SUBMITTER, lumen), lumen)
    (job,) = jobs()
    assert reply["Location"] == f"/t/lumen/jobs/{job.pk}/"
    assert (job.name, job.lane, job.state) == ("vision", "batch", "queued")
    assert job.spec == {
        "epochs": 2,
        "chunks": 4,
        "minibatch_seconds": 10.0,
        "max_workers": 4,
        "worker_mbps": 1.0,
        "ps_mbps": 4.0,
        "worker_demand": {"worker": 1.0},
        "ps_demand": {"ps": 1.0},
        "value": {"kind": "linear", "base": 100.0, "slope": -1.0},
    }


def test_form_sent_twice_is_one_job() -> None:
    _, lumen = market()
    client = client_as(SUBMITTER, lumen)
    first, second = send(client, lumen), send(client, lumen)
    assert first["Location"] == second["Location"]
    assert len(jobs()) == 1


def test_form_sent_again_with_other_contents_makes_nothing_and_gets_a_new_key() -> None:
    _, lumen = market()
    client = client_as(SUBMITTER, lumen)
    send(client, lumen)
    html = send(client, lumen, epochs="3").content.decode()
    assert len(jobs()) == 1
    assert "was sent before" in html
    key = re.search(r'name="key" value="(\w+)"', html)
    assert key
    assert key[1] != KEY
    assert send(client, lumen, epochs="3", key=key[1]).status_code == 302
    assert len(jobs()) == 2


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"epochs": ""}, "epochs", "Say the epochs."),
        ({"epochs": "two"}, "epochs", "Enter a whole number."),
        ({"max_workers": "9"}, "max_workers", "Must be at most chunks (4), not 9."),
        ({"loss": "-2"}, "loss", "Must be 0 or less"),
        ({"deadline": "", "kind": "deadline"}, "deadline", "Needed for this kind of worth."),
        ({"gradient_mb": "5", "worker_mbps": ""}, "worker_mbps", "Is missing"),
        ({"max_price": "-1"}, "max_price", "Must be 0 or more"),
        ({"worker_takes_worker": "-1"}, "worker_takes_worker", "Must be 0 or more"),
    ],
)
def test_error_stands_at_its_field_and_values_are_kept(fields: dict[str, str], field: str, sentence: str) -> None:
    _, lumen = market()
    page = send(client_as(SUBMITTER, lumen), lumen, **fields)
    html = page.content.decode()
    assert page.status_code == 422
    assert sentence.lower() in complaint(html, field).lower()
    assert 'value="vision"' in html
    control = re.search(rf'<(?:input|select)[^>]*id="id_{field}"[^>]*>', html)
    assert control
    assert "autofocus" in control[0]
    assert 'aria-invalid="true"' in control[0]
    assert jobs() == []


def test_quote_alone_writes_nothing_and_is_a_part() -> None:
    _, lumen = market()
    html = send(client_as(SUBMITTER, lumen), lumen, "quote/", wanted="instant").content.decode()
    assert "<html" not in html
    assert "Would be admitted" in answer(html)
    assert jobs() == []


def test_quote_button_without_scripts_brings_the_page_with_the_quote_and_submits_nothing() -> None:
    _, lumen = market()
    html = send(client_as(SUBMITTER, lumen), lumen, quote="1").content.decode()
    assert "Would be admitted" in answer(html)
    assert 'value="vision"' in html
    assert jobs() == []


def test_quote_of_a_form_with_an_error_names_the_field() -> None:
    _, lumen = market()
    html = send(client_as(SUBMITTER, lumen), lumen, "quote/", max_workers="9").content.decode()
    assert 'data-fault="max_workers"' in html
    assert "Workers, at most" in answer(html)


def test_instant_price_of_the_quote_is_what_the_submission_pays() -> None:
    _, lumen = market()
    client = client_as(SUBMITTER, lumen)
    quoted = send(client, lumen, "quote/", wanted="instant").content.decode()
    send(client, lumen, wanted="instant")
    (job,) = jobs()
    page = client.get(f"/t/lumen/jobs/{job.pk}/", secure=True).content.decode()
    price = re.search(r"It pays <b>([\d.]+)</b>", page)
    assert price
    assert price[1] in quoted


def test_change_that_would_win_fills_the_form() -> None:
    _, lumen = market()
    client = client_as(SUBMITTER, lumen)
    html = send(client, lumen, "quote/", wanted="instant", max_price="0.01").content.decode()
    offered = re.findall(r'name="apply" value="([^"]*)" data-fill', html)
    assert offered
    fill = offered[-1].replace("&quot;", '"')
    assert set(json.loads(fill)) == {"max_price"}
    changed = send(client, lumen, wanted="instant", max_price="0.01", apply=fill).content.decode()
    assert "Instant, now" in answer(changed)
    assert "Would be refused" not in answer(changed).split("Instant, now")[1]
    assert jobs() == []


@pytest.mark.parametrize("apply", ["", "[]", "{", '{"epochs": {"a": 1}}', '{"nothing": 1}', "null"])
def test_invented_changes_break_nothing(apply: str) -> None:
    _, lumen = market()
    assert send(client_as(SUBMITTER, lumen), lumen, apply=apply).status_code in (200, 422)


def test_what_the_instant_lane_refuses_waits_if_it_is_wanted_so() -> None:
    _, lumen = market()
    client = client_as(SUBMITTER, lumen)
    for _ in range(2):
        assert send(client, lumen, wanted="either", max_price="0.001").status_code == 302
    assert send(client, lumen, wanted="instant", max_price="0.001", key="c" * 32).status_code == 302
    assert [(job.lane, job.state) for job in jobs()] == [("batch", "queued"), ("instant", "rejected")]


def test_quote_of_a_lane_that_does_not_look_says_why_beside_the_lane_that_does() -> None:
    pool, lumen = market()
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(instant_policy=None)
    html = answer(send(client_as(SUBMITTER, lumen), lumen, "quote/", wanted="instant").content.decode())
    assert "Would be refused. Main has no instant lane." in html
    assert "Batch, decided from" in html
    assert "No single change" not in html


YAML = "name: from-text\nlane: batch\nspec:\n" + "".join(f"  {k}: {json.dumps(v)}\n" for k, v in SPEC.items())


def test_text_is_submitted_as_it_is_written() -> None:
    _, lumen = market()
    assert send(client_as(SUBMITTER, lumen), lumen, source="text", text=YAML, name="", epochs="").status_code == 302
    (job,) = jobs()
    assert (job.name, job.spec) == ("from-text", SPEC)


@pytest.mark.parametrize(
    ("lanes", "wanted", "stored"),
    [
        ("lane: instant\notherwise: batch", "batch", ("batch", "queued")),
        ("lane: instant", "either", ("instant", "rejected")),
        ("otherwise: batch", "instant", ("batch", "queued")),
        ("", "either", ("batch", "queued")),
    ],
)
def test_lanes_of_a_text_are_those_of_a_program(lanes: str, wanted: str, stored: tuple[str, str]) -> None:
    _, lumen = market()
    text = f"{lanes}\nmax_price: 0.001\n" + "".join(f"{k}: {json.dumps(v)}\n" for k, v in SPEC.items())
    reply = send(client_as(SUBMITTER, lumen), lumen, source="text", text=text, wanted=wanted)
    assert reply.status_code == 302
    assert [(job.lane, job.state) for job in jobs()] == [stored]


@pytest.mark.parametrize("lanes", ["lane: both", "lane: batch\notherwise: batch", "lane: instant\notherwise: soon"])
@pytest.mark.parametrize("where", ["", "quote/"])
def test_lanes_that_do_not_exist_are_refused_by_the_quote_and_by_the_submission(lanes: str, where: str) -> None:
    _, lumen = market()
    text = f"{lanes}\n" + "".join(f"{k}: {json.dumps(v)}\n" for k, v in SPEC.items())
    html = send(client_as(SUBMITTER, lumen), lumen, where, source="text", text=text).content.decode()
    assert "must be one of batch, instant" in html or "only an instant job can go to the batch lane" in html
    assert "Would be admitted" not in html
    assert jobs() == []


def test_text_is_shown_in_the_form() -> None:
    _, lumen = market()
    html = send(client_as(SUBMITTER, lumen), lumen, source="text", text=YAML, show="1").content.decode()
    assert 'value="from-text"' in html
    assert '<input type="hidden" name="source" value="form"' in html
    assert jobs() == []


def test_error_of_a_text_stands_at_the_text() -> None:
    _, lumen = market()
    html = send(client_as(SUBMITTER, lumen), lumen, source="text", text="epochs: 2\nchunk: 3\n").content.decode()
    assert "chunk" in complaint(html, "text")
    assert jobs() == []


@pytest.mark.parametrize(
    "text",
    ["", "- 1", "a: [", "a: &x 1\nb: *x", "1: 2", "a: 2020-01-01", "name: 3", "spec: 1", "spec: {}\nother: 1",
     "a: " + "[" * 5_000, "x: '" + "y" * LONGEST + "'", "!!python/object/apply:os.system ['true']"],
)  # fmt: skip
def test_text_that_is_no_job_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadText):
        read_job(text)


@pytest.mark.parametrize(
    "value",
    ["9" * 5_000, "!!int 0x" + "f" * 60_000, "!!int 1" + ":1" * 30_000, "!!float 1" + ":1" * 300 + ".5", "2020-99-99",
     "2020-01-01 00:00:00 +99:99", "!!int x", '!!int ""', "!!float x", "!!bool maybe", "!!timestamp x",
     "!!binary QQ==", "!!omap [{a: 1}]", "!!set {a}", "!!pairs [{a: 1}]"],
)  # fmt: skip
def test_value_that_no_job_has_is_refused_in_words(value: str) -> None:
    with pytest.raises(BadText):
        read_job(f"epochs: {value}")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
def test_nested_brackets_are_looked_at_up_to_a_depth(
    opening: str, closing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every token the reader goes over all brackets that are open: it must not get far."""
    tokens = 0
    fetch = yaml.SafeLoader.fetch_more_tokens

    def counted(loader: yaml.SafeLoader) -> None:
        nonlocal tokens
        tokens += 1
        fetch(loader)

    monkeypatch.setattr(yaml.SafeLoader, "fetch_more_tokens", counted)
    with pytest.raises(BadText, match="nested too deeply"):
        read_job(f"a: {opening * 5_000}1{closing * 5_000}")
    assert tokens < 50


def test_text_of_very_many_values_is_refused() -> None:
    around = 3  # the whole, the name, the list
    plain_document("a: [" + "1," * (MOST_VALUES - around - 1) + "1]", longest=LONGEST)
    with pytest.raises(BadText, match="more than 5000 values"):
        plain_document("a: [" + "1," * (MOST_VALUES - around) + "1]", longest=LONGEST)


@pytest.mark.parametrize("applied", ["{", "[1]", "[" * 200_000, "9" * 5_000, '{"epochs": ' + "9" * 5_000 + "}"])
def test_button_that_fills_in_nothing_readable_changes_nothing(applied: str) -> None:
    _, lumen = market()
    html = send(client_as(SUBMITTER, lumen), lumen, apply=applied).content.decode()
    assert 'value="vision"' in html
    assert jobs() == []


def test_written_job_is_read_back() -> None:
    job = read_job(job_text("x", "batch", SPEC))
    assert (job.name, job.lane, job.spec) == ("x", "batch", SPEC)


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "linear", "slope": -1.5, "base": 20.0},
        {"kind": "convex", "scale": 16.0, "power": 2.0},
        {"kind": "deadline", "base": 10.0, "deadline": 7.0},
        {"kind": "sigmoid", "priority": 10.0, "decay": 0.5, "target": 6.0},
    ],
)
def test_earlier_job_opens_in_the_form_and_means_the_same(value: dict[str, Any]) -> None:
    pool, lumen = market()
    client = client_as(SUBMITTER, lumen)
    fill = form_values(SPEC | {"value": value}, list(pool.resources.all()))
    assert fill is not None
    send(client, lumen, **{name: str(entry) for name, entry in fill.items()})
    (job,) = jobs()
    assert job.spec["value"] == value
    html = client.get(f"/t/lumen/submit/?from={job.pk}", secure=True).content.decode()
    assert f'value="{value["kind"]}" checked' in html


@pytest.mark.parametrize("source", ["0", "x", "9" * 30, "-1"])
def test_job_of_nobody_or_of_another_tenant_cannot_be_opened_again(source: str) -> None:
    _, lumen = market()
    assert client_as(SUBMITTER, lumen).get(f"/t/lumen/submit/?from={source}", secure=True).status_code == 404
