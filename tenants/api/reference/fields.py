"""The fields of a schema as rows to read, from the outermost to the innermost: `results[].reason.code`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenants.api.fields import READ_CREDITS, SHOWN_CREDITS

Schema = Mapping[str, Any]

KINDS = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text", "null": "null"}
FORMATS = {"date-time": "time", "date": "date", "uri": "address", "email": "e-mail address", "binary": "file"}
DECIMAL = (READ_CREDITS, SHOWN_CREDITS)
STRUCTURES = ("object", "array")
# How the limits of a value in the schema are put into words, pairs of bounds first.
BOUNDS = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " of them"))
LIMITS = {"exclusiveMinimum": "more than {}", "exclusiveMaximum": "less than {}", "pattern": "as `{}`"}
LIMITS |= {"default": "else `{}`"}
LARGEST = 2**63 - 1  # not shown as a bound, because no reader meets it
VALUES = re.compile(r"\n*^\* `.*", re.DOTALL | re.MULTILINE)  # the list of values that ends a description


@dataclass(frozen=True)
class FieldRow:
    """`path`: where it stands in the body; empty for a body that is no object. `depth`: of its place, from 0 on."""

    path: str
    kind: str
    words: str
    limits: str
    required: bool
    depth: int


def rows_of(schema: Schema, schemas: Mapping[str, Schema]) -> tuple[FieldRow, ...]:
    """Return a row for each field. `schemas` are those that others name. One that contains itself is opened once."""
    whole, inner = _seen_through(schema, schemas)
    if _structure(inner) is None:
        return (FieldRow("", kind_of(whole, schemas), words_of(inner), limits_of(inner), True, 0),)
    return tuple(_below(whole, schemas, "", 0, frozenset()))


def _below(
    schema: Schema, schemas: Mapping[str, Schema], place: str, depth: int, opened: frozenset[str]
) -> Iterator[FieldRow]:
    name = reference(schema)
    if name in opened:
        return
    opened = opened | {name} if name else opened
    _, inner = _seen_through(schema, schemas)
    if "items" in inner:
        yield from _below(inner["items"], schemas, f"{place}[]", depth, opened)
    named = inner.get("additionalProperties")
    if isinstance(named, Mapping) and _structure(_seen_through(named, schemas)[1]):
        yield from _below(named, schemas, f"{place}.<name>" if place else "<name>", depth, opened)
    required = set(inner.get("required", ()))
    for field, inner_schema in inner.get("properties", {}).items():
        path = f"{place}.{field}" if place else field
        inner_words = _seen_through(inner_schema, schemas)[1]
        words = words_of(inner_schema) or ("" if reference(inner_schema) else words_of(inner_words))
        yield FieldRow(
            path, kind_of(inner_schema, schemas), words, limits_of(inner_schema, inner_words), field in required, depth
        )
        yield from _below(inner_schema, schemas, path, depth + 1, opened)


def words_of(schema: Schema) -> str:
    return VALUES.sub("", str(schema.get("description", "")))


def reference(schema: Schema) -> str:
    """Return the name of the schema that this one only names, alone or with null; empty if it names none."""
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return next((reference(each) for each in schema[several] if reference(each)), "")
    return str(schema.get("$ref", "")).rpartition("/")[2]


def kind_of(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    """Return the kind of a value in the reader's words, such as "list of text" or "time or null"."""
    whole, inner = _seen_through(schema, schemas)
    types = _types(inner)
    null = "null" in types or any("null" in _types(each) for each in whole.get("oneOf", ()))
    kind = " or ".join(_kind(each, inner, schemas) for each in types if each != "null") or "anything"
    return f"{kind} or null" if null else kind


def _kind(plain: str, schema: Schema, schemas: Mapping[str, Schema]) -> str:
    if plain == "array":
        return f"list of {kind_of(schema.get('items', {}), schemas)}"
    if plain == "object":
        named = schema.get("additionalProperties")
        return f"{kind_of(named, schemas)} by name" if isinstance(named, Mapping) and named else "object"
    if schema.get("pattern") in DECIMAL:
        return "decimal text"
    return FORMATS.get(str(schema.get("format")), KINDS.get(plain, plain))


def limits_of(*schemas: Schema) -> str:
    """Return in words what a value must keep to. `schemas` are the place's own and those that it names; of several that
    set the same limit, the first one counts."""
    rules: dict[str, Any] = {}
    for schema in schemas:
        items = schema.get("items", {})
        rules = {name: value for name, value in items.items() if name == "enum"} | dict(schema) | rules
    choice = [each for each in rules.get("enum", ()) if each is not None]
    limit_words = [f"one of {_enumeration(choice)}"] if choice else []
    limit_words += [_between(rules.get(least), rules.get(most), of) for least, most, of in BOUNDS]
    limits = {name: rules[name] for name in LIMITS if name in rules and rules[name] not in DECIMAL}
    limit_words += [LIMITS[name].format(_plain(limit)) for name, limit in limits.items()]
    return ", ".join(each for each in limit_words if each)


def _between(least: Any, most: Any, of: str) -> str:
    most = None if most == LARGEST else most
    if least is not None and most is not None:
        return f"{_plain(least)} to {_plain(most)}{of}"
    if least is None and most is None:
        return ""
    return f"at most {_plain(most)}{of}" if least is None else f"at least {_plain(least)}{of}"


def _enumeration(values: Sequence[object]) -> str:
    return ", ".join(f"`{_plain(value)}`" for value in values)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seen_through(schema: Schema, schemas: Mapping[str, Schema]) -> tuple[Schema, Schema]:
    """Return the schema itself, and the one that is behind its names and behind "this or null"."""
    inner = schema
    while True:
        several = next((inner[each] for each in ("oneOf", "anyOf", "allOf") if each in inner), None)
        if several is not None:
            inner = next(each for each in several if _types(each) != ("null",))
        elif "$ref" in inner:
            inner = schemas[inner["$ref"].rpartition("/")[2]]
        else:
            return schema, inner


def _types(schema: Schema) -> tuple[str, ...]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def _structure(schema: Schema) -> str | None:
    if "items" in schema or "properties" in schema:
        return next((each for each in _types(schema) if each in STRUCTURES), "object")
    named = schema.get("additionalProperties")
    return "object" if isinstance(named, Mapping) and named else None
