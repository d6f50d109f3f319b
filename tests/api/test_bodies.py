"""Requests that are wrong in every way we could think of: a clear 4xx as problem+json, never a 5xx, nothing changed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.core.handlers.asgi import ASGIHandler
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from rest_framework.exceptions import ParseError

from scheduling.audit.api.audits import NewThresholds
from scheduling.lab.api.fields import NewShown, NewStudy
from scheduling.learner.api.learning import LearnerSet
from tenants.access import Refused
from tenants.api.bodies import DEEPEST, MOST_BYTES, parse
from tenants.api.fields import MOST_UNKNOWN, Form, Several, Text
from tenants.api.problems import problem_of
from tenants.models import ApiToken
from tenants.roles import OWNER, SCOPES
from tests.api.builders import Program, problem, program_of
from tests.patience import PATIENCE
from tests.tenants.builders import make_tenant

TOKENS = "tenants/lumen/tokens/"


class Inner(Form):
    word = Text(max_length=5)


class Outer(Form):
    name = Text()
    one = Inner(required=False)
    several = Several(child=Inner(), required=False)


def test_bodies_of_one_form_share_its_fields_and_nothing_else() -> None:
    """Also where many are read at once, good ones and bad ones."""
    good = {"name": "a", "one": {"word": "b"}, "several": [{"word": "c"}, {"word": "d"}]}
    bad = {"name": "x", "one": {"word": "too long"}, "several": [{"word": "c"}, {"wrod": "d"}]}
    assert Outer(data=good).fields is Outer(data=bad).fields
    assert Outer(data=good, partial=True).fields is not Outer(data=good).fields
    assert Outer(data={"one": {"word": "b"}}, partial=True).is_valid()

    def read(number: int) -> Any:
        form = Outer(data=bad if number % 2 else good | {"name": f"name {number}"})
        return dict(form.validated_data) if form.is_valid() else sorted(form.errors)

    with ThreadPoolExecutor(max_workers=8) as threads:
        answers = list(threads.map(read, range(400)))
    assert answers == [["one", "several"] if number % 2 else good | {"name": f"name {number}"} for number in range(400)]


@pytest.fixture
def caller(db) -> Program:
    return program_of(OWNER, make_tenant("lumen"))


MALFORMED = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "another encoding": '{"name": "é"}'.encode("latin-1"),
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"name": "x"}',
    "a name twice": b'{"name": "x", "name": "y"}',
    "a name twice inside": b'{"name": {"a": 1, "a": 2}}',
    "NaN": b'{"name": NaN}',
    "infinity": b'{"name": -Infinity}',
    "a number that is infinite": b'{"name": 1e999}',
    "NUL": b'{"name": "a\\u0000b"}',
    "NUL in a name": b'{"na\\u0000me": "b"}',
    "NUL as it is": b'{"name": "a\x00b"}',
    "half a character": b'{"name": "\\ud800"}',
    "beyond 64 bits": b'{"name": 9223372036854775808}',
    "far beyond 64 bits": b'{"name": -%s}' % (b"9" * 5_000),
    "a little too deep": b'{"name":' + b"[" * DEEPEST + b"]" * DEEPEST + b"}",
    "much too deep": b'{"name":' + b"[" * 15_000 + b"]" * 15_000 + b"}",
    "objects much too deep": b'{"a":' * 15_000 + b"1" + b"}" * 15_000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_body_is_a_400(caller: Program, body: bytes) -> None:
    before = ApiToken.objects.count()
    reply = caller.post(TOKENS, body)
    assert reply.status_code == 400
    problem(reply, 400, "malformed_body" if body else "invalid_request")
    assert ApiToken.objects.count() == before


def test_deepest_body_that_is_allowed_is_read() -> None:
    assert parse(b"[" * DEEPEST + b"]" * DEEPEST)
    assert parse(b'{"n": 9223372036854775807}') == {"n": 2**63 - 1}


@pytest.mark.parametrize("body", [b"[%s1]" % (b"1," * 500_000), b'{"a":[%s1]}' % (b"[]," * 300_000)])
def test_body_of_very_many_values_is_a_413_before_it_is_read(
    caller: Program, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.api.bodies.parse", lambda content: pytest.fail("it was read"))
    problem(caller.post(TOKENS, body), 413, "body_too_large")


def test_body_with_a_mebibyte_of_doubled_names_is_refused(caller: Program) -> None:
    names = b",".join(b'"%d":1' % number for number in range(120_000))[: MOST_BYTES - 20]
    problem(caller.post(TOKENS, b"{%s}" % names[: names.rindex(b",")]), 413, "body_too_large")
    few = b",".join(b'"%d":1' % number for number in range(19_000))
    document = problem(caller.post(TOKENS, b'{%s,"18999":1}' % few), 400, "malformed_body")
    assert document["detail"] == 'The name "18999" stands twice in an object.'


def test_flaws_of_a_form_are_named_up_to_a_number(caller: Program) -> None:
    document = problem(caller.post(TOKENS, {f"field {number}": 1 for number in range(10_000)}), 400, "invalid_request")
    assert len(document["errors"]) == MOST_UNKNOWN
    document = problem(caller.post(TOKENS, {"name": "x", "scopes": ["no"] * 10_000}), 400, "invalid_request")
    assert [(error["field"], error["code"]) for error in document["errors"]] == [("scopes", "max_length")]


def test_body_larger_than_a_mebibyte_is_a_413(caller: Program) -> None:
    fits = b'{"name": "' + b"x" * (MOST_BYTES - 12) + b'"}'
    problem(caller.post(TOKENS, fits), 400, "invalid_request")
    problem(caller.post(TOKENS, fits + b" "), 413, "body_too_large")
    problem(caller.post(TOKENS, fits * 4), 413, "body_too_large")


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "nonsense",
        "",
    ],
)
def test_body_of_another_kind_is_a_415(caller: Program, content_type: str) -> None:
    problem(caller.post(TOKENS, b'{"name": "x"}', content_type=content_type), 415, "unsupported_media_type")


def test_packed_body_is_a_415(caller: Program) -> None:
    reply = caller.post(TOKENS, b'{"name": "x"}', Content_Encoding="gzip")
    problem(reply, 415, "unsupported_media_type")


def test_charset_utf8_is_welcome(caller: Program) -> None:
    reply = caller.post(TOKENS, {"name": "é", "scopes": ["jobs:read"]}, content_type="application/json; charset=UTF-8")
    assert reply.status_code == 201
    assert reply.json()["name"] == "é"


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("nmae", "There is no such field; did you mean `name`?"),
        ("scope", "There is no such field; did you mean `scopes`?"),
        ("colour", "There is no such field."),
        ("name" * 100_000, "There is no such field."),
        ("", "There is no such field."),
    ],
)
def test_an_unknown_field_is_refused_with_the_one_that_is_like_it(caller: Program, name: str, detail: str) -> None:
    document = problem(caller.post(TOKENS, {name: "x"}), 400, "invalid_request")
    assert [error["detail"] for error in document["errors"]] == [detail]


def test_every_flaw_of_a_form_is_named(caller: Program) -> None:
    document = problem(
        caller.post(TOKENS, {"name": 5, "scopes": ["jobs:read", "no"], "nmae": "x"}), 400, "invalid_request"
    )
    assert [(error["field"], error["code"]) for error in document["errors"]] == [("nmae", "unknown_field")]
    document = problem(
        caller.post(TOKENS, {"name": 5, "scopes": ["jobs:read", "no"], "expires_at": "2027-01-01T00:00:00"}),
        400,
        "invalid_request",
    )
    assert [error["field"] for error in document["errors"]] == ["name", "scopes[1]", "expires_at"]
    choices = document["errors"][1]["detail"]
    assert choices.startswith("Must be one of ")
    assert all(scope in choices for scope in SCOPES)


@pytest.mark.parametrize(
    ("form", "rest", "name", "good", "wrong"),
    [
        (NewThresholds, {"reason": "x"}, "thresholds", {"jain_index": 0.8}, {"jain_index": "0.8"}),
        (NewThresholds, {"reason": "x"}, "thresholds", {"jain_index": 1}, {"jain_index": True}),
        (LearnerSet, {"reason": "x", "is_on": True}, "margin", 0.5, "0.5"),
        (LearnerSet, {"reason": "x", "is_on": True}, "margin", 0, "nan"),
        (NewStudy, {"study": {}}, "at_once", True, "yes"),
        (NewShown, {}, "shown", False, "off"),
    ],
)
def test_number_and_yes_or_no_are_taken_by_the_letter(
    form: type[Form], rest: dict[str, Any], name: str, good: object, wrong: object
) -> None:
    assert form(data=rest | {name: good}).is_valid()
    body = form(data=rest | {name: wrong})
    assert not body.is_valid()
    assert list(body.errors) == [name]


@pytest.mark.django_db(transaction=True)  # the server's thread has a connection of its own
def test_body_in_chunks_is_read() -> None:
    """Such a request tells no length."""
    caller = program_of(OWNER, make_tenant("lumen"))
    headers = [
        (b"host", b"localhost"),
        (b"authorization", f"Bearer {caller.secret}".encode()),
        (b"content-type", b"application/json"),
        (b"transfer-encoding", b"chunked"),
    ]
    request = {"type": "http", "method": "POST", "path": f"/api/v1/{TOKENS}", "query_string": b"", "headers": headers}

    async def ask() -> int:
        server = ApplicationCommunicator(ASGIHandler(), request)
        await server.send_input({"type": "http.request", "body": b'{"name": "chunks",', "more_body": True})
        await server.send_input({"type": "http.request", "body": b'"scopes": ["jobs:read"]}', "more_body": False})
        start = await server.receive_output(timeout=PATIENCE)
        await server.receive_output(timeout=PATIENCE)
        await server.wait(timeout=PATIENCE)
        return int(start["status"])

    assert async_to_sync(ask)() == 201
    assert ApiToken.objects.filter(name="chunks").count() == 1


@pytest.mark.parametrize("accept", ["text/html", "image/png", "application/xml;q=0.9"])
def test_form_that_is_none_is_a_406(caller: Program, accept: str) -> None:
    problem(caller.get(TOKENS, Accept=accept), 406, "not_acceptable")


def test_only_lists_come_as_csv(caller: Program) -> None:
    assert caller.get(TOKENS, Accept="text/csv").status_code == 200
    problem(caller.get("me/", Accept="text/csv"), 406, "not_acceptable")
    problem(caller.get(f"{TOKENS}?format=xml"), 406, "not_acceptable")


def test_wrong_method_is_a_405_that_names_the_right_ones(caller: Program) -> None:
    reply = caller.post("me/")
    problem(reply, 405, "method_not_allowed")
    assert reply["Allow"] == "GET, HEAD"
    reply = caller.client.options("/api/v1/me/", headers={"Authorization": f"Bearer {caller.secret}"})
    problem(reply, 405, "method_not_allowed")


NOWHERE = ["/api/", "/api", "/api/v1/", "/api/v2/jobs/", "/api/v1/nothing/", "/api/v1/me/x"]
NOWHERE += ["/api/v1/pools/a%0Ab/cells/c/", "/api/v1/tenants/a%0D%0Ab/jobs/", "/api/v1/x%E2%80%A8y/", "/api/%00/"]


@pytest.mark.parametrize("address", NOWHERE)
@pytest.mark.django_db
def test_unknown_address_is_a_problem_for_everybody(client: Client, address: str) -> None:
    problem(client.get(address), 404, "not_found")
    problem(Client(enforce_csrf_checks=True).post(address, {}), 404, "not_found")


@pytest.mark.django_db
def test_address_without_its_slash_says_so(client: Client) -> None:
    assert "/api/v1/me/" in problem(client.get("/api/v1/me"), 404, "not_found")["detail"]
    assert "/api/v1/me/" in problem(client.post("/api/v1/me"), 404, "not_found")["detail"]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("stat=queued", "stat"),
        ("state=nothing", "state"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=99999999999999999999999", "limit"),
        ("limit=%C2%B2", "limit"),
        ("limit=1&limit=2", "limit"),
        ("ordering=name", "ordering"),
        ("name=%00", "name"),
        ("name=", "name"),
        ("name=" + "x" * 201, "name"),
        ("submitted_from=yesterday", "submitted_from"),
        ("submitted_from=2026-03-02", "submitted_from"),
        ("submitted_from=2026-03-02T12:00:00", "submitted_from"),
        ("submitted_from=0001-01-01T00:00:00%2B10:00", "submitted_from"),
        ("submitted_from=1969-12-31T23:59:59Z", "submitted_from"),
        ("submitted_before=9000-01-01T00:00:00Z", "submitted_before"),
        ("cursor=", "cursor"),
        ("cursor=AAAA", "cursor"),
        ("cursor=%00", "cursor"),
        ("cursor=WyItaWQiLGZhbHNlLDEsMV0x", "cursor"),
        ("cursor=WyItaWQiLGZhbHNlLCJcdWQ4MDAiLDFd", "cursor"),
        ("cursor=" + "W" * 5_000, "cursor"),
    ],
)
def test_wrong_parameter_is_a_400_that_names_it(caller: Program, query: str, name: str) -> None:
    reply = caller.get(f"tenants/lumen/jobs/?{query}")
    assert reply.status_code == 400
    assert reply.json()["errors"][0]["field"] == name


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("stat", "There is no such parameter; did you mean `state`?"),
        ("colour", "There is no such parameter."),
    ],
)
def test_unknown_parameter_is_refused_with_the_one_like_it(caller: Program, name: str, detail: str) -> None:
    problem = caller.get(f"tenants/lumen/jobs/?{name}=queued").json()
    assert [error["detail"] for error in problem["errors"]] == [detail]
    assert problem["detail"] == f"{name}: {detail}"


@pytest.mark.parametrize("number", ["9223372036854775808", "99999999999999999999999999"])
def test_number_beyond_64_bits_in_an_address_is_a_404(caller: Program, number: str) -> None:
    problem(caller.get(f"tenants/lumen/jobs/{number}/"), 404, "not_found")
    problem(caller.post(f"tenants/lumen/tokens/{number}/revoke/"), 404, "unknown_token")


def test_unexpected_error_is_a_problem_that_tells_nothing(caller: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr("tenants.api.me.me_of", fail)
    caller.client.raise_request_exception = False
    reply = caller.get("me/")
    problem(reply, 500, "internal_error")
    assert b"swordfish" not in reply.content


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("unknown_job", 404),
        ("unknown_role", 422),
        ("invalid_job", 422),
        ("invalid_key", 400),
        ("not_allowed", 403),
        ("already_over", 409),
    ],
)
def test_code_of_a_refusal_has_its_status(code: str, status: int) -> None:
    assert problem_of(Refused(code, "No.")).status == status


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=30, deadline=None)
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_refused_in_words(content: bytes) -> None:
    with suppress(ParseError):  # any other exception would be a 5xx
        parse(content)
