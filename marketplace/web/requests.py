"""Measure how long each request takes, by its route."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from scheduling.common.measured import REQUEST_SECONDS

NO_ROUTE = "none"  # unknown addresses share one name, since visitors can make up any number of them
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class MeasuringMiddleware:
    """Around nearly all other middleware, whose time is part of the measurement. A stream is measured until
    it begins."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        route = match.view_name if match is not None and match.view_name else NO_ROUTE
        method = request.method if request.method in METHODS else "other"
        labels = (route, method, f"{response.status_code // 100}xx")
        REQUEST_SECONDS.labels(*labels).observe(time.perf_counter() - began)
        return response
