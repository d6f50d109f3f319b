"""Strict JSON bodies: what Python's reader lets pass, and the database or a retry would stumble over, is refused here.

At most 1 MiB, UTF-8, at most 32 levels deep, no name twice in an object, no NaN or infinity, no NUL or half character
in a text, no integer that 64 bits cannot hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser

from tenants.api.problems import TOO_LARGE, ProblemRaised

MOST_BYTES = 1 << 20
DEEPEST = 32
LONGEST_INTEGER = 19  # digits of 2^63


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        _require_utf8(media_type or "", parser_context or {})
        content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ProblemRaised(TOO_LARGE)
        document = parse(content)
        if not isinstance(document, dict):
            raise ParseError("The body must be a JSON object.")
        return document


def parse(content: bytes) -> Any:
    """The document; raises `ParseError` with a plain sentence."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"The body is not UTF-8: byte {error.start}.") from None
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise ParseError(f"The body is not JSON: line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise _too_deep() from None
    _inspect(document)
    return document


def text_flaw(text: str) -> str | None:
    """Why the database could not keep this text."""
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half a character"
    return None


def _require_utf8(media_type: str, context: Mapping[str, Any]) -> None:
    if context["request"].headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType(media_type)
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "charset" and value.strip('" ').lower() not in ("utf-8", "utf8"):
            raise UnsupportedMediaType(media_type)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ParseError(f"The name {json.dumps(twice)[:60]} stands twice in an object.")
    return found


def _constant(literal: str) -> float:
    raise ParseError(f"{literal} is not a JSON number.")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST_INTEGER or not -(2**63) <= int(digits) < 2**63:
        raise ParseError(f"The number {digits[:24]} does not fit into 64 bits.")
    return int(digits)


def _too_deep() -> ParseError:
    return ParseError(f"The body is nested more than {DEEPEST} levels deep.")


def _inspect(document: Any) -> None:
    """Level by level, so that no depth is too much for the reader itself."""
    level = [document]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            _inspect_one(value, inner)
        if not inner:
            return
        level = inner
    raise _too_deep()


def _inspect_one(value: Any, inner: list[Any]) -> None:
    if isinstance(value, dict):
        inner.extend(value.values())
        for name in value:
            _inspect_one(name, inner)
    elif isinstance(value, list):
        inner.extend(value)
    elif isinstance(value, str) and (flaw := text_flaw(value)):
        raise ParseError(f"A text in the body {flaw}.")
    elif isinstance(value, float) and value - value != 0:
        raise ParseError("A number in the body is too large.")
