"""One id for all that follows from a request: its answer, its log lines, and those of the tasks that it sends.

A proxy or a program may give the id (`X-Request-ID`); otherwise a random one is made. Log lines have it as `request`,
those of tasks too (`marketplace.celery`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from structlog.contextvars import bound_contextvars

HEADER = "X-Request-ID"
FORM = re.compile(r"[A-Za-z0-9._-]{8,64}")  # a caller may choose it, and it is written into the log
IN_LOG = "request"


class RequestIdMiddleware:
    """The outermost middleware, so that everything that the others log has the id."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        header = request.headers.get(HEADER, "")
        request_id = header if FORM.fullmatch(header) else secrets.token_hex(16)
        with bound_contextvars(**{IN_LOG: request_id}):
            response = self.get_response(request)
        response.headers[HEADER] = request_id
        return response
