"""What the serving role may do in PostgreSQL: one list, from which rights are given, compared and tested.

An attacker who gets SQL of their own into the product can do no more than this role. Therefore it owns nothing, creates
nothing, and can only add to tables that only grow, not change or delete what they hold. Tables belong to the owning
role (`tenants.common.ownership`). A table that is not listed here cannot be read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction

log = logging.getLogger(__name__)
READS = ("SELECT",)
ADDS = ("SELECT", "INSERT")
CHANGES = (*ADDS, "UPDATE")
REMOVES = (*CHANGES, "DELETE")


def changes(*columns: str) -> tuple[str, ...]:
    """Return rights to read, to add, and to change only these columns. A right to change any column is also a right to
    lock rows."""
    return (*ADDS, f"UPDATE ({', '.join(columns)})")


TABLES: Mapping[str, tuple[str, ...]] = {
    # --- people
    "tenants_user": CHANGES,
    "tenants_tenant": changes("name", "may_be_asked"),
    "tenants_membership": REMOVES,
    "tenants_claimmapping": REMOVES,
    "tenants_invitation": CHANGES,
    "tenants_joinrequest": CHANGES,
    "tenants_staffgrant": CHANGES,
    "tenants_apitoken": CHANGES,
    "tenants_keptanswer": (*ADDS, "DELETE"),
    "tenants_auditentry": ADDS,
    "tenants_audithead": CHANGES,
    "account_emailaddress": REMOVES,
    "account_emailconfirmation": REMOVES,
    "mfa_authenticator": REMOVES,
    "socialaccount_socialaccount": REMOVES,
    "socialaccount_socialapp": READS,
    "socialaccount_socialtoken": REMOVES,
    "django_session": REMOVES,
    # --- money
    "ledger_account": ADDS,
    "ledger_transaction": ADDS,
    "ledger_entry": ADDS,
    "ledger_seal": ADDS,
    "ledger_sealhead": changes("number", "digest"),
    "ledger_balance": changes("amount", "entry_count"),
    "ledger_daytotal": changes("amount", "entry_count"),
    "ledger_daysheet": (*ADDS, "DELETE"),
    # --- the cluster and the market
    "scheduling_pool": changes("servers_return"),
    "scheduling_resourcekind": changes("least", "step"),
    "scheduling_server": changes("lost_after", "lost_from", "state"),
    "scheduling_servercapacity": changes("units"),
    "scheduling_cell": REMOVES,
    "scheduling_tenantpolicy": CHANGES,
    "scheduling_shapechange": ADDS,
    "scheduling_laneclock": CHANGES,
    "scheduling_pulse": CHANGES,
    "scheduling_outage": ADDS,
    "scheduling_calendarcell": CHANGES,
    "scheduling_trainingjob": changes(
        "lane", "state", "reason_code", "reason_numbers", "arrival", "attempt", "not_before", "ended_at", "worth"
    ),
    "scheduling_jobarray": ADDS,
    "scheduling_jobdescription": ADDS,
    "scheduling_jobfloor": ADDS,
    "scheduling_interval": ADDS,
    "scheduling_intervalarchive": READS,
    "scheduling_answerframe": ADDS,
    "scheduling_instantanswer": ADDS,
    "scheduling_award": changes("state", "cut_at", "pays_from", "returned", "rent", "adjusted"),
    "scheduling_freedunits": (*changes("amount", "sold"), "DELETE"),
    "scheduling_useprice": ADDS,
    "scheduling_pricetick": CHANGES,
    "scheduling_startestimate": changes("started", "paid"),
    "scheduling_run": CHANGES,
    "scheduling_jobreport": REMOVES,
    "scheduling_enginepulse": CHANGES,
    "scheduling_event": ADDS,
    "scheduling_feedseal": ADDS,
    "scheduling_policyweights": ADDS,
    "scheduling_weightspromotion": ADDS,
    "scheduling_poollearner": CHANGES,
    "scheduling_weightscandidate": changes("state", "verdict", "judged_at"),
    "scheduling_shadowslot": ADDS,
    "scheduling_programarchive": ADDS,
    "scheduling_programarchivepiece": (*ADDS, "DELETE"),
    "scheduling_archivekeeping": changes("used_at", "closed_at", "removed_at"),
    "scheduling_catalogueprogram": changes("tenants", "retired_at"),
    "scheduling_programversion": ADDS,
    "scheduling_operatorsecret": changes("secret", "tenants", "set_at", "removed_at"),
    "scheduling_programswitch": changes("may_bring"),
    # --- what is computed from it, requests about it, and messages about it
    "scheduling_intervalfairness": ADDS,
    "scheduling_tenantfairness": ADDS,
    "scheduling_poolday": REMOVES,
    "scheduling_tenantday": REMOVES,
    "scheduling_poolhour": CHANGES,
    "scheduling_tenanthour": CHANGES,
    "scheduling_serverhour": REMOVES,
    "scheduling_fairnessalert": REMOVES,
    "scheduling_auditrun": CHANGES,
    "scheduling_signingkey": changes("secret", "retired_at"),
    "scheduling_auditpart": (*ADDS, "DELETE"),
    "scheduling_verificationrun": CHANGES,
    "scheduling_whatif": REMOVES,
    "scheduling_labstudy": REMOVES,
    "scheduling_labfile": (*ADDS, "DELETE"),
    "scheduling_budget": REMOVES,
    "scheduling_savedview": REMOVES,
    "scheduling_notice": (*changes("mail_due_at", "mail_tries", "chat_due_at", "chat_tries", "read_at"), "DELETE"),
    "scheduling_chataddress": REMOVES,
    "scheduling_noticechoice": CHANGES,
    "scheduling_noticeprofile": CHANGES,
    "scheduling_noticecursor": changes("cursor", "month"),
    "scheduling_webhook": CHANGES,
    "scheduling_webhookdelivery": REMOVES,
    "scheduling_webhooktry": REMOVES,
    # --- what migrations write
    "auth_group": READS,
    "auth_group_permissions": READS,
    "auth_permission": READS,
    "django_admin_log": READS,
    "django_content_type": READS,
    "django_migrations": READS,
}
# The feed assigns its ids itself, see `scheduling/migrations/sql/feed.sql`. All other ids come from their columns.
SEQUENCES: Mapping[str, tuple[str, ...]] = {"scheduling_event_id_seq": ("USAGE", "SELECT")}

MOST = 4  # things named in a sentence


@dataclass(frozen=True)
class Difference:
    """How a role's rights differ from those it should have. Each item is a few words that follow "it"."""

    role: str
    beyond: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def sentences(self) -> Iterator[str]:
        if self.beyond:
            yield (
                f"The role {self.role}, with which the product serves, may do more in the database than it needs: it "
                f"{_some(self.beyond)}. Whoever found a way to put SQL of their own into the product could change the "
                "book with that. `manage.py database_roles` prints how to have two roles."
            )
        if self.missing:
            yield (
                f"The role {self.role}, with which the product serves, may do less in the database than it needs: it "
                f"{_some(self.missing)}. `manage.py migrate`, with DATABASE_OWNER_URL, gives it its rights."
            )


