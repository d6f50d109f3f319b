"""Serve static files by whitenoise, whole instead of in pieces.

Whitenoise streams files with a synchronous iterator. Under ASGI Django then reads the whole file anyway, in a thread,
and logs a complaint. Our files are small, and each is compressed beforehand; so they are simply sent.
"""

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        file_response = static_file.get_response(request.method, request.META)
        content = b""
        if file_response.file is not None:
            with file_response.file:
                content = file_response.file.read()
        response = HttpResponse(content, status=int(file_response.status))
        del response["content-type"]  # the headers contain the right one
        for name, value in file_response.headers:
            response[name] = value
        return response
