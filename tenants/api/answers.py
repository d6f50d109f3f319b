"""Answers that are no errors: JSON with a strong ETag, 304 where nothing changed, CSV as a stream."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from tenants.common.downloads import csv_download
from tenants.models import Tenant
from tenants.scoping import pieces_in_scope


def json_response(data: Any, status: int = 200) -> HttpResponse:
    content = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return HttpResponse(content, status=status, content_type="application/json")


def fresh_or_unchanged(request: HttpRequest | Request, response: HttpResponseBase) -> HttpResponseBase:
    """Give a read that answers 200 its ETag. A caller that has this ETag already gets 304 without the body."""
    if request.method not in ("GET", "HEAD") or response.status_code != 200 or not isinstance(response, HttpResponse):
        return response
    etag = f'"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    response.headers["ETag"] = etag
    if _names(request.headers.get("If-None-Match", ""), etag):
        response.status_code, response.content = 304, b""
        del response.headers["Content-Type"]
    return response


def _names(header: str, etag: str) -> bool:
    """Return whether the header names the tag. A proxy may have weakened it, which for reading is the same."""
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or etag in tags


def csv_response(request: Request, lines: Iterator[bytes], *, name: str, tenant: Tenant | None) -> HttpResponseBase:
    lines = pieces_in_scope(lines, tenant) if tenant is not None else lines
    return csv_download(request._request, name, lines)
