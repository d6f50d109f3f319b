"""The pages about the interface: every operation is there, each line that they offer works, nothing is from outside."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.test import Client

from bourse_client.command.parser import parser_made
from tenants.api.reference.calls import COMMANDS, curl, example_path
from tenants.api.reference.fields import rows_of
from tenants.api.reference.operations import groups, operations
from tenants.api.reference.tags import TAGS
from tenants.api.schema import document
from tenants.roles import OPERATOR, OWNER
from tests.api.builders import program_of
from tests.api.table import operations as all_operations
from tests.bench.pages.asking import BUDGETS, Nodes
from tests.tenants.builders import client_of, make_member, make_staff, make_tenant

DOCS = "/api/v1/docs/"
MOST_BYTES = 200_000  # of one page with all that it loads, as it travels


@pytest.fixture
def reader(db: None) -> Client:
    return client_of(make_member(make_tenant("lumen"), OWNER).user)


@pytest.fixture(scope="module")
def read() -> dict[str, str]:
    """What whole pages said to `reader`, by address. They are the same whenever it asks, so tests that go over all of
    them ask once."""
    return {}


def html_once(read: dict[str, str], client: Client, path: str) -> str:
    if path not in read:
        read[path] = html_of(client, path)
    return read[path]


def html_of(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def article(html: str, name: str) -> str:
    match = re.search(rf'<section class="panel operation" id="{name}".*?</section>', html, re.DOTALL)
    assert match, name
    return match[0]


def test_index_has_every_operation_with_a_link_to_its_place(reader: Client) -> None:
    html = html_of(reader, DOCS)
    for name, operation in operations().items():
        assert f'id="{name}"' in html
        assert f'href="{DOCS}{operation.tag}/{name}/"' in html
    assert sorted(operations()) == sorted(operation.name for operation in all_operations())


def test_a_copied_line_works_with_the_readers_own_names_and_a_token_of_theirs(db: None) -> None:
    tenant = make_tenant("castor")
    program = program_of(OWNER, tenant)
    assert program.token is not None
    program.token.name = "nightly"
    program.token.save()
    browser = client_of(program.token.user)
    page = article(html_of(browser, f"{DOCS}tenants/tenants_read/"), "tenants_read")
    line = re.search(r'<pre class="code" id="curl-tenants_read">(.*?)</pre>', page, re.DOTALL)
    assert line
    words = shlex.split(unescape(line[1]))
    assert words[-1] == "http://testserver/api/v1/tenants/castor/"
    assert "Authorization: Bearer $BOURSE_TOKEN" in words
    assert "your token <b>nightly</b>" in page
    assert program.get(words[-1].removeprefix("http://testserver/api/v1/")).status_code == 200


def test_a_reader_of_several_tenants_chooses_for_which_lines_are_written(db: None) -> None:
    browser = client_of(make_staff(OPERATOR).user)
    make_tenant("castor")
    make_tenant("lumen")
    assert "/api/v1/tenants/castor/" in html_of(browser, f"{DOCS}tenants/tenants_read/")
    answer = browser.get(f"{DOCS}tenants/tenants_read/?tenant=lumen")
    assert (answer.status_code, answer["Location"]) == (302, "/t/lumen/interface/tenants/tenants_read/")
    page = html_of(browser, answer["Location"])
    assert "/api/v1/tenants/lumen/" in page
    assert "/api/v1/tenants/castor/" not in page
    assert "None of your tokens" in page
    again = browser.get(f"{answer['Location']}?tenant=castor")
    assert again["Location"] == "/t/castor/interface/tenants/tenants_read/"
    assert html_of(browser, f"{answer['Location']}?tenant=lumen")


def test_what_else_was_asked_comes_along_into_the_tenant(reader: Client) -> None:
    answer = reader.get(f"{DOCS}?q=cancel+job&method=POST&tenant=lumen")
    assert answer["Location"] == "/t/lumen/interface/?q=cancel+job&method=POST"
    assert "job_cancel" in html_of(reader, answer["Location"])


@pytest.mark.parametrize(
    ("page", "status"),
    [
        ("", 200),
        ("?q=job", 200),
        ("?q=<b>nothing", 200),
        ("jobs/", 200),
        ("jobs/jobs_list/", 200),
        ("try/jobs_list/?tenant_slug=..", 422),
    ],
)
def test_who_comes_from_a_tenant_keeps_its_navigation(reader: Client, page: str, status: int) -> None:
    html = html_of(reader, f"/t/lumen/interface/{page}", status)
    frame, main = html.split("<main", 1)
    assert 'href="/t/lumen/market/"' in frame
    assert re.search(r'href="/t/lumen/interface/"\s+aria-current="page"', frame)
    assert "My account" not in frame
    leads = re.findall(r'<(?:a|form)[^>]* (?:href|action)="([^"#]*)"', main[: main.index("</main")])
    inside = [each for each in leads if each.startswith("/t/lumen/interface/")]
    assert inside
    assert not [each for each in leads if each.startswith(DOCS)]


def test_a_tenants_pages_lead_to_the_interface_inside_it(reader: Client) -> None:
    html = html_of(reader, "/t/lumen/tokens/")
    assert html.count('href="/t/lumen/interface/"') >= 3  # the navigation, the button, the foot
    assert f'href="{DOCS}"' not in html


def test_no_navigation_of_a_tenant_that_the_reader_does_not_reach(reader: Client) -> None:
    make_tenant("castor", "Castor Vision")
    for page in ("", "jobs/", "jobs/jobs_list/", "try/jobs_list/"):
        answer = reader.get(f"/t/castor/interface/{page}")
        assert answer.status_code == 404
        assert "Castor Vision" not in answer.content.decode()
    for page in ("", "jobs/", "jobs/jobs_list/"):
        html = html_of(reader, f"{DOCS}{page}?tenant=castor")
        assert "My account" in html
        assert "/t/castor/" not in html
        assert "Castor Vision" not in html
    own = html_of(reader, "/t/lumen/interface/?tenant=castor")
    assert 'href="/t/lumen/market/"' in own
    assert "/t/castor/" not in own


def test_who_is_not_logged_in_is_asked_to(db: None) -> None:
    make_tenant("lumen")
    for page in (DOCS, f"{DOCS}jobs/?tenant=lumen", "/t/lumen/interface/", "/t/lumen/interface/jobs/jobs_list/"):
        answer = Client().get(page)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/login/?next=")


@pytest.mark.wide
def test_every_tag_has_a_page_with_its_operations_and_every_tag_is_described(
    reader: Client, read: dict[str, str]
) -> None:
    assert [group.tag for group in groups()] == list(TAGS)
    for group in groups():
        html = html_once(read, reader, f"{DOCS}{group.tag}/")
        for operation in group.operations:
            assert f'<tr id="{operation.name}">' in html  # where addresses of before lead
            assert f'href="{DOCS}{group.tag}/{operation.name}/"' in html
            page = article(html_once(read, reader, f"{DOCS}{group.tag}/{operation.name}/"), operation.name)
            assert all(f'<code class="breaks">{each.name}</code>' in page for each in operation.parameters)
            assert all(f'<th scope="row">{fault.status}</th>' in page for fault in operation.faults)
            assert ('class="try"' in page) == (operation.method == "GET" and operation.can_be_tried)


def test_no_such_tag_is_not_found(reader: Client) -> None:
    html_of(reader, f"{DOCS}nothing/", 404)


def test_an_operation_is_found_under_its_own_tag_alone(reader: Client) -> None:
    for path in ("jobs/nothing/", "events/jobs_list/", "nothing/jobs_list/"):
        html_of(reader, f"{DOCS}{path}", 404)


def test_every_page_keeps_to_what_a_page_may_be(reader: Client, read: dict[str, str]) -> None:
    paths = [DOCS, f"{DOCS}?method=GET", *(f"{DOCS}{group.tag}/" for group in groups())]
    for path in paths + [f"{DOCS}{operation.tag}/{name}/" for name, operation in operations().items()]:
        html = html_once(read, reader, path)
        nodes = Nodes()
        nodes.feed(html)
        assert len(html.encode()) / 1_000 <= BUDGETS["kilobytes"], path
        assert nodes.count <= BUDGETS["nodes"], path


def test_a_name_of_a_field_or_of_an_error_leads_to_the_operations_that_have_it(reader: Client) -> None:
    for word, has, has_not in (
        ("results[].reason.code", "jobs_list", "jobs_create"),
        ("unsupported_media_type", "jobs_create", "jobs_list"),
        ("Idempotency-Key", "jobs_create", "jobs_list"),
    ):
        names = re.findall(r'<(?:tr|li) id="(\w+)">', html_of(reader, f"{DOCS}?q={word}"))
        assert has in names, word
        assert has_not not in names, word


def test_words_and_method_keep_what_says_all_of_them(reader: Client) -> None:
    html = html_of(reader, f"{DOCS}?q=CANCEL+job")
    names = re.findall(r'<tr id="(\w+)">', html)
    assert {"job_cancel", "jobs_cancel"} <= set(names)
    assert not {"jobs_list", "member_remove", "prices_now"} & set(names)
    names = re.findall(r'<tr id="(\w+)">', html_of(reader, f"{DOCS}?method=PUT"))
    assert names == [name for name, operation in operations().items() if operation.method == "PUT"]
    assert "No operation says that" in html_of(reader, f"{DOCS}?q=<b>nothing")


@pytest.mark.parametrize("path", [DOCS, f"{DOCS}jobs/", f"{DOCS}fairness/", f"{DOCS}jobs/jobs_create/"])
def test_page_is_light_and_has_no_script_or_style_in_it(reader: Client, path: str) -> None:
    reply = reader.get(path)
    html = reply.content.decode()
    assert "<style" not in html
    assert " style=" not in html
    assert all(re.match(r' src="/static/[^"]*"( defer)?></script>', each) for each in html.split("<script")[1:])
    assert "unsafe-inline" not in reply["Content-Security-Policy"]
    loaded = [reader.get(each).content for each in re.findall(r'(?:href|src)="(/static/[^"]*)"', html)]
    assert sum(len(gzip.compress(each)) for each in [reply.content, *loaded]) < MOST_BYTES


def test_whoever_is_not_logged_in_is_asked_to(client: Client, db: None) -> None:
    assert client.get(DOCS).status_code == 302


@pytest.mark.parametrize("name", operations())
def test_lines_for_a_terminal_are_the_call(name: str) -> None:
    operation = operations()[name]
    address = f"https://bourse.example{example_path(operation.path)}"
    words = shlex.split(
        curl(
            operation.method,
            address,
            needs_token=not operation.open,
            body=operation.request_example,
            kind=operation.kind,
        )
    )
    assert (words[0], words[-1]) == ("curl", address)
    assert "{" not in address
    assert ("-X" in words) == operation.changes
    assert (json.loads(words[words.index("-d") + 1]) if "-d" in words else None) == operation.request_example
    assert any(each.startswith("Authorization: Bearer $") for each in words) != operation.open


@pytest.mark.parametrize(("name", "line"), COMMANDS.items())
def test_command_is_one_that_the_client_knows(name: str, line: str) -> None:
    assert name in operations()
    command, *words = shlex.split(line)
    assert command == "bourse"
    parser_made().parse_args(words)


@pytest.mark.parametrize(
    ("name", "query", "leads_to"),
    [
        ("me_read", {}, "/api/v1/me/"),
        ("jobs_list", {"tenant_slug": "lumen", "state": "running", "lane": ""}, "tenants/lumen/jobs/?state=running"),
        ("jobs_read", {"tenant_slug": "lumen", "job_id": "7"}, "tenants/lumen/jobs/7/"),
    ],
)
def test_trying_leads_to_the_operation(reader: Client, name: str, query: dict[str, str], leads_to: str) -> None:
    answer = reader.get(f"{DOCS}try/{name}/", query)
    assert answer.status_code == 302
    assert answer["Location"].endswith(leads_to)


@pytest.mark.parametrize("typed", ["..", "../..", "lumen/jobs", "//elsewhere.example", "", "lumen?x="])
def test_trying_leads_nowhere_else(reader: Client, typed: str) -> None:
    html = html_of(reader, f"{DOCS}try/jobs_list/?tenant_slug={typed}", 422)
    assert "There is no such address" in article(html, "jobs_list")
    assert html.count("There is no such address") == 1


def test_what_changes_something_cannot_be_tried(reader: Client) -> None:
    for name in ("jobs_create", "events_stream", "audits_file", "no_such"):
        html_of(reader, f"{DOCS}try/{name}/", 404)


def test_fields_stand_with_their_place_kind_and_limits() -> None:
    schemas: dict[str, Any] = {
        "Inner": {"type": "object", "properties": {"at": {"type": ["string", "null"], "format": "date-time"}}},
        "Outer": {
            "type": "object",
            "required": ["rows"],
            "properties": {
                "rows": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}, "maxItems": 9},
                "one": {"oneOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]},
                "named": {"type": "object", "additionalProperties": {"type": "integer"}},
                "lane": {"type": "string", "enum": ["batch", "instant"], "description": "Which.\n\n* `batch` - Batch"},
                "share": {"type": "number", "minimum": 0, "maximum": 1.5},
                "again": {"$ref": "#/components/schemas/Outer"},
            },
        },
    }
    rows = rows_of({"$ref": "#/components/schemas/Outer"}, schemas)
    assert [(row.path, row.kind, row.limits, row.words) for row in rows] == [
        ("rows", "list of object", "at most 9 of them", ""),
        ("rows[].at", "time or null", "", ""),
        ("one", "object or null", "", ""),
        ("one.at", "time or null", "", ""),
        ("named", "whole number by name", "", ""),
        ("lane", "text", "one of `batch`, `instant`", "Which."),
        ("share", "number", "0 to 1.5", ""),
        ("again", "object", "", ""),
    ]
    assert [row.required for row in rows] == [True, *[False] * 7]


def properties_of(schema: Any, opened: tuple[str, ...] = ()) -> Iterator[str]:
    """Names of all fields, by a walk of its own."""
    if isinstance(schema, list):
        for each in schema:
            yield from properties_of(each, opened)
    if not isinstance(schema, dict):
        return
    if (name := schema.get("$ref")) and name not in opened:
        yield from properties_of(document()["components"]["schemas"][name.rsplit("/", 1)[-1]], (*opened, name))
    for key, value in schema.items():
        if key == "properties":
            for field, inner in value.items():
                yield field
                yield from properties_of(inner, opened)
        elif key in ("items", "oneOf", "anyOf", "allOf", "additionalProperties"):
            yield from properties_of(value, opened)


def test_no_field_of_the_schema_is_left_out() -> None:
    operations_by_name = {each["operationId"]: each for path in document()["paths"].values() for each in path.values()}
    for name, operation in operations().items():
        answers = next(each for code, each in operations_by_name[name]["responses"].items() if code < "3").get(
            "content", {}
        )
        for answer in operation.answers:
            names = sorted(row.path.rpartition(".")[2] for row in answer.fields if row.path)
            expected = properties_of(answers[answer.media]["schema"]) if answer.fields else []
            assert names == sorted(expected), name
