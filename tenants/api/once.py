"""`Idempotency-Key`: the same key, address and body from the same person give the same answer, and do a thing once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request

from tenants.access import Refused
from tenants.api.operations import KEY_PATTERN, Operation
from tenants.api.problems import MEDIA_TYPE, Problem, ProblemRaised, problem_of, problem_response
from tenants.models import User
from tenants.requests.uploads import PARAMETER
from tenants.services.answers import Reply, answer_keep, answer_reserve

KEY = re.compile(KEY_PATTERN)
# The answers of services, done or refused, have these statuses, and are kept. A request that is turned away before it
# reaches a service may be repeated.
KEPT_STATUSES = frozenset({200, 201, 202, 204, 409, 422})
INVALID_KEY = Problem(400, "invalid_key", "An Idempotency-Key has 1 to 200 printable ASCII characters.")


def once(
    request: Request, key: str, operation: Operation, do: Callable[[], HttpResponseBase], *, whole: bool
) -> HttpResponseBase:
    """Do what is requested once for a key, and give repetitions the same answer. The answer is kept in the transaction
    of the effect, so there are both or neither, and one of each.

    A request that is not `whole` has transactions of its own, and does no harm when it is repeated; its answer is kept
    after them.
    """
    user = request.user
    if not KEY.fullmatch(key):
        raise ProblemRaised(INVALID_KEY)
    assert isinstance(user, User)  # noqa: S101  the gate has made sure
    digest = _digest(request)
    with transaction.atomic() if whole else nullcontext():
        with transaction.atomic(savepoint=False):  # a failure here undoes the whole transaction anyway
            answer = answer_reserve(user=user, key=key, request_digest=digest)
        if isinstance(answer, Refused):
            return problem_response(problem_of(answer))
        if isinstance(answer, Reply):
            media = MEDIA_TYPE if answer.status >= 400 else "application/json"
            headers = {"Idempotent-Replay": "true"} | ({"Location": answer.location} if answer.location else {})
            return HttpResponse(answer.body, status=answer.status, content_type=media, headers=headers)
        response = do()
        if isinstance(response, HttpResponse) and response.status_code in KEPT_STATUSES:
            answer_keep(
                user=user,
                key=key,
                request_digest=digest,
                status=response.status_code,
                body=_without_secrets(response, operation.secret_fields),
                location=response.headers.get("Location", ""),
                at=timezone.now(),
            )
        return response


def _digest(request: Request) -> str:
    """Return the digest of a request. With the same key, the same digest is a repetition and another one a mistake."""
    parts = [request.method, _address(request), request.data]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=_file_digest).encode()).hexdigest()


def _address(request: Request) -> str:
    """Return the address without the ticket of a long body: whoever sends the same again has asked for another one."""
    if PARAMETER not in request.GET:
        return request.get_full_path()
    query = request.GET.copy()
    del query[PARAMETER]
    return f"{request.path}?{query.urlencode()}"


def _file_digest(file: UploadedFile[Any]) -> str:
    """Return the digest that stands in place of a part that came as a file."""
    digest = hashlib.sha256()
    for piece in file.chunks():
        digest.update(piece)
    return digest.hexdigest()


def _without_secrets(response: HttpResponse, names: Sequence[str]) -> str:
    text = response.content.decode()
    if not names or response.status_code >= 400:
        return text
    return json.dumps(json.loads(text) | dict.fromkeys(names), ensure_ascii=False)
