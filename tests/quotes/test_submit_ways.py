"""The form of a job in hours and from a script: the same job as in detail, carried over from tab to tab and back."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone

from scheduling.audit.verification.jobs import jobs_verify
from scheduling.jobs.submission import job_submit
from scheduling.models import (
    JobDescription,
    Pool,
    PriceTick,
    ProgramVersion,
    Server,
    ServerState,
    TenantPolicy,
    TrainingJob,
)
from scheduling.programs.hours import to_bytes
from scheduling.quotes.pages.submit_quote import LaneCard, QuoteCard
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope, scope_disabled
from tests.catalogue.builders import allow, archive_with, member, register
from tests.database import overwrite
from tests.quotes.test_submit_page import answer, complaint, jobs, market
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import SPEC, make_live_pool
from tests.scheduling.live import member as live_member
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db

SCRIPT = "#!/bin/bash -eu\n#SBATCH --job-name=vision\n#SBATCH --gpus=4 --time=0:00:30\npython3 train.py\n"
SHORT = {
    "key": "b" * 32,
    "pool": "main",
    "source": "hours",
    "name": "vision",
    "wanted": "batch",
    "runs": "",
    "gpus": "2 to 4",
    "hours": "0.01",
    "scaling": "good",
    "by_worth": "260",
    "later": "half",
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> tuple[Pool, Tenant, Client]:
    """At a moment that stands still: what a job is worth counts from its submission."""
    at = timezone.now().replace(microsecond=0)
    monkeypatch.setattr("django.utils.timezone.now", lambda: at)
    pool, lumen = market()
    return pool, lumen, client_as(SUBMITTER, lumen)


def by(hours: float = 3) -> str:
    """A time as a browser sends it, with seconds: a form leaves them out where they are 0."""
    at = timezone.now() + timedelta(hours=hours)
    return (at + timedelta(seconds=not at.second)).strftime("%Y-%m-%dT%H:%M:%S")


def post(client: Client, where: str = "", **fields: Any) -> Any:
    return client.post(f"/t/lumen/submit/{where}", {"by": by()} | SHORT | fields, secure=True)


def form_of(html: str) -> str:
    start = html.index('id="job-form"')
    return html[start : html.index("</form>", start)]


def fields_of(html: str) -> dict[str, str]:
    """What a browser would send of the form."""
    form = form_of(html)
    fields = {}
    for tag in re.findall(r"<input\b[^>]*>", form):
        named = dict(re.findall(r'([a-z]+)="([^"]*)"', tag))
        if named.get("type") not in ("radio", "checkbox", "file") or re.search(r"\bchecked\b", tag):
            empty = "on" if named.get("type") == "checkbox" else ""
            fields[named.get("name", "")] = unescape(named.get("value", empty))
    for name, body in re.findall(r'<select name="([\w.-]+)".*?>(.*?)</select>', form, re.DOTALL):
        fields[name] = next(iter(re.findall(r'value="([^"]*)" selected', body)), "")
    for name, text in re.findall(r'<textarea name="(\w+)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL):
        fields[name] = unescape(text)
    return {name: value for name, value in fields.items() if name and name != "csrfmiddlewaretoken"}


class FieldNames(HTMLParser):
    """The names of the fields that a reader sees: in nothing that is hidden or folded up."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.open: list[tuple[str, bool]] = []  # each block with whether it shows what is in it

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in ("div", "details", "fieldset", "section"):
            self.open.append((tag, "hidden" not in named and (tag != "details" or "open" in named)))
        if tag in ("input", "select", "textarea") and named.get("type") != "hidden":
            self.names |= {str(named["name"])} if all(shows for _, shows in self.open) else set()

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            self.open.pop()


def test_first_view_asks_at_most_seven_things(world) -> None:
    _, _, client = world
    html = client.get("/t/lumen/submit/", secure=True).content.decode()
    parser = FieldNames()
    parser.feed(form_of(html).partition(">")[2])
    names = parser.names
    assert names == {"runs", "gpus", "hours", "scaling", "by", "by_worth", "later"}
    assert [tab for tab in re.findall(r'name="show"\s+value="(\w+)"', html) if tab != "1"] == [
        "hours", "script", "form", "text"
    ]  # fmt: skip
    assert html.index("Training with parameter servers") < html.rindex("Only reserve the units")


