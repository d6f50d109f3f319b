"""The published schema as frozen values, one for each operation. Read once in a process."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import yaml
from django.conf import settings

from tenants.api.problems import Problem, document_of
from tenants.api.reference.fields import FieldRow, Schema, kind_of, limits_of, rows_of, words_of
from tenants.api.reference.tags import TAGS

NEEDS = re.compile(r"\n*A token needs the scopes? `([^`]+)`(?: and `([^`]+)`)?\.$")
CODES = re.compile(r"\s*Codes: (.*)\.$", re.DOTALL)
JSON = "application/json"
ENDLESS_OR_FILE = ("text/event-stream", "application/zip")


@dataclass(frozen=True)
class OperationParameter:
    name: str
    place: str  # path, query or header
    kind: str
    words: str
    limits: str
    required: bool
    choices: tuple[str, ...]
    several: bool  # may be given more than once


@dataclass(frozen=True)
class Body:
    """What is sent or answered. `example`: as JSON, or a stream's lines; empty where there is none."""

    media: str
    words: str
    fields: tuple[FieldRow, ...]
    example: str


@dataclass(frozen=True)
class OperationFault:
    status: int
    words: str
    codes: tuple[str, ...]


@dataclass(frozen=True)
class OperationShown:
    name: str
    tag: str
    method: str
    path: str
    summary: str
    words: str
    scopes: tuple[str, ...]  # those that a token needs
    open: bool  # whether everybody may call it without a log-in
    parameters: tuple[OperationParameter, ...]
    request: Body | None
    request_example: Any  # the example of a request, as it is
    status: int  # the status of the answer that is no error
    answers: tuple[Body, ...]
    faults: tuple[OperationFault, ...]
    is_list: bool

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    @property
    def can_be_tried(self) -> bool:
        """From a page: it only reads, and its answer has an end that a browser shows."""
        return not self.changes and self.answers[0].media not in ENDLESS_OR_FILE

    @property
    def kind(self) -> str:
        return self.answers[0].media if self.answers else JSON

    def says(self, words: list[str]) -> bool:
        """Each word stands in its text, or is the whole name of a parameter, field or code of an error."""
        text = f"{self.name} {self.method} {self.path} {self.tag} {' '.join(self.scopes)} {self.summary} {self.words}"
        text = text.casefold()
        return all(word.casefold() in text or word.casefold() in self._names for word in words)

    @cached_property
    def _names(self) -> frozenset[str]:
        bodies = (*self.answers, *((self.request,) if self.request else ()))
        paths = [row.path for body in bodies for row in body.fields]
        names = {each.name for each in self.parameters} | {code for fault in self.faults for code in fault.codes}
        return frozenset(name.casefold() for name in {*names, *paths, *(path.rpartition(".")[2] for path in paths)})


@dataclass(frozen=True)
class OperationGroup:
    tag: str
    words: str
    operations: tuple[OperationShown, ...]


@cache
def schema() -> Mapping[str, Any]:
    """Return the schema as it is checked in. A test fails when it differs from what the code says; to ask the code
    takes four times as long."""
    document: Mapping[str, Any] = yaml.load(settings.API_SCHEMA.read_bytes(), yaml.CSafeLoader)
    return document


@cache
def groups() -> tuple[OperationGroup, ...]:
    """Return the groups of operations in the order of the tags. A tag that nobody has described comes last."""
    tags: dict[str, list[OperationShown]] = {tag: [] for tag in TAGS}
    whole = schema()
    for path, methods in whole["paths"].items():
        for method, operation_document in methods.items():
            operation = _operation(path, method, operation_document, whole["components"]["schemas"])
            tags.setdefault(operation.tag, []).append(operation)
    return tuple(OperationGroup(tag, TAGS.get(tag, ""), tuple(each)) for tag, each in tags.items() if each)


@cache
def operations() -> Mapping[str, OperationShown]:
    return {each.name: each for group in groups() for each in group.operations}


@cache
def preface() -> tuple[str, ...]:
    """Return the paragraphs about the interface as a whole."""
    return tuple(schema()["info"]["description"].split("\n\n"))


@cache
def problem() -> Body:
    """Return the body of an error, which is the same for every operation."""
    schemas = schema()["components"]["schemas"]
    sentence = "The token lacks the scope market:read."
    example = document_of(Problem(403, "scope_missing", sentence, {"scope": "market:read"}))
    return Body("application/problem+json", "", rows_of(schemas["ProblemDocument"], schemas), _json_text(example))


def _operation(path: str, method: str, operation: Schema, schemas: Mapping[str, Schema]) -> OperationShown:
    words = operation.get("description", "")
    needs = NEEDS.search(words)
    request = operation.get("requestBody", {}).get("content", {}).get(JSON)
    status, done = next((int(code), each) for code, each in operation["responses"].items() if code < "3")
    answers = tuple(_body(media, each, schemas, done) for media, each in done.get("content", {}).items())
    request_example = _first_example(request) if request else None
    return OperationShown(
        name=operation["operationId"],
        tag=operation["tags"][0],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        words=NEEDS.sub("", words),
        scopes=tuple(filter(None, needs.groups())) if needs else (),
        open={} in operation.get("security", [{}]),
        parameters=tuple(sorted((_parameter(each, schemas) for each in operation.get("parameters", [])), key=_place)),
        request=_body(JSON, request, schemas, {}) if request else None,
        request_example=request_example,
        status=status,
        answers=answers,
        faults=tuple(_fault(int(code), each) for code, each in operation["responses"].items() if code >= "4"),
        is_list=any(each["name"] == "cursor" for each in operation.get("parameters", [])),
    )


def _parameter(parameter: Schema, schemas: Mapping[str, Schema]) -> OperationParameter:
    form = parameter["schema"]
    inner = form.get("items", form)
    return OperationParameter(
        name=parameter["name"],
        place=parameter["in"],
        kind=kind_of(form, schemas),
        words=words_of(parameter),
        limits=limits_of(form),
        required=parameter.get("required", False),
        choices=tuple(str(each) for each in inner.get("enum", ())),
        several=form.get("type") == "array",
    )


def _place(operation_parameter: OperationParameter) -> int:
    return ("path", "query", "header").index(operation_parameter.place)


def _body(media: str, content: Schema, schemas: Mapping[str, Schema], answer: Schema) -> Body:
    example = _first_example(content)
    text = example if isinstance(example, str) else "" if example is None else _json_text(example)
    fields = rows_of(content["schema"], schemas) if media == JSON else ()
    return Body(media, answer.get("description", ""), fields, text)


def _first_example(content: Schema) -> Any:
    return next((each["value"] for each in content.get("examples", {}).values()), None)


def _fault(status: int, answer: Schema) -> OperationFault:
    description = answer["description"]
    codes = CODES.search(description)
    return OperationFault(
        status, CODES.sub("", description), tuple(re.findall(r"`([^`]+)`", codes[1])) if codes else ()
    )


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
