"""After a change of SECRET_KEY: every stored secret under the new one, so that the old one can go."""

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
from tenants.stored_secrets import Carried, UnreadableSecret


def secrets_carry(*, at: datetime) -> dict[str, Carried]:
    """By what they are of. May be done again and again, beside everything else; the history tells of what moved."""
    with suppress(UnreadableSecret):  # which is counted below
        signing_seed(at=at)  # so that there is one, made of the key that signed before there were any
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
