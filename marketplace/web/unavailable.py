"""Answer 503 with Retry-After if the database, Redis or a disk does not answer, or if a request took too long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from django.core.signals import got_request_exception
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import loader

from marketplace.logs import log_unavailable
from tenants.api.problems import problem_response, unavailable_problem
from tenants.common.failures import Unavailable, unavailable_of

FOR_PROGRAMS = ("/api/", "/metrics")


class UnavailableMiddleware:
    """Turns such errors into 503. Errors of views reach it directly. Those of other middleware, such as the session's,
    have become a page of Django's by then; their cause was noted on the request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        unavailable: Unavailable | None = getattr(request, "unavailable", None)
        return (
            unavailable_response(request.path_info, unavailable)
            if unavailable and response.status_code == 500
            else response
        )

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        unavailable = unavailable_of(error)
        if unavailable is None:
            return None
        log_unavailable(request.path_info, unavailable, error)
        return unavailable_response(request.path_info, unavailable)


def unavailable_response(path: str, unavailable: Unavailable) -> HttpResponse:
    """Return the answer without any query or request."""
    if path.startswith(FOR_PROGRAMS):
        return problem_response(unavailable_problem(unavailable))
    page = loader.render_to_string("503.html", {"unavailable": unavailable})
    headers = {"Retry-After": str(unavailable.seconds), "Cache-Control": "no-store"}
    return HttpResponse(page, status=503, headers=headers)


def _note(request: HttpRequest | None = None, **_: Any) -> None:
    if request is not None and (unavailable := unavailable_of(sys.exc_info()[1])) is not None:
        request.unavailable = unavailable  # type: ignore[attr-defined]


got_request_exception.connect(_note)