def test_same_job_in_hours_in_detail_and_as_yaml_is_the_same_to_the_byte(world) -> None:
    _, lumen, client = world
    allow(lumen)
    register(member(lumen))
    first = post(client, runs=":align:1")
    assert first.status_code == 302, answer(first.content.decode())
    for number, tab in enumerate(("form", "text")):
        carried = post(client, runs=":align:1", show=tab).content.decode()
        fields = fields_of(carried)
        assert fields["source"] == tab
        reply = client.post("/t/lumen/submit/", fields | {"key": f"{number}" * 32}, secure=True)
        assert reply.status_code == 302, answer(reply.content.decode())
    in_hours, detail, text = jobs()
    assert in_hours.spec["speed"]
    assert in_hours.spec["program"]["name"] == "align"
    assert to_bytes(in_hours.spec) == to_bytes(detail.spec) == to_bytes(text.spec)
    with scope(lumen):
        assert [each.job_id for each in JobDescription.objects.all()] == [in_hours.pk]


@pytest.mark.parametrize("later", ["nothing", "half", "hardly"])
def test_what_stood_in_the_form_comes_back_from_yaml_and_from_detail(world, later: str) -> None:
    _, _, client = world
    start = {"by": by()} | SHORT | {"later": later, "scaling": "poor", "gpus": "2 to 8"}
    for way in (("text", "hours"), ("form", "hours"), ("text", "form", "hours")):
        fields = dict(start)
        for tab in way:
            fields = fields_of(post(client, **fields | {"show": tab}).content.decode())
        assert {name: fields[name] for name in start} == start


def test_yaml_opens_with_a_job_and_not_with_a_complaint(world) -> None:
    _, _, client = world
    fields = fields_of(client.get("/t/lumen/submit/?by=yaml", secure=True).content.decode())
    assert fields["source"] == "text"
    assert client.post("/t/lumen/submit/", fields, secure=True).status_code == 302
    assert jobs()[0].spec["epochs"] > 0


def test_the_page_of_a_job_says_in_words_how_it_was_described(world) -> None:
    _, _, client = world
    assert post(client, begin=by(1)).status_code == 302
    (job,) = jobs()
    page = text_of(client.get(f"/t/lumen/jobs/{job.pk}/", secure=True).content.decode())
    words_of_page = page.partition("As it was described")[2]
    for words in (
        "Workers 2 to 4",
        "With the most of them it takes 0.01 hours",
        "With twice the workers 1.8 times as fast",
        f"Not before {by(1).replace('T', ' ')} (UTC)",
        f"Wanted by {by().replace('T', ' ')} (UTC)",
        "Worth by then 260 credits",
        "And later half after as long again",
    ):
        assert words in words_of_page
    assert "{" not in words_of_page


def test_a_time_that_was_said_from_now_on_is_shown_as_the_time_that_it_means(world) -> None:
    _, _, client = world
    assert post(client, by="now+2hours").status_code == 302
    (job,) = jobs()
    page = text_of(client.get(f"/t/lumen/jobs/{job.pk}/", secure=True).content.decode())
    meant = job.submitted_at + timedelta(hours=2)
    assert f"Wanted by {meant:%Y-%m-%d %H:%M:%S} (UTC)" in page


def test_what_cannot_be_said_on_another_tab_stays_where_it_is(world) -> None:
    _, _, client = world
    carried = post(client, source="text", text="epochs: 3\nchunks: 2\n", show="hours")
    assert "was not carried over" in text_of(carried.content.decode())
    assert fields_of(carried.content.decode())["gpus"] == "2 to 4"
    assert "epochs: 3" in fields_of(carried.content.decode())["text"]


def test_script_is_told_line_by_line_and_submitted_as_a_program_of_the_tenant(world) -> None:
    _, lumen, client = world
    allow(lumen)
    html = post(client, "quote/", source="script", script=SCRIPT.replace("\n", "\r\n")).content.decode()
    assert 'id="script-lines" hx-swap-oob="true"' in html
    assert "5 understood, 0 ignored, 1 not kept" in text_of(html)
    assert "4 workers, without parameter servers" in text_of(html)
    assert post(client, source="script", script=SCRIPT).status_code == 302
    (job,) = jobs()
    assert (job.name, job.spec["program"]["name"]) == ("vision", "vision-sbatch")
    page = text_of(client.get(f"/t/lumen/jobs/{job.pk}/", secure=True).content.decode())
    assert "As it was described" in page
    assert "#SBATCH --gpus=4 --time=0:00:30" in page
    again = fields_of(client.get(f"/t/lumen/submit/?from={job.pk}", secure=True).content.decode())
    assert (again["source"], again["script"], again["by_worth"]) == ("script", SCRIPT, "260")


