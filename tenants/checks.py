"""A system check: the product does not start with a tenant-owned model that could be read around its scope."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, register
from django.db import models

from tenants.scoping import ScopedManager, TenantOwned


@register()
def tenant_owned_models_are_closed(**_: Any) -> list[CheckMessage]:
    owned = [model for model in apps.get_models() if issubclass(model, TenantOwned)]
    return [problem for model in owned for problem in (*_managers(model), *_reverse_sides(model))]


def _managers(model: type[models.Model]) -> list[CheckMessage]:
    used = [*model._meta.managers, model._base_manager]
    if all(isinstance(manager, ScopedManager) for manager in used):
        return []
    hint = "Inherit Meta from TenantOwned.Meta and add no plain manager."
    return [Error("A tenant-owned model has a manager without the scope.", hint=hint, obj=model, id="tenants.E001")]


def _reverse_sides(model: type[models.Model]) -> list[CheckMessage]:
    """Report foreign keys to global models that can be followed backwards: such a join to tenants' rows has
    no filter."""
    return [
        Error(
            f"{field.name} can be followed backwards from {field.related_model._meta.label}.",
            hint='Set related_name="+".',
            obj=model,
            id="tenants.E002",
        )
        for field in model._meta.get_fields()
        if isinstance(field, models.ForeignKey)
        and isinstance(field.related_model, type)  # Django itself reports a name that leads nowhere
        and not issubclass(field.related_model, TenantOwned)
        and not field.remote_field.hidden
    ]
