"""After a change of SECRET_KEY: store every secret under the new key, so that the old one can be removed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from datetime import datetime

from django.db import transaction

from scheduling.audit.bundle import signing_keys_carry, signing_seed
from scheduling.catalogue.secrets import secrets_carry as program_secrets_carry
from scheduling.webhooks.changes import webhook_secrets_carry
from scheduling.webhooks.chats import chat_secrets_carry
from tenants import history
from tenants.access import access_of_system
from tenants.common.stored_secrets import Carried, UnreadableSecret


def secrets_carry(*, at: datetime) -> dict[str, Carried]:
    """Store the secrets of each kind anew, and count them by kind. It may run again and again, beside everything else;
    the history notes what moved."""
    with suppress(UnreadableSecret):  # it is counted below
        signing_seed(at=at)  # makes the key row if there is none, from the key that signed before there were rows
    with transaction.atomic():
        carried_counts = {
            "webhooks": webhook_secrets_carry(),
            "signing_keys": signing_keys_carry(),
            "program_secrets": program_secrets_carry(),
            "chat_addresses": chat_secrets_carry(),
        }
        if any(one.carried for one in carried_counts.values()):
            by, after = access_of_system("keys"), {name: asdict(one) for name, one in carried_counts.items()}
            history.append(at=at, by=by, action="secrets_carry", subject="installation", after=after)
    return carried_counts
