"""The list of jobs: filters, pages that read an index, several cancelled at once, saved views, the export."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from datetime import date, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling.jobs.pages.jobs_form import COLUMNS, JOBS
from scheduling.jobs.read_list import JobsQuestion, jobs_rows, row_view, with_awards
from scheduling.jobs.saved_views import MOST, view_save
from scheduling.models import JobState, TrainingJob
from scheduling.models.jobs import SavedView
from tenants.access import Refused
from tenants.models import Tenant, User
from tenants.roles import OWNER, ROLES_ALLOWED, STAFF_ROLES, SUBMITTER, TENANT_ROLES, VIEWER, Permission
from tenants.scoping import scope, scope_disabled
from tenants.selectors import access_of
from tenants.views.tables import table_of
from tests.database import as_superuser, overrule
from tests.market.test_servers_page import make_person
from tests.scheduling.builders import make_pool, make_tenant
from tests.scheduling.live import money
from tests.scheduling.markets import make_waiting
from tests.scheduling.pages import Story, client_as, client_of, text_of, told_now, traded
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

built = built_once(traded)


@pytest.fixture
def scene(built: Story) -> Story:
    return told_now(copy.deepcopy(built))


MANY = """
INSERT INTO scheduling_trainingjob (tenant_id, pool_id, name, lane, state, reason_code, reason_numbers, spec,
                                    submitted_at, arrival, request_digest, attempt, not_before, after, array_place)
SELECT %s, %s, 'train-' || lpad(n::text, 7, '0'), CASE WHEN n %% 5 = 0 THEN 'instant' ELSE 'batch' END,
       CASE WHEN n %% 1000 = 0 THEN 'queued' WHEN n %% 10 = 1 THEN 'rejected' ELSE 'finished' END, 'outbid', '{}', '{}',
       timestamptz '2026-01-01' + n * interval '1 minute', n, repeat('0', 64), 0, 0, '[]', 0
  FROM generate_series(1, %s) AS n
