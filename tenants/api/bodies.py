"""Strict JSON bodies: what Python's reader lets pass, and the database or a retry would stumble over, is refused here.

At most 1 MiB and 20,000 values (more where an operation says so), UTF-8, at most 32 levels deep, no name
twice in an object, no NaN or infinity, no NUL or half character in a text, no integer that 64 bits cannot hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser

from scheduling.core.names import doubled_name
from tenants.api.problems import TOO_LARGE, ProblemRaised

MOST_BYTES = 1 << 20
# Nothing else in the process computes while Python's reader reads. It takes some ten milliseconds for this many.
MOST_VALUES = 20_000
DEEPEST = 32
LONGEST_INTEGER = 19  # digits of 2^63


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        _require_utf8(media_type or "", parser_context or {})
        content, most = stream.read(MOST_BYTES + 1), _most_values(parser_context or {})
        if len(content) > MOST_BYTES or values_at_most(content) > most:
            sentence = f"A body has at most 1 MiB, and here {most:,} values."
            raise ProblemRaised(replace(TOO_LARGE, detail=sentence))
        document = parse(content)
        if not isinstance(document, dict):
            raise ParseError("The body must be a JSON object.")
        return document


def parse(content: bytes) -> Any:
    """Return the document in a body, or raise `ParseError` with a plain sentence."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"The body is not UTF-8: byte {error.start}.") from None
    try:
        document = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_real
        )
    except json.JSONDecodeError as error:
        raise ParseError(f"The body is not JSON: line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise _too_deep() from None
    _inspect(document, texts="\\u" in text)  # only escapes can hide what the database could not keep
    return document


def values_at_most(content: bytes) -> int:
    """Return a number of values that the body does not exceed. Each value but the first has a mark of its own before
    it; marks inside texts count too."""
    return 1 + sum(map(content.count, (b",", b"[", b"{")))


def text_flaw(text: str) -> str | None:
    """Return why the database could not keep this text, or None if it can."""
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half a character"
    return None


def _most_values(context: Mapping[str, Any]) -> int:
    """Return the most values that the body of this call may have. An operation of which a tenant has few calls at once
    may take more than others."""
    operation = getattr(context.get("view"), "operation", None)
    return MOST_VALUES if operation is None else operation.most_values


def _require_utf8(media_type: str, context: Mapping[str, Any]) -> None:
    if context["request"].headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType(media_type)
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "charset" and value.strip('" ').lower() not in ("utf-8", "utf8"):
            raise UnsupportedMediaType(media_type)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ParseError(f"The name {json.dumps(doubled_name(pairs)[:60])[:60]} stands twice in an object.")
    return members


def _constant(literal: str) -> float:
    raise ParseError(f"{literal} is not a JSON number.")


def _integer(digits: str) -> int:
    number = int(digits) if len(digits) <= LONGEST_INTEGER + 1 else 2**63  # one more for the sign
    if not -(2**63) <= number < 2**63:
        raise ParseError(f"The number {digits[:24]} does not fit into 64 bits.")
    return number


def _real(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ParseError("A number in the body is too large.")
    return number


def _too_deep() -> ParseError:
    return ParseError(f"The body is nested more than {DEEPEST} levels deep.")


def _inspect(document: Any, *, texts: bool) -> None:
    """Raise `ParseError` if the document is too deep or, with `texts`, if a text or a name in it has a flaw. It goes
    level by level, so that no depth is too much for it; and it takes a whole level at a time, because a mebibyte can
    hold half a million values."""
    level = [document]
    for _ in range(DEEPEST):
        lists = [value for value in level if type(value) is list]
        objects = [value for value in level if type(value) is dict]
        if texts:
            names = [name for value in objects for name in value]
            if flaw := text_flaw("".join([*names, *(value for value in level if type(value) is str)])):
                raise ParseError(f"A text in the body {flaw}.")
        level = [inner for value in lists for inner in value]
        level += [inner for value in objects for inner in value.values()]
        if not level:
            return
    raise _too_deep()