def test_worth_stands_beside_the_price_of_the_same_units_now(world) -> None:
    pool, _, client = world
    assert "at the price now" not in text_of(post(client, "quote/").content.decode())  # none is posted
    slot, worker = pool.slot_at(timezone.now()), pool.resources.get(name="worker")
    for lane, price in (("batch", 2.5), ("instant", 2.0)):
        PriceTick.objects.create(pool=pool, lane=lane, resource=worker, slot=slot, price=price, offered=8, sold=0)
    text = text_of(post(client, "quote/", gpus="4").content.decode())
    assert "The same units for as long cost 40.00 at the price now." in text  # 4 workers for 4 slots


def test_line_that_cannot_be_kept_is_named_and_nothing_is_submitted(world) -> None:
    _, lumen, client = world
    allow(lumen)
    script = SCRIPT.replace("python3", "#SBATCH --exclusive\npython3")
    for where in ("", "quote/"):
        html = post(client, where, source="script", script=script).content.decode()
        assert "Line 4 cannot be kept" in text_of(html)
    assert "Line 4" in complaint(post(client, source="script", script=script).content.decode(), "script")
    assert jobs() == []


def test_script_comes_as_a_file_and_stands_in_the_form_that_answers(world) -> None:
    _, lumen, client = world
    allow(lumen)

    def post_script(content: bytes) -> Any:
        return post(client, "", source="script", script="", quote="1", script_file=SimpleUploadedFile("a", content))

    assert fields_of(post_script(SCRIPT.encode()).content.decode())["script"] == SCRIPT
    assert "not a text" in complaint(post_script(b"#!/bin/bash\n\xff").content.decode(), "script_file")
    assert "longer than 256 kB" in complaint(
        post_script(SCRIPT.encode() + b"#" * 2**18).content.decode(), "script_file"
    )
    assert jobs() == []


def lines_shown(html: str) -> str:
    """The kind of the box above the lines of a script."""
    match = re.search(r'<div id="script-lines"[^>]*>\s*<p class="verdict ?(\w*)">', html)
    return match[1] if match else "none"


def test_what_a_new_form_asks_for_is_over_by_the_time_that_it_says(world) -> None:
    _, lumen, client = world
    allow(lumen)
    fields = fields_of(client.get("/t/lumen/submit/?by=script", secure=True).content.decode())
    assert "--time=0:00:40\n" in fields["script"], "four slots, as the tab in hours says"
    quoted = text_of(client.post("/t/lumen/submit/quote/", fields, secure=True).content.decode())
    assert "Would be admitted" in quoted
    assert "worth nothing" not in quoted


@pytest.mark.parametrize(
    ("sizes", "rent", "own", "gpus"),
    [
        ((1, 1, 1), "auto", 0, 1),
        ((2, 1), "auto", 0, 2),
        ((1, 16), "auto", 0, 4),
        ((2, 8), "auto", 1, 4),
        ((2, 8), "never", 1, 1),
        ((2, 8), "never", 3, 3),
        ((2, 8), "never", 0, 1),
        ((), "auto", 0, 1),
    ],
)
def test_a_new_form_asks_for_as_many_gpus_as_a_server_has_for_its_tenant(
    sizes: tuple[int, ...], rent: str, own: int, gpus: int
) -> None:
    """At most four. A server that is lost, or has no workers, does not count."""
    pool, lumen = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    servers = [make_server(pool, f"s{number}", worker=units) for number, units in enumerate(sizes)]
    Server.objects.filter(pk=make_server(pool, "lost", worker=8).pk).update(state=ServerState.LOST)
    parameters = make_server(pool, "parameters", worker=8)
    parameters.hosts_workers = False
    overwrite(parameters)
    if own:
        make_cells(servers[-1], lumen, {"worker": own})
    with scope(lumen):
        TenantPolicy.objects.create(pool=pool, tenant=lumen, rent=rent)
    fields = fields_of(client_as(SUBMITTER, lumen).get("/t/lumen/submit/?by=script", secure=True).content.decode())
    assert (fields["gpus"], f"--gpus={gpus} " in fields["script"]) == (f"1 to {gpus}" if gpus > 1 else "1", True)


