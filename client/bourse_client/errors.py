"""What can go wrong with a call: no answer came, or the answer was no."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class BourseError(Exception):
    """The base of all errors that this library raises by itself. The text is a sentence for people."""


class Unsaid(BourseError):
    """Several pools or tenants are possible, and the caller did not say which is meant. `what` is "pool" or
    "tenant"."""

    def __init__(self, sentence: str, what: str) -> None:
        super().__init__(sentence)
        self.what = what


class Unreachable(BourseError):
    """No whole answer came. `key` is the Idempotency-Key of the call, where it had one. The server may have received
    the call: with the same key it can be sent again, and what it asks for is done once."""

    def __init__(self, sentence: str, *, key: str | None = None) -> None:
        super().__init__(sentence)
        self.key = key


class Refused(BourseError):
    """The answer was no. `code` never changes its meaning. `numbers` are the figures behind it, and `errors` say what
    is wrong with which field, each with `field`, `code` and `detail`."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        numbers: Mapping[str, Any] | None = None,
        errors: Sequence[Mapping[str, str]] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.numbers = dict(numbers or {})
        self.errors = tuple(errors)
        self.retry_after = retry_after
        self.path = ""  # the path of the call that was refused, if it was one call
        self.key: str | None = None  # of a change that may have been made all the same, as after a 503


class Invalid(Refused):
    """The request, or the job in it, is not valid: 400, 413, 415, 422."""


class NotAllowed(Refused):
    """The token does not work (401), or its person or scopes may not do this (403)."""


class NotFound(Refused):
    """There is no such thing, or it belongs to somebody else: 404."""


class Conflict(Refused):
    """The request conflicts with the present state: 409."""


class TooManyCalls(Refused):
    """The limit of calls is used up (429); after `retry_after` seconds the call may be tried again."""


class ServerFailed(Refused):
    """Something broke on the server: 5xx."""


_KINDS: Mapping[int, type[Refused]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    429: TooManyCalls,
}


def refused_of(status: int, body: bytes, *, retry_after: float | None = None) -> Refused:
    """Return the error in an answer. An answer that is no problem+json came from something between us and the server,
    and is named by its status."""
    kind = _KINDS.get(status) or (ServerFailed if status >= 500 else Invalid)
    try:
        problem = json.loads(body)
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError, RecursionError):
        sentence = f"The server answered with status {status} and no reason."
        if status == 404:  # our server always gives one
            sentence += " Is this the address of Bourse?"
        return kind(status, f"http_{status}", sentence, {}, (), retry_after)
    numbers, errors = problem.get("numbers"), problem.get("errors")
    return kind(
        status,
        code,
        detail,
        numbers if isinstance(numbers, dict) else {},
        [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else (),
        retry_after,
    )
