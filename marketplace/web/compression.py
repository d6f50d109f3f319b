"""Compress pages, scripts and styles. What programs read is not compressed: its ETags name exact bytes, and a stream
must not wait in a buffer."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

KINDS = ("text/html", "text/css", "text/javascript", "application/javascript", "image/svg+xml")


class CompressionMiddleware(GZipMiddleware):
    """Compress answers. The tokens of forms are masked anew in every answer, and Django pads what it compresses, so
    that the length of an answer reveals nothing of its content."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        part = response.streaming or response.status_code == 206
        if part or not response.get("Content-Type", "").startswith(KINDS):
            return response
        return super().process_response(request, response)