def rights_compare(role: str) -> Difference:
    """Compare a role's rights with the list. It reads the catalogue alone, so every role gets the same answer."""
    rights, expectation = _rights_in_database(role), _rights_listed()
    beyond = [words for (words,) in _ask(_ROLE, {"role": role})]
    if "is a superuser" in beyond:
        return Difference(role, ("is a superuser",), ())
    missing = []
    for name in sorted(rights.keys() | expectation.keys()):
        has, needs = rights.get(name, set()), expectation.get(name, set())
        beyond += [f"has {right} on {name}" for right in sorted(has - needs)]
        # A right to a whole table is a right to each of its columns.
        missing += [f"lacks {right} on {name}" for right in sorted(needs - has) if right.partition(" (")[0] not in has]
    return Difference(role, tuple(beyond), tuple(missing))


def rights_give(role: str) -> bool:
    """Give the role its rights. Call it as the owner of the tables (`as_owner`). Return False if all was
    right already."""
    difference = rights_compare(role)
    if not (difference.beyond or difference.missing):
        return False
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("; ".join(statements(role)))
    return True


def rights_tell() -> None:
    """Log one sentence for each kind of wrong right, when a process starts to serve."""
    try:
        for sentence in rights_compare(serving_role()).sentences:
            log.warning(sentence)
    except DatabaseError as error:
        log.warning("whether the role may do too much in the database is not known: %s", type(error).__name__)
    finally:
        connection.close()


def statements(role: str) -> list[str]:
    """Return SQL for the owner of the tables, which may be repeated. PostgreSQL skips what the owner may not give."""
    quote = connection.ops.quote_name
    name, place, database = quote(role), quote(schema()), quote(connection.settings_dict["NAME"])
    grants = [
        f"REVOKE CREATE, TEMPORARY ON DATABASE {database} FROM PUBLIC, {name}",
        f"REVOKE CREATE ON SCHEMA {place} FROM PUBLIC, {name}",
        f"GRANT USAGE ON SCHEMA {place} TO {name}",
    ]
    there = _columns_there()
    for kind, rights_by_thing in (("TABLE", TABLES), ("SEQUENCE", SEQUENCES)):
        for thing, rights in rights_by_thing.items():
            if thing in there:
                possible = ", ".join(_of_columns(right, there[thing]) for right in rights)
                grants.append(f"REVOKE ALL ON {kind} {place}.{thing} FROM PUBLIC, {name}")
                grants.append(f"GRANT {possible} ON {kind} {place}.{thing} TO {name}")
    return grants


