"""Whose an e-mail address is. Whoever proves it has it, whatever other accounts say that name it without proof."""

from __future__ import annotations

from collections.abc import Collection

from allauth.account.models import EmailAddress
from django.db.models import F

from tenants.models import User


def address_lock(email: str) -> None:
    """Lock all that name this address, so that those who confirm it at once come one after the other."""
    list(EmailAddress.objects.select_for_update().filter(email=email).order_by("pk"))


def additions_forget(emails: Collection[str]) -> None:
    """Take these addresses out of the accounts to which they were added without proof."""
    EmailAddress.objects.filter(email__in=emails, verified=False).exclude(user__email=F("email")).delete()


def beginner_close(email: str, owner: User) -> None:
    """Close the account that began with the address which its owner has just confirmed for another account. Nobody
    could log in to it, since nobody had confirmed the address; now it has one that is nobody's."""
    for beginner in User.objects.filter(email=email).exclude(pk=owner.pk).exclude(emailaddress__verified=True):
        EmailAddress.objects.filter(user=beginner).delete()
        beginner.email, beginner.is_active = f"never-confirmed-{beginner.pk}@invalid", False
        beginner.save(update_fields=["email", "is_active"])
