"""Bodies that are none: whatever is sent to an operation that changes something, the answer is a problem that says so.

Also where an operation takes no body at all: whoever sends one is mistaken about what was asked.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction

from tenants.api.bodies import MOST_BYTES
from tests.api.builders import Program, absolute
from tests.api.table import CALLERS, Names, Row, World, caller_of, make_world, rows

pytestmark = pytest.mark.django_db

CHANGES = [row for row in rows() if row.method in ("post", "put", "patch")]
JSON = "application/json"

# What is sent, under which Content-Type, and the status and code of the answer.
NO_BODIES: dict[str, tuple[bytes, str, int, str]] = {
    "not ended": (b'{"a": 1', JSON, 400, "malformed_body"),
    "no JSON": (b"hello", JSON, 400, "malformed_body"),
    "two documents": (b"{} {}", JSON, 400, "malformed_body"),
    "a list": (b"[]", JSON, 400, "malformed_body"),
    "a text": (b'"x"', JSON, 400, "malformed_body"),
    "null": (b"null", JSON, 400, "malformed_body"),
    "a name twice": (b'{"a": 1, "a": 2}', JSON, 400, "malformed_body"),
    "not a number": (b'{"a": NaN}', JSON, 400, "malformed_body"),
    "infinity": (b'{"a": 1e999}', JSON, 400, "malformed_body"),
    "more than 64 bits": (b'{"a": 9223372036854775808}', JSON, 400, "malformed_body"),
    "many digits": (b'{"a": ' + b"9" * 10_000 + b"}", JSON, 400, "malformed_body"),
    "a NUL": (b'{"a": "\\u0000"}', JSON, 400, "malformed_body"),
    "half a character": (b'{"a": "\\ud800"}', JSON, 400, "malformed_body"),
    "deep objects": (b'{"a": ' * 40 + b"1" + b"}" * 40, JSON, 400, "malformed_body"),
    "very deep lists": (b'{"a": ' + b"[" * 15_000, JSON, 400, "malformed_body"),
    "Latin-1": ('{"a": "é"}'.encode("latin-1"), JSON, 400, "malformed_body"),
    "UTF-16": ('{"a": "é"}'.encode("utf-16"), JSON, 400, "malformed_body"),
    "said to be Latin-1": (b"{}", JSON + "; charset=latin-1", 415, "unsupported_media_type"),
    "too large": (b'{"a": "' + b"x" * MOST_BYTES + b'"}', JSON, 413, "body_too_large"),
    "a form": (b"a=1", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
    "plain text": (b"{}", "text/plain", 415, "unsupported_media_type"),
    "parts": (b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x", 415, "unsupported_media_type"),
    "XML": (b"<a/>", "application/xml", 415, "unsupported_media_type"),
    "a type that is none": (b"{}", "application", 415, "unsupported_media_type"),
}


@pytest.fixture
def world() -> World:
    return make_world("own")


def each(world: World) -> Iterator[tuple[Row, Program, Names]]:
    """Every operation that changes something, with a caller who may, and the names in its address."""
    for row in (row for row in CHANGES if not row.form):
        role = min(CALLERS, key=lambda name: _how_far(row.expected(name, own=True)))
        names = row.names(world)  # before the caller: a row may need that nobody has a token
        yield row, caller_of(role, world), names


def _how_far(status: int) -> tuple[bool, int]:
    """Whoever is not let in never gets as far as the body."""
    return status in (401, 403), status


def answer(row: Row, caller: Program, names: Names, body: bytes, kind: str, **headers: str) -> Any:
    all_headers = {"Authorization": f"Bearer {caller.secret}"} | headers
    send: Callable[..., Any] = getattr(caller.client, row.method)
    with transaction.atomic():
        reply = send(absolute(row.address.format(**names)), body, content_type=kind, headers=all_headers)
        transaction.set_rollback(True)
    return reply


def outcome(reply: Any) -> tuple[int, str]:
    is_problem = reply["Content-Type"] == "application/problem+json"
    return reply.status_code, reply.json()["code"] if is_problem else ""


@pytest.mark.wide
def test_body_that_is_none_is_refused_by_every_operation(world: World) -> None:
    expected, outcomes = {}, {}
    for row, caller, names in each(world):
        for flaw, (body, kind, status, code) in NO_BODIES.items():
            expected[row.operation, flaw] = (status, code)
            outcomes[row.operation, flaw] = outcome(answer(row, caller, names, body, kind))
        expected[row.operation, "compressed"] = (415, "unsupported_media_type")
        compressed = answer(row, caller, names, gzip.compress(b"{}"), JSON, **{"Content-Encoding": "gzip"})
        outcomes[row.operation, "compressed"] = outcome(compressed)
    assert len(outcomes) > 400
    assert {place: got for place, got in outcomes.items() if got != expected[place]} == {}


@pytest.mark.wide
def test_field_of_a_wrong_type_is_refused_by_every_operation(world: World) -> None:
    """No field is a list of lists of objects."""
    wrong = {}
    for row, caller, names in each(world):
        right = dict(row.body(names))
        for field in right:
            for value in ([[{"a": []}]], {"a": {"b": [1]}}, 1.5, None, "\x7f" * 70_000):
                reply = answer(row, caller, names, json.dumps(right | {field: value}).encode(), JSON)
                status, code = outcome(reply)
                if status >= 500 or (isinstance(value, list) and status < 400) or (status >= 400 and not code):
                    wrong[row.operation, field, repr(value)[:40]] = (status, code)
    assert wrong == {}


def test_field_that_nobody_knows_is_refused_by_every_operation_that_takes_a_body(world: World) -> None:
    outcomes = {}
    for row, caller, names in each(world):
        right = dict(row.body(names))
        if not right:
            continue
        body = json.dumps(right | {"no_such_field": 1}).encode()
        outcomes[row.operation] = outcome(answer(row, caller, names, body, JSON))
    assert {name: got for name, got in outcomes.items() if got != (400, "invalid_request")} == {}