def schema() -> str:
    """Return the schema of our tables."""
    return str(_ask("SELECT current_schema()")[0][0])


def serving_role() -> str:
    """Return the role of the product's connections. An address without one leaves the choice to the
    machine's account."""
    return str(settings.DATABASE_ROLE or _ask("SELECT current_user")[0][0])


def _rights_listed() -> dict[str, set[str]]:
    """Return the listed rights on existing things: a database at an earlier migration has fewer tables and columns."""
    there = _columns_there()
    return {
        name: {one for right in rights for one in _by_column(_of_columns(right, there[name]))}
        for name, rights in {**TABLES, **SEQUENCES}.items()
        if name in there
    }


def _columns_there() -> dict[str, set[str]]:
    """Return our tables and sequences, with their columns."""
    columns: dict[str, set[str]] = {}
    for name, column in _ask(_COLUMNS):
        columns.setdefault(name, set()).add(column)
    return columns


def _of_columns(right: str, there: set[str]) -> str:
    """Return the right without the columns that an earlier migration does not have: `UPDATE (a, b)`; others as they
    are."""
    name, _, columns = right.rstrip(")").partition(" (")
    return f"{name} ({', '.join(one for one in columns.split(', ') if one in there)})" if columns else right


def _by_column(right: str) -> list[str]:
    """Split a right by columns: `UPDATE (a, b)` is two rights; any other is one."""
    name, _, columns = right.rstrip(")").partition(" (")
    return [f"{name} ({column})" for column in columns.split(", ")] if columns else [name]


def _rights_in_database(role: str) -> dict[str, set[str]]:
    rights: dict[str, set[str]] = {}
    for name, right in _ask(_RIGHTS, {"role": role}):
        rights.setdefault(name, set()).add(right)
    return rights


def _some(words: tuple[str, ...]) -> str:
    rest = len(words) - MOST
    return ", ".join(words[:MOST]) + (f", and {rest} more" if rest > 0 else "")


def _ask(sql: str, parameters: Mapping[str, str] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


# Other programs may have tables in the same schema; ours belong to the owner of the list of migrations.
_OURS = """
SELECT c.relname::text, c.relkind::text, c.oid
  FROM pg_class c
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'S')
   AND c.relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('django_migrations'))
"""
_COLUMNS = f"""
WITH ours (name, kind, oid) AS ({_OURS})
SELECT name, attname::text FROM ours JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped
"""  # noqa: S608
_RIGHTS = f"""
WITH ours (name, kind, oid) AS ({_OURS})
SELECT name, r
  FROM ours, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS r
 WHERE kind <> 'S' AND has_table_privilege(%(role)s, oid, r)
UNION ALL
SELECT name, r || ' (' || attname || ')'
  FROM ours JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped,
       unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS r
 WHERE kind <> 'S' AND NOT has_table_privilege(%(role)s, oid, r) AND has_column_privilege(%(role)s, oid, attnum, r)
UNION ALL
SELECT name, r FROM ours, unnest(ARRAY['USAGE', 'SELECT', 'UPDATE']) AS r
 WHERE kind = 'S' AND has_sequence_privilege(%(role)s, oid, r)
"""  # noqa: S608
# What a role may do beyond rights on tables.
_ROLE = """
SELECT 'is a member of ' || roleid::regrole FROM pg_auth_members
 WHERE member = (SELECT oid FROM pg_roles WHERE rolname = %(role)s)
UNION ALL
SELECT words
  FROM pg_roles AS r, LATERAL (VALUES
       ('is a superuser', rolsuper),
       ('may make roles', rolcreaterole),
       ('may make databases', rolcreatedb),
       ('passes by the security of rows', rolbypassrls),
       ('may replicate', rolreplication),
       ('owns the database', EXISTS (SELECT FROM pg_database WHERE datname = current_database() AND datdba = r.oid)),
       ('owns tables', EXISTS (SELECT FROM pg_class WHERE relowner = r.oid AND relkind IN ('r', 'p', 'S', 'v', 'm'))),
       ('owns functions', EXISTS (SELECT FROM pg_proc WHERE proowner = r.oid)),
       ('may make things in the schema', has_schema_privilege(r.oid, current_schema()::regnamespace, 'CREATE')),
       ('may make schemas', has_database_privilege(r.oid, current_database(), 'CREATE')),
       ('may make temporary tables', has_database_privilege(r.oid, current_database(), 'TEMPORARY')),
       ('may switch triggers off', has_parameter_privilege(r.oid, 'session_replication_role', 'SET'))
       ) AS told (words, so)
 WHERE rolname = %(role)s AND so
"""