def test_a_new_form_says_its_time_in_whole_minutes_and_a_time_to_the_second_stays(world) -> None:
    _, _, client = world
    html = client.get("/t/lumen/submit/", secure=True).content.decode()
    begun = timezone.now()
    assert len(fields_of(html)["by"]) == len("2026-11-29T02:04"), "as a browser writes it: what differs was typed"
    wanted = timezone.make_aware(datetime.fromisoformat(fields_of(html)["by"]))
    assert timedelta(seconds=600) <= wanted - begun < timedelta(seconds=660), "never sooner than it can be over"
    assert "step=" not in re.findall(r'<input[^>]*name="by"[^>]*>', html)[0], "a browser shows seconds by their step"
    to_the_second = by()[:-2] + "07"
    assert fields_of(post(client, show="form", by=to_the_second).content.decode())["by"] == to_the_second


@pytest.mark.parametrize(("later", "is_said"), [("half", True), ("hardly", True), ("nothing", False)])
def test_quote_says_why_an_early_end_is_worth_more_than_was_typed(world, later: str, is_said: bool) -> None:
    words = text_of(post(world[2], "quote/", later=later).content.decode())
    assert ("260.00 by the time that you said; sooner it is worth a little more" in words) == is_said


@pytest.mark.parametrize(("worth", "warns"), [(0, True), (4_000, True), (5_000, False), (-1, True)])
def test_quote_warns_of_a_job_that_is_worth_nothing_as_it_is_shown_when_it_ends(worth: int, warns: bool) -> None:
    pool, _ = market()
    at = timezone.now()
    lane = LaneCard("batch", True, admitted=True, reason="", starts_at=at, ends_at=at, workers=1, worth=worth)
    card = QuoteCard(at, at, (lane,))
    html = render_to_string("quotes/submit_quote.html", {"card": card, "pool": pool, "form": {}})
    assert ("When it ends it is worth nothing to you:" in text_of(html)) == warns
    assert ('<p class="verdict wait">' in html) == warns
    assert ("worth nothing when it ends" in card.summary) == warns, "a screen reader hears it"


