"""Reads that come with nearly every call of a program, or with every slot of a pool: the ORM turns each into SQL once,
and not every time.

Turning one into SQL takes the ORM four times as long as the database needs to answer. What is read, and in which scope,
does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context
from copy import copy
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet
from django.db.models.query import ModelIterable, ValuesListIterable

from tenants.scoping import scope, scope_current, scope_disabled

Row = TypeVar("Row")
_SOMEBODY = -7_201_955_183_426_707  # it stands for the scope's tenant while a read is turned into SQL


class Whose(Enum):
    """Whose rows a read finds."""

    ONE = "the open tenant's"
    ALL = "all tenants'"
    NONE = "no tenant's"


@dataclass(frozen=True)
class _Statement:
    """What is known of a read once it was turned into SQL. `parts` are its parameters, each made from the values."""

    iterable: type[Any]
    compiler: Any
    sql: str
    parts: tuple[Callable[[Mapping[str, Any]], Any], ...]


class RepeatedRead(Generic[Row]):
    """A read of whole rows of a model, or of some of its columns as tuples (`values_list`).

    `rows` makes the queryset from named values. `examples` has a value for each name, of the kind that will come.
    Each value has to stand in the query as it is, and nothing may be made from it. `of` says whose rows are read."""

    def __init__(self, rows: Callable[..., QuerySet[Any, Row]], *, of: Whose, **examples: int | float | str) -> None:
        self._rows, self._of, self._examples = rows, of, examples
        self._statement: _Statement | None = None

    def __call__(self, **values: Any) -> list[Row]:
        tenant_id = None if self._of is Whose.NONE else scope_current().tenant_id
        if self._of is not Whose.NONE and (tenant_id is None) is (self._of is Whose.ONE):
            return list(self._rows(**values))  # in the other kind of scope: another query, and a rare one
        if self._statement is None:
            self._statement = Context().run(self._say)
        statement = self._statement
        arguments = values | {"": tenant_id}
        ours = copy(statement.compiler)
        ours.connection = connections[DEFAULT_DB_ALIAS]  # each thread has its own
        ours.as_sql = lambda *_, **__: (statement.sql, tuple(part(arguments) for part in statement.parts))
        query = SimpleNamespace(get_compiler=lambda *_, **__: ours)
        queryset: Any = SimpleNamespace(db=DEFAULT_DB_ALIAS, query=query, _known_related_objects={})
        return list(statement.iterable(queryset))

    def _say(self) -> _Statement:
        iterable, compiler, sql, parameters = self._compiled(self._examples)
        if iterable not in (ModelIterable, ValuesListIterable):
            raise RuntimeError(f"a repeated read has rows or tuples, and not what {iterable.__name__} makes")
        names = {(type(value), value): name for name, value in self._examples.items()} | {(int, _SOMEBODY): ""}
        # The database adapter wraps whole numbers in kinds of its own, so the type is taken as int here.
        places = [names.get((int if isinstance(value, int) else type(value), value)) for value in parameters]
        if not set(self._examples) <= set(places) or (self._of is Whose.ONE) != ("" in places):
            raise RuntimeError(f"not every value of a repeated read was found again: {sql} {parameters}")
        others = {name: _another(value) for name, value in self._examples.items()}
        *_, sql_of_others, parameters_of_others = self._compiled(others)
        both = zip(places, parameters, parameters_of_others, strict=True)
        constants = [(one, other) for place, one, other in both if place is None]
        if sql != sql_of_others or any(one != other for one, other in constants):
            raise RuntimeError(f"a repeated read reckons with a value of it: {sql} {parameters}")
        converters = compiler.get_converters([column for column, *_ in compiler.select])
        compiler.get_converters = lambda _: converters
        return _Statement(iterable, compiler, sql, tuple(map(_part, places, parameters)))

    def _compiled(self, examples: Mapping[str, int | float | str]) -> tuple[type[Any], Any, str, tuple[Any, ...]]:
        with scope_disabled("a read is turned into SQL") if self._of is Whose.ALL else scope(_SOMEBODY):
            queryset = self._rows(**examples)
        compiler: Any = queryset.query.get_compiler(DEFAULT_DB_ALIAS)
        return queryset._iterable_class, compiler, *compiler.as_sql()


def _another(example: int | float | str) -> int | float | str:
    return f"{example}, and another" if isinstance(example, str) else example - 1_000_003


def _part(name: str | None, constant: Any) -> Callable[[Mapping[str, Any]], Any]:
    if name is None:
        return lambda _: constant
    if isinstance(constant, int) and type(constant) is not int:
        return lambda values: type(constant)(values[name])
    return lambda values: values[name]
