"""The published schema: checked in, complete, and open to everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from django.test import Client
from drf_spectacular.validation import validate_schema

from tenants.api.schema import as_yaml, document
from tests.api.table import operations

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("get", "post", "put", "patch", "delete")


def published() -> dict[str, dict[str, Any]]:
    operations_of_all = [described for path in document()["paths"].values() for described in path.values()]
    by_name = {described["operationId"]: described for described in operations_of_all}
    assert len(by_name) == len(operations_of_all)
    return by_name


def test_checked_in_schema_is_the_one_that_is_published() -> None:
    stored = (ROOT / "docs" / "openapi.yaml").read_bytes()
    assert stored.strip() == as_yaml().strip(), (
        "the interface has changed: run `make schema` and look at the difference"
    )


def test_schema_is_openapi_3_1_and_has_every_operation_once() -> None:
    validate_schema(document())
    assert document()["openapi"] == "3.1.0"
    assert sorted(published()) == sorted(described.name for described in operations())


def examples_of(media: dict[str, Any]) -> list[Any]:
    return [example["value"] for example in media.get("examples", {}).values()]


KINDS = ("application/zip", "application/gzip", "application/octet-stream", "text/plain", "text/html", "text/csv")
FILES = [[kind] for kind in KINDS]


@pytest.mark.parametrize("name", [described.name for described in operations()])
def test_operation_says_what_it_does_with_examples_that_fit(name: str) -> None:
    described = published()[name]
    assert described["summary"]
    assert len(described["description"]) > 20
    body = described.get("requestBody", {}).get("content", {})
    assert not body or list(body) in (["application/json"], ["multipart/form-data"])
    for media in body.values() if "application/json" in body else ():  # a file is its own example
        assert examples_of(media), "no example of a request"
        for value in examples_of(media):
            must_fit(value, media["schema"])
    done = [answer for status, answer in described["responses"].items() if status.startswith("2")]
    assert len(done) == 1
    kinds = done[0].get("content", {})
    if kinds and list(kinds) not in FILES:  # a file is its own example
        media = kinds.get("application/json") or kinds["text/event-stream"]
        assert examples_of(media), "no example of an answer"
        for value in examples_of(media):
            must_fit(value, media["schema"])
    assert {"401", "403", "404", "429"} <= set(described["responses"])
    for status, answer in described["responses"].items():
        if status >= "4":
            assert list(answer["content"]) == ["application/problem+json"]
            assert "Codes: `" in answer["description"]


def must_fit(value: Any, schema: dict[str, Any]) -> None:
    """Against its own schema, with names that the schema does not have taken for mistakes."""
    jsonschema.Draft202012Validator(
        schema | {"components": document()["components"]}, format_checker=jsonschema.FormatChecker()
    ).validate(value)
    assert unknown_names(value, schema) == []


def unknown_names(value: Any, schema: dict[str, Any]) -> list[str]:
    schema = resolved(schema)
    if isinstance(value, list):
        return [name for inner in value for name in unknown_names(inner, schema.get("items", {}))]
    if not isinstance(value, dict) or schema.get("additionalProperties", False) is not False:
        return []
    properties = schema.get("properties", {})
    here = [name for name in value if name not in properties]
    return here + [
        name for inner in value if inner in properties for name in unknown_names(value[inner], properties[inner])
    ]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Through a reference, and through "this or null"."""
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return resolved(next(each for each in schema[several] if each.get("type") != "null"))
    if "$ref" in schema:
        return resolved(document()["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]])
    return schema


def test_every_post_takes_an_idempotency_key() -> None:
    for path in document()["paths"].values():
        for method, described in path.items():
            headers = [each["name"] for each in described.get("parameters", []) if each["in"] == "header"]
            assert headers == (["Idempotency-Key"] if method == "post" else [])


@pytest.mark.django_db
def test_schema_is_open_and_comes_in_both_forms(client: Client) -> None:
    as_text = client.get("/api/v1/schema/")
    assert as_text["Content-Type"] == "application/vnd.oai.openapi"
    as_json = client.get("/api/v1/schema/", headers={"Accept": "application/json"})
    assert yaml.load(as_text.content, yaml.CSafeLoader) == as_json.json()
    again = client.get("/api/v1/schema/", headers={"If-None-Match": as_text["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