def test_files_come_along_with_a_script_and_are_asked_for_where_they_do_not(world) -> None:
    _, lumen, client = world
    allow(lumen)
    along, packed = "train.py does not come along", archive_with("train.py")

    def post_files(content: bytes = packed, **fields: Any) -> Any:
        file = SimpleUploadedFile("train.tar.gz", content)
        return post(client, "", source="script", script=SCRIPT, archive_file=file, **fields)

    form_page = client.get("/t/lumen/submit/", secure=True).content.decode()
    assert re.search(r'action="/t/lumen/submit/\?upload=[\w.:%-]+"', form_page), "a ticket lets the body be longer"
    missing = post(client, "quote/", source="script", script=SCRIPT).content.decode()
    assert f"{along}: bring it in a tar.gz, under “Files that come along”." in text_of(missing)
    assert "1 not kept. What is not kept may change what the script does" in text_of(missing)
    assert lines_shown(missing) == "wait", "not a green box"
    quoted = text_of(post(client, "quote/", source="script", script=SCRIPT, brings="1").content.decode())
    assert "The script runs as the program vision-sbatch" in quoted
    assert "0 not kept. This list is what the script means here" in quoted
    assert along not in quoted, "it is chosen, and comes with the submission"
    page = post_files(quote="1", brings="1").content.decode()
    assert along not in text_of(page)
    assert "have to be chosen again" in text_of(page)
    assert fields_of(page)["brings"] == ""
    assert along in text_of(post_files(archive_with("other.py"), quote="1").content.decode())
    for broken in (b"", b"no archive", archive_with("/etc/passwd")):
        assert complaint(post_files(broken, submit="1").content.decode(), "archive_file"), broken
    assert not ProgramVersion.objects.exists()
    assert jobs() == []
    assert post_files(submit="1").status_code == 302
    version = ProgramVersion.objects.get()
    assert version.archive_id == hashlib.sha256(packed).hexdigest()
    assert post_files(submit="1", key="c" * 32).status_code == 302
    assert ProgramVersion.objects.count() == 1
    with scope(lumen):
        earlier = TrainingJob.objects.latest("pk")
    again = client.get(f"/t/lumen/submit/?from={earlier.pk}", secure=True).content.decode()
    assert fields_of(again)["archive"] == version.archive_id
    assert along not in text_of(post(client, "quote/", **fields_of(again)).content.decode())
    assert post(client, "", **fields_of(again) | {"submit": "1", "by": by(), "key": "e" * 32}).status_code == 302
    assert ProgramVersion.objects.count() == 1, "the same script with the same files"
    array = SCRIPT.replace("--gpus=4", "--gpus=4 --array=0-1")
    answer = post(
        client, "", source="script", script=array, submit="1", key="d" * 32,
        archive_file=SimpleUploadedFile("a.tar.gz", packed),
    )  # fmt: skip
    assert answer.status_code == 302
    assert ProgramVersion.objects.get(version=2).archive_id == version.archive_id


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"gpus": "many"}, "gpus"),
        ({"gpus": "8 to 2"}, "gpus"),
        ({"gpus": "²"}, "gpus"),
        ({"hours": ""}, "hours"),
        ({"hours": "1e3"}, "hours"),
        ({"by": ""}, "by"),
        ({"by": "2020-01-01T00:00"}, "by"),
        ({"by_worth": "-1"}, "by_worth"),
        ({"by_worth": ""}, "by_worth"),
        ({"later": "soon"}, "later"),
        ({"runs": ":nothing:1"}, "runs"),
    ],
)
def test_error_of_the_short_form_stands_at_its_field(world, fields: dict[str, str], field: str) -> None:
    _, _, client = world
    page = post(client, **fields)
    assert page.status_code == 422
    assert complaint(page.content.decode(), field)
    assert jobs() == []


def test_more_gpus_than_an_engine_starts_are_told_of_at_their_field(world) -> None:
    _, lumen, client = world
    allow(lumen)
    register(member(lumen))
    for where in ("", "quote/"):
        page = post(client, where, gpus="200", runs=":align:1").content.decode()
        assert "Must be at most 95, not 200: a gang would have 200 members" in text_of(page), text_of(page)
    assert jobs() == []


def test_program_of_the_catalogue_is_chosen_in_hours_and_opens_again(world) -> None:
    _, lumen, client = world
    allow(lumen)
    register(member(lumen))
    assert fields_of(client.get("/t/lumen/submit/", secure=True).content.decode())["runs"] == ":align:1"
    assert post(client, runs=":align:1").status_code == 302
    (job,) = jobs()
    assert job.spec["program"] == {"name": "align", "version": 1, "parameters": {}}
    again = fields_of(client.get(f"/t/lumen/submit/?from={job.pk}", secure=True).content.decode())
    assert {name: again[name] for name in ("runs", "gpus", "hours", "scaling")} == {
        "runs": ":align:1", "gpus": "2 to 4", "hours": "0.01", "scaling": "good"
    }  # fmt: skip


def test_help_for_a_refused_job_does_not_move_the_moment_by_which_it_is_wanted(world, monkeypatch) -> None:
    """Within 80 seconds there was no room for its forty; once there is room they are nearly over."""
    pool, lumen, client = world
    at = timezone.now()
    job_submit(
        pool=pool,
        name="large",
        spec=SPEC | {"epochs": 6, "chunks": 8, "max_workers": 8, "min_workers": 8},
        lane="instant",
        by=live_member(lumen),
        at=at,
    )
    assert post(client, gpus="2", by=by(80 / 3600), later="nothing", wanted="instant").status_code == 302
    job = jobs()[-1]
    assert (job.lane, job.state, job.worth_from) == ("instant", "rejected", job.arrival)
    monkeypatch.setattr("django.utils.timezone.now", lambda: at + timedelta(seconds=70))
    page = client.get("/t/lumen/submit/", {"from": job.pk, "part": "help"}, secure=True).content.decode()
    assert "would be admitted now" not in page
    late = answer(
        post(client, "quote/", gpus="2", by=by(10 / 3600), later="nothing", wanted="instant").content.decode()
    )
    assert "Would be admitted" not in late.partition("Instant")[2]  # the same words, said now


