"""Sign calls, so that a receiver can check that a call is ours and new: HMAC-SHA256 over its number, its time and its
body.

Webhooks are signed as https://www.standardwebhooks.com says, so that receivers can use any library for that. Those that
were made before keep the form and the secret that their receivers know.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.crypto import salted_hmac

from scheduling.models import Webhook, WebhookForm
from tenants.common.stored_secrets import oldest_key, reveal

ID_HEADER = "webhook-id"
TIME_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"
BEFORE = "Bourse-"  # in front of each of these headers, in the old form
SECRET_PREFIX = "whsec_"  # noqa: S105  how every secret begins, so that one that went astray is recognised
SECRET_BYTES = 32
PLAIN_HEADERS = {"Content-Type": "application/json", "User-Agent": "Bourse-Webhook/1"}  # of every call


def new_secret(form: str) -> str:
    secret = secrets.token_bytes(SECRET_BYTES)
    return SECRET_PREFIX + (base64.b64encode(secret).decode() if form == WebhookForm.STANDARD else secret.hex())


def secret_of(row: Webhook) -> str:
    """Return the webhook's secret. Raises `UnreadableSecret` where no SECRET_KEY that we have reads it."""
    if row.secret:
        return reveal(row.secret)
    digest = salted_hmac("bourse.webhook.secret", row.salt, secret=oldest_key(), algorithm="sha256")
    return SECRET_PREFIX + digest.hexdigest()


def standard_signature(secret: str, delivery: str, timestamp: int, body: bytes) -> str:
    """Return `v1,` and the signature in base64. The key is what is in base64 after the secret's prefix."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    digest = hmac.new(key, f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def signature_of_before(secret: str, timestamp: int, body: bytes) -> str:
    """Return `v1=` and 64 hexadecimal digits. The whole secret, prefix included, is the key."""
    return "v1=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def headers_of(*, form: str, secret: str, delivery_id: int, body: bytes, at: datetime) -> dict[str, str]:
    """Return the headers of a call. `ID_HEADER` is the same for every try of a delivery, so that a receiver knows a
    repetition."""
    number, timestamp = str(delivery_id), int(at.timestamp())
    headers = dict(PLAIN_HEADERS)
    if form == WebhookForm.STANDARD:
        proof = standard_signature(secret, number, timestamp, body)
        return headers | {ID_HEADER: number, TIME_HEADER: str(timestamp), SIGNATURE_HEADER: proof}
    proof = signature_of_before(secret, timestamp, body)
    signed = {ID_HEADER: number, TIME_HEADER: str(timestamp), SIGNATURE_HEADER: proof}
    return headers | {BEFORE + name.title(): value for name, value in signed.items()}


def body_of(document: Mapping[str, Any], tenant_slug: str) -> bytes:
    return json.dumps({"tenant": tenant_slug, **document}, ensure_ascii=False, separators=(",", ":")).encode()
