"""Which transaction wrote a row, so that a process that has read rows before can ask for those written since."""

from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

BEFORE_ALL = models.Value("0")  # the value in rows from before there was a trigger


class TransactionField(models.Field):  # type: ignore[type-arg]  # the class takes no type arguments at run time
    """A transaction's number, which PostgreSQL never gives twice. Only a trigger writes it."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "xid8"
