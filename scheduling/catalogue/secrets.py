"""The operator's store of secrets: programs name them, processes of their jobs get them, and no page shows one.

A value is encrypted as all stored secrets are (`tenants.common.stored_secrets`), with the name that it belongs to, so
that no value can be put under another name. The history has who set which name for which tenants, never a value or its
digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from scheduling.models import OperatorSecret
from scheduling.programs.catalogue import LONGEST_WORD, SLUG, Program
from scheduling.programs.fields import FieldRefusal, is_kept
from tenants import history
from tenants.access import Access, Refused
from tenants.common.limits import LimitOverAll, limit_lock
from tenants.common.stored_secrets import Carried, UnreadableSecret, reveal, store, stored_anew
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.services.members import NOT_ALLOWED, reason_refusal, strangers_refusal

MOST_SECRETS = 500
UNKNOWN_SECRET = Refused("unknown_secret", "The operator's store has no such secret.")
TOO_MANY_SECRETS = Refused("too_many_secrets", f"The operator's store has at most {MOST_SECRETS} secrets.")
INVALID_SECRET = Refused(
    "invalid_secret",
    "A name begins with a letter a-z, then a-z, 0-9 and -, 40 at most; a value has 1 to "
    f"{LONGEST_WORD:,} characters and no NUL.",
)


@transaction.atomic
def secret_set(
    *, name: str, value: str, tenants: Sequence[str] | None, by: Access, at: datetime, reason: str
) -> OperatorSecret | Refused:
    """Set a secret's value, also if there is one of this name, and the tenants in whose jobs programs may name it; None
    means all."""
    if refusal := _may_change(by, reason):
        return refusal
    if not SLUG.fullmatch(name) or not 1 <= len(value) <= LONGEST_WORD or not is_kept(value):
        return INVALID_SECRET
    slugs = None if tenants is None else sorted(set(tenants))
    if refusal := strangers_refusal(slugs or []):
        return refusal
    limit_lock(LimitOverAll.SECRETS)
    if OperatorSecret.objects.exclude(name=name).count() >= MOST_SECRETS:
        return TOO_MANY_SECRETS
    new_row = OperatorSecret(name=name, tenants=slugs, secret="", set_at=at)
    OperatorSecret.objects.bulk_create([new_row], ignore_conflicts=True)
    row = OperatorSecret.objects.select_for_update(no_key=True).get(name=name)
    row.secret, row.tenants, row.set_at, row.removed_at = _sealed(name, value), slugs, at, None
    row.save(update_fields=["secret", "tenants", "set_at", "removed_at"])
    _remember("secret_set", name, by, at, reason, {"tenants": slugs})
    return row


@transaction.atomic
def secret_remove(*, name: str, by: Access, at: datetime, reason: str) -> OperatorSecret | Refused:
    """Remove a secret's value. Jobs whose programs name it are not started any more, and are refunded."""
    if refusal := _may_change(by, reason):
        return refusal
    row = OperatorSecret.objects.select_for_update(no_key=True).filter(name=name, removed_at=None).first()
    if row is None:
        return UNKNOWN_SECRET
    row.secret, row.removed_at = "", at
    row.save(update_fields=["secret", "removed_at"])
    _remember("secret_remove", name, by, at, reason, None)
    return row


def secrets_listed() -> list[OperatorSecret]:
    """Return the secrets by name, without their values: for which tenants each is, and since when."""
    return list(OperatorSecret.objects.filter(removed_at=None).defer("secret").order_by("name"))


def secret_names(tenant_slug: str) -> list[str]:
    """Return the names of the secrets that programs may name in jobs of this tenant."""
    return [row.name for row in secrets_listed() if row.tenants is None or tenant_slug in row.tenants]


def secret_refusals(program: Program, tenant: Tenant | None) -> list[FieldRefusal]:
    """Return which of a program's secrets its owner may not name. The operator's programs may name every secret;
    whether a job's tenant may have it is checked when the job starts."""
    if not program.secrets:
        return []
    names = {row.name for row in secrets_listed()} if tenant is None else set(secret_names(tenant.slug))
    return [
        FieldRefusal(f"secrets.{variable}", f"{name} is no secret of the operator's store that you may name")
        for variable, name in program.secrets
        if name not in names
    ]


def secrets_opened(program: Program, tenant_slug: str) -> tuple[tuple[str, str], ...] | str:
    """Return each variable of a program with its secret value, for a job of this tenant; or a sentence why one cannot
    be had."""
    if not program.secrets:
        return ()
    rows = {row.name: row for row in OperatorSecret.objects.filter(name__in=[name for _, name in program.secrets])}
    opened = []
    for variable, name in program.secrets:
        row = rows.get(name)
        if row is None or row.removed_at is not None:
            return f"The operator's store has no secret {name!r}."
        if row.tenants is not None and tenant_slug not in row.tenants:
            return f"The secret {name!r} is not for this tenant."
        value = _opened(name, row.secret)
        if value is None:
            return (
                f"The secret {name!r} cannot be opened with this installation's key: the operator has to set it anew."
            )
        opened.append((variable, value))
    return tuple(opened)


def secrets_carry() -> Carried:
    """Store values anew under today's SECRET_KEY that are stored under an older one."""
    return stored_anew(OperatorSecret.objects.select_for_update(no_key=True).filter(removed_at=None).order_by("pk"))


def _sealed(name: str, value: str) -> str:
    return store(f"{name}\n{value}")


def _opened(name: str, sealed: str) -> str | None:
    """Return a secret's value; None if it was encrypted with a key that is not here, or under another name."""
    try:
        under, _, value = reveal(sealed).partition("\n")
    except UnreadableSecret:
        return None
    return value if under == name else None


def _may_change(by: Access, reason: str) -> Refused | None:
    if by.tenant is not None or not by.allows(Permission.PROGRAMS_OFFER):
        return NOT_ALLOWED
    return reason_refusal(reason)


def _remember(action: str, name: str, by: Access, at: datetime, reason: str, after: history.Values | None) -> None:
    history.append(at=at, by=by, tenant=None, action=action, subject=f"secret {name}", reason=reason, after=after)
