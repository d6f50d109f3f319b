"""Signing a bundle with Ed25519. Checking needs no secret, so that somebody who checks cannot forge (decision 0141)."""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PURPOSE = b"audit bundles are signed with this key"


def seed_of(secret: str) -> bytes:
    """Return the private key (32 bytes) with which versions before 1.0 signed under this SECRET_KEY."""
    return hmac.new(secret.encode(), PURPOSE, hashlib.sha256).digest()


def public_key(seed: bytes) -> bytes:
    """Return the public key (32 bytes) of a private one."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the signature (64 bytes) of a message, by RFC 8032, 5.1.6."""
    return Ed25519PrivateKey.from_private_bytes(seed).sign(message)
