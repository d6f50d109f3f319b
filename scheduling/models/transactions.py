"""Which transaction wrote a row, so that whoever has read it before can ask for what was written since."""

from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

BEFORE_ALL = models.Value("0")  # of rows from before there was a trigger


class TransactionField(models.Field):  # type: ignore[type-arg]  # it takes none when it runs
    """A transaction's number, which PostgreSQL gives once and never again. A trigger writes it, and nobody else."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "xid8"
