"""The findings of an audit, and how its checks read the book."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connection

MOST = 50  # findings listed per check


@dataclass(frozen=True)
class LedgerFinding:
    check: str
    culprit: str
    detail: str

    def __str__(self) -> str:
        return f"{self.check}: {self.culprit}: {self.detail}"


def rows_of(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
