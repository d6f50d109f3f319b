"""Signing a bundle with Ed25519: who checks needs no secret, so that who checks cannot forge (decision 0141)."""

# mypy: allow-untyped-calls

from __future__ import annotations

import hashlib
import hmac

from scheduling.services.bundle import check

PURPOSE = b"audit bundles are signed with this key"


def seed_of(secret: str) -> bytes:
    """(32 bytes) the private key that belongs to an installation's secret."""
    return hmac.new(secret.encode(), PURPOSE, hashlib.sha256).digest()


def public_key(seed: bytes) -> bytes:
    return check.point_bytes(check.point_times(_scalar(seed)[0], check.BASE))


def sign(seed: bytes, message: bytes) -> bytes:
    """64 bytes (RFC 8032, 5.1.6). Not in constant time: for an operator's command, never for a stranger's request."""
    scalar, prefix = _scalar(seed)
    nonce = check.number_of(prefix, message)
    commitment = check.point_bytes(check.point_times(nonce, check.BASE))
    answer = (nonce + check.number_of(commitment, public_key(seed), message) * scalar) % check.ORDER
    return commitment + answer.to_bytes(32, "little")


def _scalar(seed: bytes) -> tuple[int, bytes]:
    wide = hashlib.sha512(seed).digest()
    number = int.from_bytes(wide[:32], "little")
    return number & ~7 & (2**254 - 1) | 2**254, wide[32:]
