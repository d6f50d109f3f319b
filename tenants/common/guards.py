"""Check that the rules that the database enforces by itself are still in force.

Each part of the product lists its own rules: the triggers on its tables and the functions that they run. A verification
compares the list with the database, because the owner of a table can switch its rules off, change what they refuse, and
leave everything else as it was. Migrations write new triggers from the same list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.db import connection

OFF = "DR"  # values of pg_trigger.tgenabled: disabled, and only while rows are replicated


@dataclass(frozen=True)
class Guards:
    """The rules of one part. `triggers` are texts as PostgreSQL prints them. `functions` maps each name, which begins
    with `prefix`, to the SHA-256 of the function's source, settings, language and whether it runs with its owner's
    rights. `constraints` maps each name to the definition."""

    prefix: str
    triggers: tuple[str, ...]
    functions: Mapping[str, str]
    constraints: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def by_place(self) -> dict[tuple[str, str], str]:
        """Return each trigger by its table and its name."""
        return {(_word_after("ON", text), _word_after("TRIGGER", text)): text for text in self.triggers}

    @cached_property
    def tables(self) -> list[str]:
        return sorted({table for table, _ in self.by_place})

    def sql(self, *names: str) -> str:
        """Return the SQL that creates these triggers, for a migration."""
        return ";\n".join(text for (_, name), text in self.by_place.items() if name in names)


def append_only(table: str, name: str, refuse: str) -> tuple[str, str]:
    """Return triggers that refuse to change or delete any row of the table, or to empty it. `refuse` is the function
    that raises the error."""
    rows = f"CREATE TRIGGER {name}_append_only BEFORE DELETE OR UPDATE ON {table}"
    return f"{rows} FOR EACH ROW EXECUTE FUNCTION {refuse}()", never_emptied(table, name, refuse)


def never_emptied(table: str, name: str, refuse: str) -> str:
    return (
        f"CREATE TRIGGER {name}_never_emptied BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {refuse}()"
    )


HISTORY = Guards(
    prefix="tenants_",
    triggers=(
        *append_only("tenants_auditentry", "tenants_auditentry", "tenants_audit_refuse"),
        "CREATE TRIGGER tenants_audithead_grows BEFORE DELETE OR UPDATE ON tenants_audithead"
        " FOR EACH ROW EXECUTE FUNCTION tenants_audit_head_grows()",
        never_emptied("tenants_audithead", "tenants_audithead", "tenants_audit_refuse"),
    ),
    functions={
        "tenants_audit_head_grows": "1b0f84637859ca2231a71952b92331c7d4f24bf611e76c8e47372bbd4e8317cc",
        "tenants_audit_refuse": "d03af8fc238d7dce6c6cc1bc42325ff0fab8866318327de8b7d912905bb20450",
        "tenants_kept_answer": "fcd439ff0c57e1cfe43e09ea9266064d3b099fd5742d4f284dfb868cb82a0ee9",
    },
)


@dataclass(frozen=True)
class Flaw:
    """A rule that is not as it should be. `name` is the trigger, function or constraint, and `what` a sentence about
    it."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


def flaws(guards: Guards) -> Iterator[Flaw]:
    """Yield the rules that are missing in the database, switched off or not as we shipped them, and rules that were
    added."""
    yield from _triggers(guards)
    yield from _functions(guards)
    yield from _constraints(guards)
    for name, table in _rows(_REWRITES, guards.tables):
        yield Flaw(name, f"is a rule on {table} that we did not write")
    for (table,) in _rows(_HIDDEN, guards.tables):
        yield Flaw(table, "rows are hidden by a policy that we did not write")
    for (who,) in _rows(_SETTINGS):
        yield Flaw(who, "is set to work with session_replication_role: the triggers do not fire for it")


def _triggers(guards: Guards) -> Iterator[Flaw]:
    triggers = {(table, name): (text, enabled) for table, name, text, enabled in _rows(_TRIGGERS, guards.tables)}
    for place, right in guards.by_place.items():
        table, name = place
        text, enabled = triggers.pop(place, ("", ""))
        if not text:
            yield Flaw(name, f"the trigger on {table} is missing: nothing is refused any more")
        elif enabled in OFF:
            yield Flaw(name, f"the trigger on {table} is switched off: nothing is refused any more")
        elif text != right:
            yield Flaw(name, f"the trigger on {table} was replaced; it is now: {text}")
    for (table, name), (text, _) in triggers.items():
        yield Flaw(name, f"is a trigger on {table} that we did not write: {text}")
    for table, key in _rows(_KEYS_OFF, guards.tables):
        yield Flaw(key, f"the trigger of this foreign key on {table} is switched off")


def _functions(guards: Guards) -> Iterator[Flaw]:
    rows = _rows(_FUNCTIONS, guards.prefix.replace("_", r"\_") + "%")
    for name in sorted(guards.functions.keys() - {name for name, _ in rows}):
        yield Flaw(name, "the function is missing")
    for name, digest in rows:
        if guards.functions.get(name) != digest:
            yield Flaw(name, f"the function is not the one that we shipped; its fingerprint is {digest}")


def _constraints(guards: Guards) -> Iterator[Flaw]:
    constraints = dict(_rows(_CONSTRAINTS, list(guards.constraints)))
    for name, right in guards.constraints.items():
        if name not in constraints:
            yield Flaw(name, "the constraint is missing: nothing is refused any more")
        elif constraints[name] != right:
            yield Flaw(name, f"the constraint was replaced; it is now: {constraints[name]}")


def _word_after(word: str, text: str) -> str:
    words = text.split()
    return words[words.index(word) + 1]


def _rows(sql: str, parameter: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, None if parameter is None else [parameter])
        return cursor.fetchall()


_OF_TABLES = "c.relnamespace = current_schema()::regnamespace AND c.relname = ANY (%s)"
_TRIGGERS = f"""
SELECT c.relname::text, t.tgname::text, pg_get_triggerdef(t.oid, true), t.tgenabled::text
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE {_OF_TABLES} AND NOT t.tgisinternal ORDER BY 1, 2
"""  # noqa: S608
_KEYS_OFF = f"""
SELECT DISTINCT c.relname::text, k.conname::text
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_constraint k ON k.oid = t.tgconstraint
 WHERE {_OF_TABLES} AND t.tgisinternal AND t.tgenabled IN ('D', 'R') ORDER BY 1, 2
"""  # noqa: S608
_REWRITES = f"""
SELECT r.rulename::text, c.relname::text FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
 WHERE {_OF_TABLES} ORDER BY 1, 2
"""  # noqa: S608
_HIDDEN = f"SELECT c.relname::text FROM pg_class c WHERE {_OF_TABLES} AND c.relrowsecurity ORDER BY 1"  # noqa: S608
_SETTINGS = """
SELECT CASE WHEN setrole = 0 THEN 'every role' ELSE 'the role ' || setrole::regrole END
  FROM pg_db_role_setting
 WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
   AND EXISTS (SELECT FROM unnest(setconfig) AS one WHERE one LIKE 'session\\_replication\\_role=%')
"""
# Functions are looked for in all schemas: one in a schema that is searched earlier would be called instead of ours.
_FUNCTIONS = """
SELECT p.proname::text, encode(sha256(convert_to(concat_ws(
           E'\\n', p.prosrc, array_to_string(p.proconfig, ', '), l.lanname, p.prosecdef), 'UTF8')), 'hex')
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.proname LIKE %s ORDER BY 1
"""
_CONSTRAINTS = "SELECT conname::text, pg_get_constraintdef(oid, true) FROM pg_constraint WHERE conname = ANY (%s)"
