"""`manage.py migrate`: Django's, by the role that owns the tables; then the serving role gets its rights to them."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate

from marketplace.rights import rights_give, serving_role
from tenants.ownership import as_owner, has_owner


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        role = serving_role()
        with as_owner():
            super().handle(*args, **options)
            if has_owner():
                rights_give(role)
