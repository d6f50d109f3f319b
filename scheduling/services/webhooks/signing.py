"""What proves to a receiver that a call is ours and new: HMAC-SHA256 over the time, a point, and the body."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.crypto import salted_hmac

ID_HEADER = "Bourse-Webhook-Id"
TIME_HEADER = "Bourse-Webhook-Timestamp"
SIGNATURE_HEADER = "Bourse-Webhook-Signature"
SECRET_PREFIX = "whsec_"  # noqa: S105  how every secret begins, so that one that went astray is recognised


def secret_of(salt: str) -> str:
    """Made of the installation's key: whoever has the database alone does not have it."""
    return SECRET_PREFIX + salted_hmac("bourse.webhook.secret", salt, algorithm="sha256").hexdigest()


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """`v1=` and 64 hexadecimal digits. The whole secret, prefix included, is the key."""
    return "v1=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def headers_of(*, secret: str, delivery_id: int, body: bytes, at: datetime) -> dict[str, str]:
    """`ID_HEADER` is the same for every try of a delivery, so that a receiver knows a repetition."""
    timestamp = int(at.timestamp())
    return {
        "Content-Type": "application/json",
        "User-Agent": "Bourse-Webhook/1",
        ID_HEADER: str(delivery_id),
        TIME_HEADER: str(timestamp),
        SIGNATURE_HEADER: signature(secret, timestamp, body),
    }


def body_of(document: Mapping[str, Any], tenant_slug: str) -> bytes:
    return json.dumps({"tenant": tenant_slug, **document}, ensure_ascii=False, separators=(",", ":")).encode()
