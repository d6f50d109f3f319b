"""Reads that come with nearly every call of a program: the ORM turns each into SQL once, and not for every call.

Turning one into SQL takes the ORM four times as long as the database needs to answer. What is read, and in which scope,
does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from copy import copy
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model, QuerySet
from django.db.models.query import ModelIterable

from tenants.scoping import scope, scope_current

Row = TypeVar("Row", bound=Model)
_SOMEBODY = -7_201_955_183_426_707  # it stands for the scope's tenant while a read is turned into SQL


class RepeatedRead(Generic[Row]):
    """A read of whole rows of a model. `rows` makes the queryset from named values. `examples` has a value for each
    name, of the kind that will come, and that occurs nowhere else in the query. `scoped` means that it reads the open
    tenant."""

    def __init__(self, rows: Callable[..., QuerySet[Row]], *, scoped: bool, **examples: Any) -> None:
        self._rows, self._scoped, self._examples = rows, scoped, examples
        self._statement: tuple[Any, str, tuple[Callable[[Any], Any], ...]] | None = None

    def __call__(self, **values: Any) -> list[Row]:
        tenant_id = scope_current().tenant_id if self._scoped else None
        if self._scoped and tenant_id is None:
            return list(self._rows(**values))  # rows of every tenant: another query, and a rare one
        if self._statement is None:
            self._statement = Context().run(self._say)
        compiler, sql, parts = self._statement
        arguments = values | {"": tenant_id}
        ours = copy(compiler)
        ours.connection = connections[DEFAULT_DB_ALIAS]  # each thread has its own
        ours.as_sql = lambda *_, **__: (sql, tuple(part(arguments) for part in parts))
        query = SimpleNamespace(get_compiler=lambda *_, **__: ours)
        queryset: Any = SimpleNamespace(db=DEFAULT_DB_ALIAS, query=query, _known_related_objects={})
        return list(ModelIterable(queryset))

    def _say(self) -> tuple[Any, str, tuple[Callable[[Any], Any], ...]]:
        with scope(_SOMEBODY):
            query = self._rows(**self._examples).query
        compiler = query.get_compiler(DEFAULT_DB_ALIAS)
        sql, parameters = compiler.as_sql()
        names = {(type(value), value): name for name, value in self._examples.items()} | {(int, _SOMEBODY): ""}
        # The database adapter wraps whole numbers in kinds of its own, so the type is taken as int here.
        places = [names.get((int if isinstance(value, int) else type(value), value)) for value in parameters]
        if not set(self._examples) <= set(places) or self._scoped != ("" in places):
            raise RuntimeError(f"not every value of a repeated read was found again: {sql} {parameters}")
        converters = compiler.get_converters([column for column, *_ in compiler.select])
        compiler.get_converters = lambda _: converters
        return compiler, sql, tuple(map(_part, places, parameters))


def _part(name: str | None, constant: Any) -> Callable[[dict[str, Any]], Any]:
    if name is None:
        return lambda _: constant
    if isinstance(constant, int) and type(constant) is not int:
        return lambda values: type(constant)(values[name])
    return lambda values: values[name]