"""


def many(tenant: Tenant, rows: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(MANY, [tenant.pk, make_pool().pk, rows])
    overrule("ANALYZE scheduling_trainingjob")


def get(client: Client, tenant: Tenant, query: str = ""):
    return client.get(f"/t/{tenant.slug}/jobs/{query}", secure=True)


def names(html: str) -> list[int]:
    return [int(number) for number in re.findall(r'class="faint small mono unbroken">J-(\d+)<', html)]


@pytest.mark.parametrize("role", [*TENANT_ROLES, *STAFF_ROLES])
def test_opens_for_each_role_that_may_see_jobs(role: str, scene: Story) -> None:
    client = client_as(role, scene.renter)
    sees = role in ROLES_ALLOWED[Permission.JOBS_VIEW]
    page = get(client, scene.renter)
    assert page.status_code == (200 if sees else 403)
    assert get(client, scene.renter, "?format=csv").status_code == (200 if sees else 403)
    cancels = role in ROLES_ALLOWED[Permission.JOBS_CANCEL]
    reply = client.post("/t/renter/jobs/cancel/", {"job": scene.waiting.pk}, secure=True)
    assert reply.status_code == (200 if cancels else 403)
    if sees:
        assert ("Cancel the chosen jobs" in page.content.decode()) == cancels


def test_another_tenants_jobs_are_not_on_it_and_cannot_be_cancelled(scene: Story) -> None:
    client = client_as(OWNER, scene.owner)
    assert get(client, scene.renter).status_code == 404
    assert names(get(client, scene.owner).content.decode()) == []
    client.post("/t/owner/jobs/cancel/", {"job": scene.waiting.pk, "confirmed": "1"}, secure=True)
    with scope_disabled("the test looks at the job"):
        assert TrainingJob.objects.get(pk=scene.waiting.pk).state == "queued"


def test_each_row_says_why_who_pays_and_how_much(scene: Story) -> None:
    words = text_of(get(client_as(VIEWER, scene.renter), scene.renter).content.decode())
    assert "Runs on rented units until" in words
    assert "batch, rented" in words
    assert "Renter" in words
    assert "not decided" in words


@pytest.mark.parametrize("template", ["jobs_list.html", "array_row.html"])
def test_a_row_has_a_cell_for_each_column(template: str) -> None:
    """The heads come from the list of columns; the cells of a job and of an array stand in a template each."""
    text = (Path(__file__).parents[2] / "templates" / "jobs" / template).read_text(encoding="utf-8")
    row = text.rpartition("<tr>")[2].partition("</tr>")[0]
    assert len(re.findall(r"<(?:td|th)\b", row)) == len(COLUMNS) + 1  # and the box to choose it


@pytest.mark.parametrize(
    ("query", "which"),
    [
        ("?state=running", ["running", "ahead"]),
        ("?state=queued", ["waiting"]),
        ("?state=alive", ["running", "ahead", "waiting"]),
        ("?state=over", []),
        ("?state=nonsense", ["running", "ahead", "waiting"]),
        ("?lane=instant", []),
        ("?name=tra", ["running", "ahead", "waiting"]),
        ("?name=rain", []),
        ("?since=2000-01-01&until=2000-01-02", []),
        ("?since=not-a-day", ["running", "ahead", "waiting"]),
        ("?mine=on", []),
    ],
)
def test_filter_lets_through_what_it_says(query: str, which: list[str], scene: Story) -> None:
    html = get(client_as(VIEWER, scene.renter), scene.renter, query).content.decode()
    assert set(names(html)) == {getattr(scene, name).pk for name in which}


def test_pool_of_a_job_is_said_and_filters_where_there_are_several(scene: Story) -> None:
    client = client_as(SUBMITTER, scene.renter)
    assert 'name="pool"' not in get(client, scene.renter).content.decode()
    other = make_pool("other", name="Other pool")
    elsewhere = make_waiting(other, scene.renter, 0.0)
    html = get(client, scene.renter).content.decode()
    assert 'name="pool"' in html
    assert '<td data-h="Pool" class="in-pool">Other pool</td>' in html
    html = get(client, scene.renter, "?pool=other").content.decode()
    assert names(html) == [elsewhere.pk]
    assert 'href="/t/renter/submit/?pool=other"' in html


def test_only_my_own_are_those_that_i_submitted(scene: Story) -> None:
    person = make_person(SUBMITTER, scene.renter)
    with scope(scene.renter), as_superuser():
        TrainingJob.objects.filter(pk=scene.ahead.pk).update(submitted_by=person)
    assert names(get(client_of(person), scene.renter, "?mine=on").content.decode()) == [scene.ahead.pk]


@pytest.mark.usefixtures("nothing_built")
def test_newest_stand_first_and_names_sort() -> None:
    lumen = make_tenant("lumen")
    many(lumen, 120)
    client = client_as(VIEWER, lumen)
    first = get(client, lumen).content.decode()
    numbers = names(first)
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 50
    following = re.search(r'href="(\?[^"]*after=[^"]*)" rel="next"', first)
    assert following
    second = names(get(client, lumen, following[1].replace("&amp;", "&")).content.decode())
    assert max(second) < min(numbers)
    by_name = names(get(client, lumen, "?sort=name").content.decode())
    assert by_name == sorted(by_name)


def test_empty_pages_say_what_to_do() -> None:
    lumen = make_tenant("lumen")
    owner = client_as(OWNER, lumen)
    assert "Get a quote" in text_of(get(owner, lumen).content.decode())
    assert "No job fits this filter" in text_of(get(owner, lumen, "?state=failed").content.decode())


def test_live_part_keeps_its_filter(scene: Story) -> None:
    html = get(client_as(VIEWER, scene.renter), scene.renter, "?state=running&part=jobs").content.decode()
    assert "<html" not in html
    assert "state=running&amp;part=jobs" in html
    assert 'data-live="jobs slot"' in html


def test_confirmation_lists_what_happens_and_cancels_nothing(scene: Story) -> None:
    client = client_as(SUBMITTER, scene.renter)
    fields = {"job": [scene.running.pk, scene.waiting.pk]}
    words = text_of(client.post("/t/renter/jobs/cancel/", fields, secure=True).content.decode())
    assert "Cancel 2 jobs?" in words
    assert "Nothing has happened yet" in words
    with scope_disabled("the test looks at the jobs"):
        assert not TrainingJob.objects.filter(state=JobState.CANCELLED).exists()


def test_confirmed_jobs_are_cancelled_and_the_others_are_not(scene: Story) -> None:
    client = client_as(SUBMITTER, scene.renter)
    fields = {"job": [scene.running.pk, scene.waiting.pk, 10**9, "x"], "confirmed": "1"}
    before = money(scene.renter)
    client.post("/t/renter/jobs/cancel/", fields, secure=True)
    with scope_disabled("the test looks at the jobs"):
        cancelled = set(TrainingJob.objects.filter(state=JobState.CANCELLED).values_list("pk", flat=True))
    assert cancelled == {scene.running.pk, scene.waiting.pk}
    assert money(scene.renter) == before  # one held nothing, the other goes on being paid


def test_nothing_chosen_is_said(scene: Story) -> None:
    page = client_as(SUBMITTER, scene.renter).post("/t/renter/jobs/cancel/", {}, secure=True, follow=True)
    assert "Choose the jobs to cancel first" in page.content.decode()


def test_export_has_lane_price_payer_and_reason_of_each_job(scene: Story) -> None:
    answer = get(client_as(VIEWER, scene.renter), scene.renter, "?format=csv&sort=submitted")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    by_id = {int(row["Job"]): row for row in rows}
    assert set(by_id) == {scene.running.pk, scene.ahead.pk, scene.waiting.pk}
    assert by_id[scene.waiting.pk]["Reason code"] == "waiting_for_interval"
    assert by_id[scene.waiting.pk]["Price in credits"] == ""
    running = by_id[scene.running.pk]
    assert (running["Lane"], running["Payer"], running["State"]) == ("batch", "Renter", "running")
    with scope(scene.renter):
        held = sum(view.price or 0 for view in map(row_view, with_awards(TrainingJob.objects.select_related("pool"))))
    assert sum(float(row["Price in credits"] or 0) for row in rows) == pytest.approx(held / 1e6, abs=1e-9)


@pytest.mark.usefixtures("nothing_built")
def test_export_of_many_asks_few_questions() -> None:
    lumen = make_tenant("lumen")
    many(lumen, 2_500)
    client = client_as(VIEWER, lumen)
    with CaptureQueriesContext(connection) as queries:
        lines = b"".join(get(client, lumen, "?format=csv").streaming_content).splitlines()
    assert len(lines) == 2_501
    assert len(queries) < 25


@pytest.mark.usefixtures("nothing_built")
def test_page_asks_as_few_questions_for_fifty_rows_as_for_one() -> None:
    lumen = make_tenant("lumen")
    many(lumen, 60)
    client = client_as(OWNER, lumen)
    with CaptureQueriesContext(connection) as queries:
        assert len(names(get(client, lumen).content.decode())) == 50
    with CaptureQueriesContext(connection) as one:
        get(client, lumen, "?name=train-0000007")
    assert len(queries) <= len(one) <= 25, [query["sql"][:80] for query in queries]


QUESTIONS = {
    "newest": (JobsQuestion(), ""),
    "one state": (JobsQuestion(state="rejected"), ""),
    "rare state": (JobsQuestion(state="queued"), ""),
    "by name": (JobsQuestion(), "sort=name"),
    "name begins": (JobsQuestion(name="train-00123"), "sort=name"),
    "a period": (JobsQuestion(since=date(2026, 1, 3), until=date(2026, 1, 5)), ""),
}


@pytest.mark.usefixtures("nothing_built")
@pytest.mark.parametrize("case", QUESTIONS)
def test_page_reads_an_index_and_sorts_nothing(case: str) -> None:
    """The first page, and one from the middle: neither reads the table nor sorts more than it shows."""
    question, sort = QUESTIONS[case]
    lumen = make_tenant("lumen")
    many(lumen, 20_000)
    with scope(lumen):
        rows = jobs_rows(question, None)
        first = table_of(RequestFactory().get(f"/?{sort}"), rows, JOBS)
        assert first.rows
        places = ["", first.next] if first.next else [""]
        for place in places:
            with CaptureQueriesContext(connection) as queries:
                table_of(RequestFactory().get(f"/{place or '?' + sort}"), rows, JOBS)
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN (FORMAT JSON) " + queries[0]["sql"])
                (plan,) = cursor.fetchone()
            text = plan if isinstance(plan, str) else json.dumps(plan)
            nodes = re.findall(r'"Node Type": "([^"]+)"', text)
            sorts = re.findall(r'"Node Type": "(?:Incremental )?Sort".*?"Plan Rows": (\d+)', text)
            assert '"Relation Name": "scheduling_trainingjob"' in text
            assert not any("Seq Scan" in node and "trainingjob" in text.split(node)[1][:200] for node in nodes), text
            assert all(int(count) <= len(first.rows) for count in sorts), text
            assert re.search(r'"Index Name": "job_of_tenant_\w+"', text), text


def test_saved_view_comes_back_to_the_person_who_saved_it_alone() -> None:
    lumen = make_tenant("lumen")
    mine, other = client_as(SUBMITTER, lumen), client_as(VIEWER, lumen)
    reply = mine.post("/t/lumen/jobs/views/", {"name": "Failed ones", "query": "state=failed&lane=batch"}, secure=True)
    assert reply["Location"] == "/t/lumen/jobs/?state=failed&lane=batch"
    html = get(mine, lumen).content.decode()
    assert "Failed ones" in html
    assert 'href="?state=failed&amp;lane=batch"' in html
    assert "Failed ones" not in get(other, lumen).content.decode()
    with scope(lumen):
        view = SavedView.objects.get()
    other.post(f"/t/lumen/jobs/views/{view.pk}/remove/", secure=True)
    assert "Failed ones" in get(mine, lumen).content.decode()
    mine.post(f"/t/lumen/jobs/views/{view.pk}/remove/", secure=True)
    with scope(lumen):
        assert not SavedView.objects.exists()


def test_saved_views_are_limited_and_one_name_is_one_view() -> None:
    lumen = make_tenant("lumen")
    person: User = make_person(SUBMITTER, lumen)
    by = access_of(person, lumen)
    assert isinstance(view_save(name="\u3164", query="", by=by), Refused)
    for number in range(MOST):
        assert isinstance(view_save(name=f"view {number}", query="", by=by), SavedView)
    assert isinstance(view_save(name="view 0", query="state=failed", by=by), SavedView)
    for name, query in (("one more", ""), ("", ""), ("x" * 61, ""), ("view 0", "x" * 501), ("a\nb", "")):
        assert isinstance(view_save(name=name, query=query, by=by), Refused), name
    with scope(lumen):
        assert SavedView.objects.count() == MOST


def test_saved_view_cannot_lead_to_another_site() -> None:
    lumen = make_tenant("lumen")
    reply = client_as(VIEWER, lumen).post("/t/lumen/jobs/views/", {"name": "x", "query": "//evil.example"}, secure=True)
    assert reply["Location"].startswith("/t/lumen/jobs/?")


@pytest.mark.usefixtures("nothing_built")
def test_old_times_and_odd_cursors_break_nothing() -> None:
    lumen = make_tenant("lumen")
    many(lumen, 3)
    client = client_as(VIEWER, lumen)
    late = timezone.now() + timedelta(days=400_000)
    for query in (
        "?after=x",
        "?before=e30",
        f"?since={late:%Y-%m-%d}",
        "?name=%00",
        "?sort=price",
        "?until=9999-12-31",
    ):
        assert get(client, lumen, query).status_code == 200, query