def test_job_that_may_begin_later_arrives_then(world) -> None:
    pool, _, client = world
    assert post(client, begin=by(1)).status_code == 302
    (job,) = jobs()
    assert job.arrival == pytest.approx(3600 / pool.slot_seconds, abs=0.2)
    assert job.spec["value"]["kind"] == "sigmoid"
    closes = datetime.fromisoformat(job.reason_numbers["closes_at"])
    assert closes > timezone.now() + timedelta(hours=1)
    assert post(client, begin=by(1), wanted="instant", key="c" * 32).status_code == 422
    with scope_disabled("the test verifies everything"):
        assert TrainingJob.objects.count() == 1
        assert jobs_verify(pool, [job]) == []
        TrainingJob.objects.filter(pk=job.pk).update(arrival=0.5)
        job.refresh_from_db()
        assert "arrival" in str(jobs_verify(pool, [job])[0])


PARAMETERS = [
    {"name": "steps", "kind": "whole", "default": 100, "least": 1, "most": 1000, "unit": "steps", "help": "How many."},
    {"name": "rate", "kind": "number", "default": 0.1, "title": "Learning rate", "most": 1},
    {"name": "model", "kind": "choice", "default": "small", "choices": ["small", "large"]},
    {"name": "data", "kind": "text", "default": "align-9m", "pattern": "[a-z0-9-]+"},
    {"name": "amp", "kind": "switch", "default": True},
]
WORDS = ["python3", "t.py", "{steps}", "{rate}", "{model}", "{data}", "{amp}"]
PROGRAM_FIELDS = {
    "own.align.1.steps": "250", "own.align.1.rate": "0.5", "own.align.1.model": "large",
    "own.align.1.data": "align-1m", "own.align.1.amp": "off",
}  # fmt: skip


@pytest.fixture
def with_parameters(world) -> tuple[Pool, Tenant, Client]:
    _, lumen, _ = world
    allow(lumen)
    register(member(lumen), command=WORDS, parameters=PARAMETERS)
    return world


def test_chosen_program_shows_its_parameters_with_unit_help_and_bounds(with_parameters) -> None:
    _, _, client = with_parameters
    opened = client.get("/t/lumen/submit/", secure=True).content.decode()
    assert {name: fields_of(opened)[name] for name in PROGRAM_FIELDS} == {
        "own.align.1.steps": "100", "own.align.1.rate": "0.1", "own.align.1.model": "small",
        "own.align.1.data": "align-9m", "own.align.1.amp": "on",
    }  # fmt: skip
    parser = FieldNames()
    parser.feed(form_of(opened).partition(">")[2])
    assert len(parser.names) == 7  # folded up under a line that says them
    assert "steps 100 · rate 0.1 · model small · data align-9m · amp on" in text_of(opened)
    assert "How many. From 1 to 1000." in text_of(opened)
    assert "Learning rate" in text_of(opened)
    # Chosen only now, they come with the quote, open; what is typed into them is not swapped away after that.
    page = post(client, "quote/", runs=":align:1", parameters_of="").content.decode()
    assert 'id="parameters" hx-swap-oob="true"' in page
    assert "<details open>" in page[page.index('id="parameters"') :]
    assert 'id="parameters"' not in post(client, "quote/", runs=":align:1", parameters_of=":align:1").content.decode()
    form_page = post(client, "quote/", runs="", parameters_of=":align:1").content.decode()
    assert "own.align" not in form_page[form_page.index('id="parameters"') :]


