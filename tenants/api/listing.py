"""Lists: which filters and orders one has, and its pages as JSON. `csv_text` has the whole of it as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request

from tenants.api.bodies import text_flaw
from tenants.api.cursors import cursor_read, page_of, place_read
from tenants.api.fields import moment_of, no_such
from tenants.api.problems import FieldError, Problem, ProblemRaised
from tenants.common.zones import LATEST

USUAL_LIMIT, MOST_LIMIT = 50, 200
BEGINNING = date(1970, 1, 1)  # of a filter by time; programs write it for all there is
LONGEST_VALUE = 200  # characters of a filter
OF_EVERY_LIST = ("cursor", "format")

Show = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Filter:
    """One parameter of the address. `read` raises ValueError with what is wrong with a value."""

    name: str
    lookup: str  # of a queryset's filter, such as "submitted_at__gte"; empty if the view reads it itself
    schema: Mapping[str, Any]
    description: str
    read: Callable[[str], Any]
    several: bool = False  # may be given more than once; a row passes with any of the values


def choice(name: str, among: Sequence[str], description: str, lookup: str | None = None) -> Filter:
    def read(text: str) -> str:
        if text not in among:
            raise ValueError(f"must be one of {', '.join(among)}")
        return text

    schema = {"type": "string", "enum": list(among)}
    return Filter(name, name if lookup is None else lookup, schema, description, read, several=True)


def word(name: str, description: str, lookup: str | None = None) -> Filter:
    schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_VALUE}
    return Filter(name, name if lookup is None else lookup, schema, description, _text)


def moment(name: str, description: str, lookup: str | None = None) -> Filter:
    def read(text: str) -> Any:
        # A plus in an address is read as a blank, which would lose the plus of an offset.
        if (moment := moment_of(text.replace(" ", "+"))) is None:
            raise ValueError("must be a time such as 2026-03-02T12:00:00Z")
        if not BEGINNING <= moment.date() < LATEST:
            raise ValueError(f"must be a time from {BEGINNING} on, before {LATEST}")
        return moment

    schema = {"type": "string", "format": "date-time"}
    return Filter(name, name if lookup is None else lookup, schema, description, read)


def whole(name: str, description: str, lookup: str | None = None, *, least: int = 0, most: int = 2**63 - 1) -> Filter:
    def read(text: str) -> int:
        plain = text.removeprefix("-")
        if not (plain.isascii() and plain.isdigit() and len(plain) <= 19 and least <= int(text) <= most):
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Filter(name, name if lookup is None else lookup, schema, description, read)


def flag(name: str, description: str, lookup: str | None = None) -> Filter:
    def read(text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError("must be true or false")
        return text == "true"

    return Filter(name, name if lookup is None else lookup, {"type": "boolean"}, description, read)


def _text(text: str) -> str:
    if not 0 < len(text) <= LONGEST_VALUE:
        raise ValueError(f"must have 1 to {LONGEST_VALUE} characters")
    return text


@dataclass(frozen=True)
class Listing:
    """`row` shows one line; `orderings` are fields that are never null and have an index, the first the usual one.

    A list that is computed whole has no orderings: it is in its order.
    """

    row: type[serializers.Serializer[Any]]
    orderings: Sequence[str] = ()
    filters: Sequence[Filter] = field(default=())


LIMIT = whole("limit", f"How many results a page has; else {USUAL_LIMIT}.", "", least=1, most=MOST_LIMIT)


def parameters_read(request: Request, filters: Sequence[Filter], others: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of the address, name -> value. One that the operation does not know is an error, because
    the caller's wish would be ignored."""
    by_name = {each.name: each for each in filters}
    read: dict[str, Any] = {}
    errors = []
    for name, texts in request.query_params.lists():
        try:
            if name not in by_name and name not in others:
                raise ValueError(no_such("there is no such parameter", name, (*by_name, *others)))
            read[name] = _values(by_name.get(name), texts)
        except ValueError as error:
            errors.append(FieldError(name, "invalid_parameter", _as_sentence(f"{error}")))
    if errors:
        first = errors[0]
        sentence = f"{first.field[:60]}: {first.detail}"
        raise ProblemRaised(Problem(400, "invalid_request", sentence, errors=errors))
    return read


def _as_sentence(words: str) -> str:
    """Return the words as a sentence. The other letters stay as they are: a time has a large T and Z."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '?')) else '.'}"


def _values(filter_: Filter | None, texts: Sequence[str]) -> Any:
    if flaw := next((flaw for text in texts if (flaw := text_flaw(text))), None):
        raise ValueError(flaw)
    if len(texts) > 1 and not (filter_ and filter_.several):
        raise ValueError("stands more than once")
    if filter_ is None:
        return texts[0]
    values = [filter_.read(text) for text in texts]
    return values if filter_.several else values[0]


def rows_chosen(rows: QuerySet[Any], listing: Listing, parameters: Mapping[str, Any]) -> tuple[QuerySet[Any], str]:
    """Return the rows that pass the filters, and the order that was requested."""
    ordering = parameters.get("ordering", listing.orderings[0])
    if ordering not in listing.orderings:
        sentence = f"Must be one of {', '.join(listing.orderings)}."
        errors = [FieldError("ordering", "invalid_parameter", sentence)]
        raise ProblemRaised(Problem(400, "invalid_request", f"ordering: {sentence}", errors=errors))
    for each in listing.filters:
        if each.lookup and each.name in parameters:
            value = parameters[each.name]
            rows = rows.filter(**{f"{each.lookup}__in" if each.several else each.lookup: value})
    return rows, ordering


def page_document(
    request: Request,
    rows: QuerySet[Any],
    listing: Listing,
    parameters: Mapping[str, Any],
    show: Show,
    defaults: Mapping[str, str],
) -> dict[str, Any]:
    """Return a page of rows; for `defaults` see `listed`."""
    rows, ordering = rows_chosen(rows, listing, parameters)
    cursor_text = parameters.get("cursor")
    cursor = cursor_read(cursor_text, ordering, rows) if cursor_text is not None else None
    limit = parameters.get("limit", USUAL_LIMIT)
    page = page_of(rows, ordering=ordering, limit=limit, cursor=cursor)
    return {
        "next": page_address(request, page.next.text(), defaults) if page.next else None,
        "previous": page_address(request, page.previous.text(), defaults) if page.previous else None,
        "results": listing.row(show(page.rows), many=True).data if page.rows else [],
    }


def values_document(
    request: Request, values: Sequence[Any], listing: Listing, query: Mapping[str, Any], defaults: Mapping[str, str]
) -> dict[str, Any]:
    """Return a page of a list that is computed whole. Its cursor is the index where it begins; see `listed_values`."""
    limit = query.get("limit", USUAL_LIMIT)
    start = place_read(query["cursor"]) if "cursor" in query else 0
    following, before = start + limit, max(start - limit, 0)
    return {
        "next": page_address(request, str(following), defaults) if following < len(values) else None,
        "previous": page_address(request, str(before), defaults) if start > 0 else None,
        "results": listing.row(values[start:following], many=True).data,
    }


def page_address(request: Request, cursor: str, defaults: Mapping[str, str] = MappingProxyType({})) -> str:
    query = request.query_params.copy()
    for name, value in (*defaults.items(), ("cursor", cursor)):
        query[name] = value  # `update` would add a second one
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
