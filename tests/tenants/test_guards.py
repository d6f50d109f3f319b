"""Whoever owns the database can switch off, drop or replace what guards it; the verification concerned says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from marketplace.upkeep.rights import TABLES
from scheduling.audit.verification import intervals_verify
from scheduling.models.guards import GUARDS as MARKET
from tenants import history
from tenants.common.guards import HISTORY, Guards, flaws
from tenants.ledger.audit import verify
from tenants.ledger.guards import GUARDS as LEDGER
from tenants.scoping import scope_disabled
from tests.database import overrule, run, undone

pytestmark = pytest.mark.django_db


def by_the_ledger() -> dict[str, str]:
    with scope_disabled("the audit reads the whole book"):
        return {finding.culprit: finding.detail for finding in verify().findings}


def by_the_history() -> dict[str, str]:
    verdict = history.verify()
    return {} if isinstance(verdict, history.VerifiedHistory) else {flaw.name: flaw.what for flaw in verdict.findings}


def by_the_intervals() -> dict[str, str]:
    findings = intervals_verify(pool_ids=[]).findings
    return {finding.where.removeprefix("the rules of the database, "): finding.what for finding in findings}


WATCHED: dict[str, tuple[Guards, Callable[[], dict[str, str]]]] = {
    "verify_ledger": (LEDGER, by_the_ledger),
    "verify_history": (HISTORY, by_the_history),
    "verify_intervals": (MARKET, by_the_intervals),
}
PLACES = [(command, *place) for command, (guards, _) in WATCHED.items() for place in guards.by_place]
FUNCTIONS = [(command, name) for command, (guards, _) in WATCHED.items() for name in guards.functions]


def test_every_trigger_and_function_of_the_product_is_listed() -> None:
    """A migration that adds one or changes a function says so in the list; this prints what is to be written there."""
    assert [str(flaw) for guards, _ in WATCHED.values() for flaw in flaws(guards)] == []
    there = run(
        "SELECT relname, tgname FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
        " WHERE NOT tgisinternal AND relnamespace = 'public'::regnamespace"
    )
    assert set(there) == {place for guards, _ in WATCHED.values() for place in guards.by_place}
    functions = {name for (name,) in run("SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace")}
    assert functions == {name for _, name in FUNCTIONS}


def test_whatever_only_grows_is_kept_from_the_serving_role_too() -> None:
    """One list says which tables only grow; the list of rights agrees with it."""
    refusing = ("scheduling_append_only()", "tenants_audit_refuse()", "ledger_refuse_change()")
    tables = {
        table
        for guards, _ in WATCHED.values()
        for (table, _), text in guards.by_place.items()
        if " BEFORE DELETE OR UPDATE " in text and text.endswith(refusing)
    }
    assert len(tables) > 12
    by_owner_alone = {"scheduling_intervalarchive": ("SELECT",)}  # which is written where bytes leave the database
    assert {table: TABLES[table] for table in tables} == dict.fromkeys(tables, ("SELECT", "INSERT")) | by_owner_alone


def idle(text: str) -> str:
    """The same trigger, which never fires."""
    before, execute, function = text.partition(" EXECUTE FUNCTION ")
    before = before.replace("WHEN (", "WHEN (false AND ") if "WHEN" in before else f"{before} WHEN (false)"
    return f"{before}{execute}{function}"


@pytest.mark.parametrize(("command", "table", "name"), PLACES)
def test_a_trigger_that_was_dropped_switched_off_or_replaced_is_named(command: str, table: str, name: str) -> None:
    guards, look = WATCHED[command]
    changes = {
        f"DROP TRIGGER {name} ON {table}": "is missing",
        f"ALTER TABLE {table} DISABLE TRIGGER {name}": "is switched off",
        f"ALTER TABLE {table} ENABLE REPLICA TRIGGER {name}": "is switched off",
        f"DROP TRIGGER {name} ON {table}; {idle(guards.by_place[table, name])}": "was replaced",
    }
    for change, sentence in changes.items():
        with undone():
            overrule(change)
            assert sentence in look()[name], change
    assert look() == {}


@pytest.mark.parametrize(("command", "name"), FUNCTIONS)
def test_a_function_that_was_replaced_is_named(command: str, name: str) -> None:
    _, look = WATCHED[command]
    columns = "pg_get_functiondef(oid), pg_get_function_identity_arguments(oid)"
    ((whole, arguments),) = run(f"SELECT {columns} FROM pg_proc WHERE proname = %s", [name])  # noqa: S608
    changes = [
        whole.replace("$function$", "$function$ ", 1),
        f"ALTER FUNCTION {name}({arguments}) SET search_path = elsewhere",
        f"ALTER FUNCTION {name}({arguments}) SECURITY DEFINER",
    ]
    for change in changes:
        with undone():
            overrule(change)
            assert "is not the one that we shipped" in look()[name], change
    with undone():
        overrule(f"ALTER FUNCTION {name}({arguments}) RENAME TO elsewhere")
        if name not in ("ledger_digest", "ledger_line", "ledger_seal_digest", "ledger_sheet", "ledger_sheet_of_day"):
            assert "is missing" in look()[name]  # the audit itself calls these, and does not get so far


def test_a_function_of_the_same_name_that_would_be_called_first_is_named() -> None:
    overrule("CREATE FUNCTION ledger_line(account_id int, amount bigint) RETURNS text LANGUAGE sql AS $$ SELECT '' $$")
    assert "is not the one that we shipped" in by_the_ledger()["ledger_line"]


MORE = {
    "CREATE TRIGGER mine BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()": (
        "mine",
        "a trigger on {table} that we did not write",
    ),
    "CREATE RULE mine AS ON INSERT TO {table} DO INSTEAD NOTHING": ("mine", "a rule on {table} that we did not write"),
    "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY": ("{table}", "rows are hidden"),
    "ALTER ROLE bourse SET session_replication_role = replica": ("the role bourse", "the triggers do not fire"),
}


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("verify_ledger", "ledger_entry"),
        ("verify_history", "tenants_auditentry"),
        ("verify_intervals", "scheduling_interval"),
    ],
)
@pytest.mark.parametrize("change", MORE)
def test_what_was_added_beside_ours_is_named(change: str, command: str, table: str) -> None:
    name, sentence = (word.format(table=table) for word in MORE[change])
    overrule(change.format(table=table))
    if "SECURITY" in change:
        overrule(f"CREATE POLICY all_of_it ON {table} USING (true)")
    assert sentence in WATCHED[command][1]()[name]


def test_foreign_keys_that_were_switched_off_are_named() -> None:
    keys = run("SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = 'scheduling_award'::regclass")
    overrule("ALTER TABLE scheduling_award DISABLE TRIGGER ALL")
    findings = by_the_intervals()
    assert len(keys) > 3
    assert all("foreign key" in findings[key] for (key,) in keys)


@pytest.mark.parametrize("name", LEDGER.constraints)
def test_a_constraint_that_was_dropped_or_replaced_is_named(name: str) -> None:
    ((table,),) = run("SELECT conrelid::regclass::text FROM pg_constraint WHERE conname = %s", [name])
    with undone():
        overrule(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        assert "is missing" in by_the_ledger()[name]
        overrule(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK (true)")
        assert by_the_ledger()[name] == "the constraint was replaced; it is now: CHECK (true)"
    with undone():
        overrule(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        overrule(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK (true) NOT VALID")
        assert "NOT VALID" in by_the_ledger()[name]