def test_parameters_are_carried_from_tab_to_tab_and_are_the_same_job_to_the_byte(with_parameters) -> None:
    _, _, client = with_parameters
    start = {"by": by()} | SHORT | PROGRAM_FIELDS | {"runs": ":align:1"}
    assert client.post("/t/lumen/submit/", start, secure=True).status_code == 302
    for number, way in enumerate(
        (("form",), ("text",), ("text", "form"), ("form", "text", "hours"), ("script", "hours"))
    ):
        fields = dict(start)
        for tab in way:
            fields = fields_of(post(client, **fields | {"show": tab}).content.decode())
            assert fields["source"] == tab
        if way[-1] == "hours":
            assert {name: fields[name] for name in start} == start
        reply = client.post("/t/lumen/submit/", fields | {"key": f"{number}" * 32}, secure=True)
        assert reply.status_code == 302, answer(reply.content.decode())
    first, *others = jobs()
    assert first.spec["program"] == {
        "name": "align", "version": 1,
        "parameters": {"steps": 250, "rate": 0.5, "model": "large", "data": "align-1m", "amp": False},
    }  # fmt: skip
    assert {to_bytes(each.spec) for each in others} == {to_bytes(first.spec)}
    again = fields_of(client.get(f"/t/lumen/submit/?from={first.pk}", secure=True).content.decode())
    assert {name: again[name] for name in PROGRAM_FIELDS} == PROGRAM_FIELDS


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("steps", "many", "steps must be a whole number."),
        ("steps", "1001", "steps must be from 1 to 1000."),
        ("rate", "2", "Learning rate must be from -1e+15 to 1."),
        ("model", "huge", "model must be one of small, large."),
        ("data", "../etc", "data must match [a-z0-9-]+."),
        ("amp", "perhaps", "amp must be on or off."),
    ],
)
@pytest.mark.parametrize("tab", ["hours", "form"])
def test_parameter_that_cannot_be_is_said_at_its_field(
    with_parameters, tab: str, field: str, value: str, sentence: str
) -> None:
    _, _, client = with_parameters
    fields = {"runs": ":align:1", "program": ":align:1", f"own.align.1.{field}": value}
    if tab == "form":
        fields = fields_of(post(client, runs=":align:1", show="form").content.decode()) | fields
    html = post(client, **fields).content.decode()
    assert complaint(html, f"own.align.1.{field}") == sentence
    assert "<details open>" in html[html.index('id="parameters"') :]
    assert jobs() == []


def test_text_that_begins_with_a_dash_is_said_at_its_field(world) -> None:
    _, lumen, client = world
    allow(lumen)
    register(member(lumen), command=["python3", "{data}"], parameters=[{"name": "data", "kind": "text", "default": ""}])
    html = post(client, runs=":align:1", **{"own.align.1.data": "--exec"}).content.decode()
    assert "Must not begin with a dash" in complaint(html, "own.align.1.data")


def test_parameters_of_a_program_that_was_not_chosen_are_not_looked_at(with_parameters) -> None:
    _, _, client = with_parameters
    assert post(client, runs="", **{"own.align.1.steps": "many"}).status_code == 302
    assert "program" not in jobs()[0].spec


def test_version_that_was_the_newest_when_the_page_was_opened_is_still_what_is_chosen(with_parameters) -> None:
    _, lumen, client = with_parameters
    register(member(lumen), command=["python3", "other.py"], parameters=[])
    assert post(client, runs=":align:1", **PROGRAM_FIELDS).status_code == 302
    (job,) = jobs()
    assert job.spec["program"]["version"] == 1
    again = fields_of(client.get(f"/t/lumen/submit/?from={job.pk}", secure=True).content.decode())
    assert {name: again[name] for name in PROGRAM_FIELDS} == PROGRAM_FIELDS
    text = "value: {kind: linear, base: 1, slope: 0}\nprogram: {name: align, version: 1, parameters: {steps: 3}}\n"
    fields = fields_of(post(client, source="text", text=text + "epochs: 1\nchunks: 1\n", show="form").content.decode())
    assert (fields["program"], fields["own.align.1.steps"]) == (":align:1", "3")


def test_what_is_wrong_is_told_in_the_order_of_the_page(world: tuple[Pool, Tenant, Client]) -> None:
    page = post(world[2], gpus="lots", hours="-3", by_worth="abc").content.decode()
    assert re.findall(r'data-fault="(\w+)"', page) == ["gpus", "hours", "by_worth"]
    assert re.findall(r'<(?:input|select)[^>]*\bautofocus\b[^>]*id="(\w+)"', page) == ["id_gpus"]
    detail = post(world[2], source="form", name="", epochs="", worth="").content.decode()
    assert re.findall(r'data-fault="(epochs|worth|name)"', detail) == ["epochs", "worth", "name"]
