"""The keys that sign bundles. One signs at a time, and none of them is lost when SECRET_KEY changes. The public halves
stay published for good, so that a bundle of any day can be checked; the history names each of them."""

from __future__ import annotations

import secrets
from datetime import datetime

from django.db import transaction

from scheduling.audit.bundle.signature import public_key, seed_of
from scheduling.models import SigningKey
from tenants import history
from tenants.access import Access, Refused, access_of_system
from tenants.common.stored_secrets import Carried, oldest_key, reveal, secret_state, store, stored_anew
from tenants.roles import Permission
from tenants.services.members import NOT_ALLOWED, reason_refusal

MAKE, RETIRE = "signing_key_make", "signing_key_retire"


class ForeignSecret(Exception):
    """The private half that is stored does not belong to the public one."""


def signing_seed(*, at: datetime) -> bytes:
    """Return today's private key (32 bytes). The first one is the key with which versions before 1.0 signed."""
    row = SigningKey.objects.filter(retired_at=None).first() or _first(at)
    seed = bytes.fromhex(reveal(row.secret))
    if public_key(seed).hex() != row.public_key:
        raise ForeignSecret(f"The private half of the key {row.public_key} was exchanged.")
    return seed


def signing_keys() -> list[SigningKey]:
    """Return the public halves, newest first."""
    return list(SigningKey.objects.order_by("-made_at"))


@transaction.atomic
def signing_key_renew(*, by: Access, reason: str, at: datetime) -> SigningKey | Refused:
    """Sign bundles with a new key from now on. Earlier bundles are still checked with the key that signed them."""
    if not by.allows(Permission.POLICIES_CHANGE):
        return NOT_ALLOWED
    if refusal := reason_refusal(reason):
        return refusal
    for row in SigningKey.objects.select_for_update().filter(retired_at=None):
        row.retired_at = at
        row.save(update_fields=["retired_at"])
        history.append(at=at, by=by, action=RETIRE, subject=_subject(row), reason=reason)
    seed = secrets.token_bytes(32)
    key = SigningKey.objects.create(public_key=public_key(seed).hex(), secret=store(seed.hex()), made_at=at)
    history.append(at=at, by=by, action=MAKE, subject=_subject(key), reason=reason)
    return key


@transaction.atomic
def _first(at: datetime) -> SigningKey:
    """Make the first key. Two processes that do so at once make the same one, and the history has one entry of it."""
    seed = seed_of(oldest_key())
    columns = {"secret": store(seed.hex()), "made_at": at}
    row, is_new = SigningKey.objects.get_or_create(public_key=public_key(seed).hex(), defaults=columns)
    if is_new:
        history.append(at=at, by=access_of_system("keys"), action=MAKE, subject=_subject(row))
    return row


@transaction.atomic
def signing_keys_carry() -> Carried:
    """Store under today's SECRET_KEY the private halves that are stored under an older one. That of a retired key may
    be lost: it signs nothing more."""
    rows = SigningKey.objects.select_for_update().order_by("made_at")
    return stored_anew(row for row in rows if row.retired_at is None or secret_state(row.secret) != "unreadable")


def _subject(row: SigningKey) -> str:
    return f"signing key {row.public_key}"
