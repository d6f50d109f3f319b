"""The role that serves can do exactly what is listed, and nothing that would change the past or the rules."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import psycopg
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from django.test import Client
from django.urls import reverse
from psycopg.errors import InsufficientPrivilege
from pytest_django.fixtures import Settings

from marketplace.embedded.state import OWNER, ROLE
from marketplace.upkeep.rights import SEQUENCES, TABLES, rights_compare, rights_give, rights_tell, serving_role
from marketplace.upkeep.sealing import seal_everything
from tenants.common.ownership import as_owner
from tenants.ledger.seals import Sealed
from tenants.roles import AUDITOR
from tests.database import as_superuser, overrule, run, serving_addresses
from tests.tenants.builders import NOW, make_staff

pytestmark = pytest.mark.django_db

RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")


def test_every_table_is_listed_and_every_listed_table_is_there() -> None:
    ours = {model._meta.db_table for model in apps.get_models(include_auto_created=True)} | {"django_migrations"}
    assert set(TABLES) == ours == set(connection.introspection.table_names())


@pytest.mark.parametrize("table", TABLES)
def test_serving_role_has_exactly_the_rights_that_are_listed(table: str) -> None:
    """Asked of PostgreSQL by other words than those with which the product compares."""
    columns = [name for (name,) in run("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
                                       " AND NOT attisdropped", [table])]  # fmt: skip
    rights = {right.partition(" (")[0]: right.partition(" (")[2] for right in TABLES[table]}
    for right in RIGHTS:
        ((whole,),) = run("SELECT has_table_privilege(%s, %s, %s)", [ROLE, table, right])
        assert whole == (rights.get(right) == ""), right
        if right in ("INSERT", "UPDATE", "SELECT", "REFERENCES"):
            may = [run("SELECT has_column_privilege(%s, %s, %s, %s)", [ROLE, table, c, right]) for c in columns]
            named = rights.get(right, "").rstrip(")").split(", ")
            assert [has_right for ((has_right,),) in may] == [whole or column in named for column in columns], right


def test_serving_role_is_no_more_than_a_role_that_logs_in() -> None:
    assert serving_role() == ROLE
    assert run("SELECT current_user::text") == [(ROLE,)]
    comparison = rights_compare(ROLE)
    assert (comparison.beyond, comparison.missing, list(comparison.sentences)) == ((), (), [])
    sequences = [name for (name,) in run("SELECT relname FROM pg_class WHERE relkind = 'S'")]
    may = {name for name in sequences if run("SELECT has_sequence_privilege(%s, 'USAGE')", [name]) == [(True,)]}
    assert may == set(SEQUENCES)


HARM = {
    "session_replication_role": "SET session_replication_role = replica",
    "disable trigger": "ALTER TABLE ledger_entry DISABLE TRIGGER ALL",
    "drop trigger": "DROP TRIGGER interval_append_only ON scheduling_interval",
    "drop table": "DROP TABLE tenants_auditentry CASCADE",
    "new table": "CREATE TABLE mine (x int)",
    "temporary table": "CREATE TEMPORARY TABLE mine (x int)",
    "new schema": "CREATE SCHEMA mine",
    "new function": "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "other function": "CREATE OR REPLACE FUNCTION ledger_line(account_id bigint, amount bigint) RETURNS text"
    " LANGUAGE sql AS $$ SELECT '' $$",
    "temporary function": "CREATE FUNCTION pg_temp.mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "new trigger": "CREATE TRIGGER mine BEFORE INSERT ON scheduling_event EXECUTE FUNCTION scheduling_append_only()",
    "new rule": "CREATE RULE mine AS ON INSERT TO ledger_seal DO INSTEAD NOTHING",
    "truncate awards": "TRUNCATE scheduling_award CASCADE",
    "truncate history": "TRUNCATE tenants_auditentry",
    "truncate sessions": "TRUNCATE django_session",
    "terms of an award": "UPDATE scheduling_award SET paid = 0",
    "specification of a job": "UPDATE scheduling_trainingjob SET spec = '{}'",
    "guard of a balance": "UPDATE ledger_balance SET guarded = false",
    "event": "DELETE FROM scheduling_event",
    "interval": "UPDATE scheduling_interval SET plan = ''",
    "history": "UPDATE tenants_auditentry SET reason = ''",
    "seal": "DELETE FROM ledger_seal",
    "migrations": "INSERT INTO django_migrations (app, name, applied) VALUES ('ledger', '0009', now())",
    "another role": f"SET ROLE {OWNER}",
    "new role": "CREATE ROLE mine",
    "own attributes": f"ALTER ROLE {ROLE} CREATEDB",
    "file": "COPY django_session TO '/tmp/sessions'",
    "program": "COPY django_session FROM PROGRAM 'id'",
}


@pytest.fixture(scope="module")
def served(django_db_setup: None):
    """A connection as the product opens it."""
    with psycopg.connect(serving_addresses()["DATABASE_URL"]) as there:
        yield there


@pytest.mark.parametrize("harm", HARM)
def test_whoever_has_the_serving_role_cannot_change_the_past_or_the_rules(harm: str, served) -> None:
    with pytest.raises(InsufficientPrivilege):
        served.execute(HARM[harm])
    served.rollback()


EXCESSES = {
    f"GRANT DELETE, TRUNCATE ON scheduling_event TO {ROLE}": "has DELETE on scheduling_event, has TRUNCATE on",
    f"GRANT UPDATE (guarded) ON ledger_balance TO {ROLE}": "it has UPDATE (guarded) on ledger_balance.",
    f"ALTER ROLE {ROLE} SUPERUSER": "is a superuser",
    f"ALTER ROLE {ROLE} CREATEROLE": "may make roles",
    f"ALTER TABLE ledger_seal OWNER TO {ROLE}": "owns tables",
    f"ALTER FUNCTION ledger_line OWNER TO {ROLE}": "owns functions",
    "GRANT UPDATE ON tenants_auditentry TO PUBLIC": "has UPDATE on tenants_auditentry",
    "GRANT CREATE ON SCHEMA public TO PUBLIC": "may make things in the schema",
    f"GRANT {OWNER} TO {ROLE}": f"it is a member of {OWNER}, may make things",
    "GRANT pg_read_server_files TO bourse": "it is a member of pg_read_server_files.",
    f"GRANT SET ON PARAMETER session_replication_role TO {ROLE}": "may switch triggers off",
    f"GRANT UPDATE ON SEQUENCE scheduling_event_id_seq TO {ROLE}": "has UPDATE on scheduling_event_id_seq",
}


@pytest.mark.parametrize("excess", EXCESSES)
def test_a_role_that_can_do_more_is_named_with_what_it_can(excess: str) -> None:
    overrule(excess)
    (sentence,) = rights_compare(ROLE).sentences
    assert sentence.startswith(f"The role {ROLE}, with which the product serves, may do more in the database")
    assert EXCESSES[excess] in sentence


def test_a_right_that_is_missing_is_named() -> None:
    overrule(f"REVOKE INSERT ON scheduling_event FROM {ROLE}")
    (sentence,) = rights_compare(ROLE).sentences
    assert "lacks INSERT on scheduling_event" in sentence


def test_a_role_that_owns_everything_is_one_sentence() -> None:
    """As every installation was before there were two roles."""
    with as_superuser(), connection.cursor() as cursor:
        cursor.execute(f"REASSIGN OWNED BY {OWNER} TO {ROLE}")
    assert rights_compare(ROLE).missing == ()
    (sentence,) = rights_compare(ROLE).sentences
    assert "owns tables" in sentence
    assert " more. Whoever" in sentence


@pytest.mark.django_db(transaction=True)
def test_rights_are_given_back_and_taken_away_by_one_command() -> None:
    overrule(f"GRANT TRUNCATE ON scheduling_event TO {ROLE}; REVOKE INSERT ON scheduling_event FROM {ROLE}")
    out = io.StringIO()
    call_command("database_roles", apply=True, stdout=out)
    call_command("database_roles", apply=True, stdout=out)
    assert out.getvalue().splitlines() == [
        "bourse now has the rights that it needs, and no others.",
        "bourse already had the rights that it needs, and no others.",
    ]
    assert rights_compare(ROLE).beyond == rights_compare(ROLE).missing == ()


@pytest.mark.django_db(transaction=True)
def test_what_the_command_prints_does_the_same() -> None:
    """The part for the owner; it may be repeated."""
    overrule(f"GRANT TRUNCATE ON scheduling_event TO {ROLE}; REVOKE ALL ON ledger_balance FROM {ROLE}")
    out = io.StringIO()
    call_command("database_roles", stdout=out)
    printed = out.getvalue()
    assert f'CREATE ROLE "{OWNER}" LOGIN' in printed
    with as_owner():
        run(printed[printed.index("REVOKE CREATE, TEMPORARY") :])
    assert rights_compare(ROLE).beyond == rights_compare(ROLE).missing == ()


def test_the_rights_cannot_be_given_without_the_owner(settings: Settings) -> None:
    settings.DATABASE_OWNER = None
    with pytest.raises(CommandError, match="DATABASE_OWNER_URL is not set"):
        call_command("database_roles", apply=True)


def test_the_owner_is_not_asked_in_the_middle_of_a_transaction() -> None:
    with pytest.raises(RuntimeError, match="has not committed"), transaction.atomic(), as_owner():
        rights_give(ROLE)


def test_check_says_the_sentence() -> None:
    overrule(f"GRANT DELETE ON scheduling_event TO {ROLE}")
    errors = io.StringIO()
    call_command("check", databases=["default"], stderr=errors)
    assert "(marketplace.W001) The role bourse, with which the product serves, may do more" in errors.getvalue()


def test_a_table_that_nobody_listed_cannot_be_read() -> None:
    overrule(f"CREATE TABLE scheduling_fresh (x int); ALTER TABLE scheduling_fresh OWNER TO {OWNER}")
    with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
        run("SELECT * FROM scheduling_fresh")


@pytest.mark.django_db(transaction=True)
def test_process_that_begins_to_serve_says_in_its_log_what_the_role_can_do_beyond(caplog, monkeypatch) -> None:
    in_a_thread(rights_tell)
    assert caplog.messages == []
    overrule(f"GRANT TRUNCATE ON scheduling_event TO {ROLE}")
    try:
        in_a_thread(rights_tell)
    finally:
        overrule(f"REVOKE TRUNCATE ON scheduling_event FROM {ROLE}")
    (message,) = caplog.messages
    assert "may do more in the database than it needs: it has TRUNCATE on scheduling_event." in message

    def fail(_: str) -> None:
        raise OperationalError("the database is starting up")

    monkeypatch.setattr("marketplace.upkeep.rights.rights_compare", fail)
    in_a_thread(rights_tell)
    assert caplog.messages[1:] == ["whether the role may do too much in the database is not known: OperationalError"]


def in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_health_page_shows_the_sentence_and_the_head_of_the_last_seal(client: Client) -> None:
    client.force_login(make_staff(AUDITOR).user)
    address = reverse("operator_health")
    quiet = client.get(address, secure=True).content.decode()
    assert "with which the product serves" not in quiet
    assert "Head of seal" not in quiet
    sealed = seal_everything(at=NOW)
    overrule(f"GRANT TRUNCATE ON scheduling_event TO {ROLE}")
    page = client.get(address, secure=True).content.decode()
    assert f"The role {ROLE}, with which the product serves, may do more" in page
    assert isinstance(sealed, Sealed)
    assert sealed.head in page
