"""What can go wrong: no answer came, or the answer was no."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class BourseError(Exception):
    """Whatever this library raises by itself. The text is a sentence for people."""


class Unsaid(BourseError):
    """Several are possible, and nobody said which is meant. `what`: "pool" or "tenant"."""

    def __init__(self, sentence: str, what: str) -> None:
        super().__init__(sentence)
        self.what = what


class Unreachable(BourseError):
    """No whole answer came. `key`: the Idempotency-Key of the call, where it had one. The call may have been heard:
    with the same key it can be sent again, and what it asks for is done once."""

    def __init__(self, sentence: str, *, key: str | None = None) -> None:
        super().__init__(sentence)
        self.key = key


class Refused(BourseError):
    """The answer was no. `code` never changes its meaning; `numbers` are the figures behind it, and `errors` what is
    wrong with which field, each with `field`, `code` and `detail`."""

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
        self.path = ""  # of the call that was refused, where it was one


class Invalid(Refused):
    """The request, or the job in it, cannot be: 400, 413, 415, 422."""


class NotAllowed(Refused):
    """The token does not work (401), or its person or scopes may not do this (403)."""


class NotFound(Refused):
    """There is no such thing, or it is somebody else's: 404."""


class Conflict(Refused):
    """It conflicts with how things stand: 409."""


class TooManyCalls(Refused):
    """The limit of calls is used up (429); `retry_after` seconds later it may be tried again."""


class ServerFailed(Refused):
    """Something broke on the other side: 5xx."""


_KINDS: Mapping[int, type[Refused]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    429: TooManyCalls,
}


def refused_of(status: int, body: bytes, *, retry_after: float | None = None) -> Refused:
    """The error in an answer. What is no problem+json came from something in between, and is named by its status."""
    kind = _KINDS.get(status) or (ServerFailed if status >= 500 else Invalid)
    try:
        problem = json.loads(body)
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        sentence = f"The server answered with status {status} and no reason."
        if status == 404:  # ours always gives one
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
