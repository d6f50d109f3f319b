"""Every error as problem+json (RFC 9457): one shape, one table from codes to statuses."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404, HttpResponse
from django.http.request import UnreadablePostError
from rest_framework import exceptions

from tenants.access import Refused
from tenants.common.failures import Unavailable, unavailable_of

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 500  # the most errors that one answer names
log = logging.getLogger(__name__)

# The statuses of what services refuse, by the code itself or else by how it begins. Any other refusal is a conflict
# with how things are.
STATUS = MappingProxyType(
    {
        "not_allowed": 403,
        "beyond_token": 403,
        "not_found": 404,
        "not_ready": 503,
        "too_many_at_once": 429,
        "invalid_key": 400,
        "no_inviter": 422,
        "jobs_refused": 422,
        "reason_missing": 422,
        "reason_too_long": 422,
        "unknown_role": 422,  # the body names it, and not the address
        "unknown_scope": 422,
        "unknown_tenant": 422,
        "unknown_server": 422,
        "unknown_resource": 422,
    }
)
BY_BEGINNING = MappingProxyType({"unknown_": 404, "invalid_": 422})
CONFLICT = 409


def status_of(code: str) -> int:
    beginnings = (status for beginning, status in BY_BEGINNING.items() if code.startswith(beginning))
    return STATUS.get(code) or next(beginnings, CONFLICT)


@dataclass(frozen=True)
class FieldError:
    field: str  # such as "spec.chunks"; empty for the body as a whole
    code: str
    detail: str


@dataclass(frozen=True)
class Problem:
    status: int
    code: str
    detail: str  # one plain sentence
    numbers: Mapping[str, Any] | None = None
    errors: Sequence[FieldError] = ()
    headers: Mapping[str, str] | None = None


class ProblemRaised(exceptions.APIException):
    """For helpers below a view: ends the call with this answer. Views return `problem_response` instead."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail, problem.code)
        self.problem = problem


def problem_of(refused: Refused, numbers: Mapping[str, Any] | None = None) -> Problem:
    """Return the problem for a refusal. `numbers` are its figures, with amounts as the interface writes them. A refusal
    that names a field is in `errors`, too."""
    status = status_of(refused.code)
    field = getattr(refused, "field", None)
    errors = [FieldError(field, refused.code, refused.sentence)] if field else ()
    return Problem(status, refused.code, refused.sentence, numbers, errors)


def document_of(problem: Problem) -> dict[str, Any]:
    return {
        "type": f"urn:bourse:problem:{problem.code}",
        "title": problem.code.replace("_", " ").capitalize(),
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "numbers": dict(problem.numbers or {}),
        "errors": [vars(error) for error in problem.errors],
    }


def problem_response(problem: Problem) -> HttpResponse:
    content = json.dumps(document_of(problem), ensure_ascii=False).encode("utf-8", "backslashreplace")
    return HttpResponse(content, status=problem.status, content_type=MEDIA_TYPE, headers=dict(problem.headers or {}))


def problem_of_exception(error: Exception, request: Any) -> Problem:
    """Return what a program is told about an exception. An unexpected one is logged whole and not shown at all."""
    match error:
        case ProblemRaised():
            return error.problem
        case exceptions.ValidationError():
            errors = list(_field_errors(error.get_full_details(), ""))
            return Problem(400, "invalid_request", _summary(errors), errors=errors[:MOST_ERRORS])
        case exceptions.APIException():
            return _of_framework(error)
        case Http404():
            return NOT_FOUND
        case PermissionDenied():
            return Problem(403, "not_allowed", "Your role does not allow this.")
        case RequestDataTooBig():
            return TOO_LARGE
        case UnreadablePostError() | BadRequest() | SuspiciousOperation():
            return Problem(400, "malformed_request", "The request could not be read.")
    if (unavailable := unavailable_of(error)) is not None:
        log.warning("503 %s: %s", unavailable.code, str(error).partition("\n")[0])
        return unavailable_problem(unavailable)
    log.error("an operation failed", exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return Problem(500, "internal_error", BROKEN)


def unavailable_problem(unavailable: Unavailable) -> Problem:
    return Problem(503, unavailable.code, unavailable.detail, headers={"Retry-After": str(unavailable.seconds)})


BROKEN = (
    "Something went wrong here. Whether a change was made is not known: only with the same Idempotency-Key is it safe "
    "to send it again."
)
NOT_FOUND = Problem(404, "not_found", "There is no such thing here.")
TOO_LARGE = Problem(413, "body_too_large", "A body has at most 1 MiB and 20,000 values.")

_CODES = MappingProxyType(
    {
        exceptions.NotAuthenticated: ("not_authenticated", "Log in, or send a token: Authorization: Bearer bourse_..."),
        exceptions.MethodNotAllowed: ("method_not_allowed", ""),
        exceptions.NotAcceptable: ("not_acceptable", "There is no such form of this answer."),
        exceptions.UnsupportedMediaType: ("unsupported_media_type", "Send the body as application/json in UTF-8."),
        exceptions.ParseError: ("malformed_body", ""),
        exceptions.NotFound: ("not_found", "There is no such thing here."),
        exceptions.PermissionDenied: ("not_allowed", ""),
        exceptions.AuthenticationFailed: ("not_authenticated", ""),
    }
)


def _of_framework(error: exceptions.APIException) -> Problem:
    code, detail = next((words for kind, words in _CODES.items() if isinstance(error, kind)), ("malformed_request", ""))
    headers = {"WWW-Authenticate": challenge} if (challenge := getattr(error, "auth_header", "")) else {}
    return Problem(error.status_code, code, detail or str(error.detail), headers=headers)


def _field_errors(details: Any, place: str) -> Iterator[FieldError]:
    """Yield the framework's errors, which are lists of texts nested under names and numbers, one after the other."""
    if isinstance(details, Mapping) and "message" in details and "code" in details:
        yield FieldError(place, str(details["code"]), str(details["message"]))
    elif isinstance(details, Mapping):
        for name, inner in details.items():
            at = place if name == "non_field_errors" else _path(place, name)
            yield from _field_errors(inner, at)
    elif isinstance(details, list):
        for index, inner in enumerate(details):
            leaf = isinstance(inner, Mapping) and "message" in inner and "code" in inner
            yield from _field_errors(inner, place if leaf else f"{place}[{index}]")


def _path(place: str, name: Any) -> str:
    return f"{place}[{name}]" if isinstance(name, int) else f"{place}.{name}".lstrip(".")


def _summary(errors: Sequence[FieldError]) -> str:
    first = errors[0]
    more = f" And {len(errors) - 1} more." if len(errors) > 1 else ""
    return f"{first.field}: {first.detail}{more}" if first.field else f"{first.detail}{more}"
