"""Template tags that show the demonstration's people on the log-in page, wherever everybody may know their password."""

from __future__ import annotations

from dataclasses import dataclass

from django import template
from django.conf import settings

from scheduling.demo import content
from scheduling.demo.demo import demo_is_loaded

register = template.Library()


@dataclass(frozen=True)
class PersonShown:
    email: str
    name: str
    roles: str  # as part of a sentence


@register.simple_tag
def demo_people() -> list[PersonShown]:
    """Return the people, and nobody where there is no demonstration."""
    if not settings.DEVELOPMENT or not demo_is_loaded():
        return []
    names = {tenant.slug: tenant.name for tenant in content.TENANTS}
    return [
        PersonShown(
            person.email,
            person.name,
            f"{person.staff} over all tenants"
            if person.staff
            else ", ".join(f"{role} of {names[slug]}" for slug, role in person.roles.items()),
        )
        for person in content.PEOPLE
    ]


@register.simple_tag
def demo_password() -> str:
    return content.PASSWORD if settings.DEVELOPMENT else ""
