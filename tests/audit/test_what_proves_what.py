"""The table in `docs/what-proves-what.md` has every column of every table once, and what it calls named is named.

Each column is given another value, a row is removed, and one is added: one of the checks that the table says must find
it, and say where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, transaction

from scheduling.audit.archive_entries import archive_remember
from scheduling.audit.verification import settings_verify
from scheduling.audit.verification.ends import ends_verify
from scheduling.audit.verification.pieces import ReadingLimits, columns_after, piece_next
from scheduling.audit.verification.runs import feed_run, pool_run
from scheduling.market.decide import chain
from scheduling.models import IntervalArchive, Phase, Pool
from tenants import history
from tenants.access import access_of_system
from tenants.ledger import audit
from tenants.models import AuditEntry, AuditHead
from tenants.scoping import scope_disabled
from tests.audit.proven import Proven, make_proven
from tests.database import as_superuser, undone
from tests.ledger.builders import run, tamper
from tests.scheduling.builders import NOON
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

PAGE = Path(settings.BASE_DIR) / "docs" / "what-proves-what.md"
NONE = "-"
WHOLE_ROWS = ("removed", "added")


@dataclass(frozen=True)
class Entry:
    table: str
    columns: tuple[str, ...]
    checks: tuple[str, ...]
    why: str


@cache
def entries() -> tuple[Entry, ...]:
    text = PAGE.read_text(encoding="utf-8").split("## The table", 1)[1]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    return tuple(
        Entry(table, tuple(columns.split(", ")), tuple(checks.split(", ")), why)
        for table, columns, checks, why in rows
        if table not in ("table", "---")
    )


def models() -> Iterator[type]:
    yield from apps.get_app_config("scheduling").get_models()
    yield from apps.get_app_config("ledger").get_models()
    yield from (AuditEntry, AuditHead)


def test_every_column_of_every_table_stands_in_the_table_once() -> None:
    stated = Counter((entry.table, column) for entry in entries() for column in entry.columns)
    there = {(model._meta.db_table, field.column) for model in models() for field in model._meta.concrete_fields}
    there = {(table, column) for table, column in there if column}
    there |= {(table, what) for table, _ in there for what in WHOLE_ROWS}
    assert (set(stated) - there, there - set(stated)) == (set(), set())
    assert max(stated.values()) == 1, stated.most_common(3)


def test_every_entry_names_a_check_or_says_why_there_is_none() -> None:
    for entry in entries():
        assert set(entry.checks) <= CHECKS.keys() or entry.checks == (NONE,), entry
        assert len(entry.why) > 10, entry


# ---------------------------------------------------------------- the checks


def phases(pool: Pool, *wanted: Phase) -> Iterator[str]:
    """Findings of some phases of a pool's walk, one after the other."""
    with scope_disabled("the test verifies everything"):
        walk = pool_run(pool.pk)
    for phase in wanted:
        walk.phase = phase
        yield from pieces(walk, phase)


def pieces(walk, phase: Phase) -> Iterator[str]:
    while walk.phase == phase and walk.state in ("waiting", "running"):
        piece = piece_next(walk, ReadingLimits())
        yield from map(str, piece.findings)
        for name, value in columns_after(walk, piece).items():
            setattr(walk, name, value)


def of_pools(*wanted: Phase) -> Callable[[Proven], Iterator[str]]:
    def findings(world: Proven) -> Iterator[str]:
        for pool in (world.pool, world.elastic):
            yield from phases(pool, *wanted)

    return findings


def ends(world: Proven) -> list[str]:
    with scope_disabled("the test verifies everything"):
        return [str(finding) for pool in (world.pool, world.elastic) for finding in ends_verify(pool.pk)]


def settings_stand(world: Proven) -> list[str]:
    return list(map(str, settings_verify()))


def ledger(world: Proven) -> list[str]:
    with scope_disabled("the test verifies everything"):
        return list(map(str, audit.verify().findings))


def of_history(world: Proven) -> Iterator[str]:
    verdict = history.verify()
    if isinstance(verdict, history.Broken):
        yield from map(str, verdict.findings)


CHECKS: Mapping[str, Callable[[Proven], Iterable[str]]] = {
    "intervals": of_pools(Phase.INTERVALS, Phase.END),
    "answers": of_pools(Phase.ANSWERS),
    "awards": of_pools(Phase.INSTANT),
    "jobs": of_pools(Phase.JOBS),
    "ends": ends,
    "days": of_pools(Phase.DAYS),
    "feed": lambda world: pieces(feed_run(), Phase.FEED),
    "settings": settings_stand,
    "ledger": ledger,
    "history": of_history,
}


# ---------------------------------------------------------------- the tampering

MAIN = "(SELECT id FROM scheduling_pool WHERE slug = 'main')"
MORE = "coalesce({0}, 0) + 1000"
WORD = "overlay(coalesce({0}, '') placing '7e7' from 1)"
OTHER_PART = "CASE {0} WHEN 'home' THEN 'operator' ELSE 'home' END"
CHANGES = {
    "bool": "NOT {0}",
    "numeric": "{0} * 2",
    "int2": MORE,
    "int4": MORE,
    "int8": MORE,
    "float8": MORE,
    "timestamptz": "coalesce({0}, '2026-01-01Z') + interval '1 second'",
    "date": "{0} + 1",
    "jsonb": """'{{"changed": 1}}'::jsonb""",
    "bytea": "{0} || '\\x07'::bytea",
    "varchar": WORD,
    "text": WORD,
    "_int8": "{0} || 7::bigint",
    "_text": "{0} || 'other'::text",
    "_varchar": "{0} || 'other'::varchar",
    "_timestamptz": "{0} || '2026-01-01Z'::timestamptz",
}
# Where the database allows no such value, or where it would mean the same.
OTHERWISE: Mapping[tuple[str, str], str] = {
    ("scheduling_award", "lane"): "CASE {0} WHEN 'batch' THEN 'instant' ELSE 'batch' END",
    ("scheduling_award", "returned"): "{0} + 1",
    ("scheduling_award", "dividend"): "{0} + 1",
    ("scheduling_award", "rent"): "'open'",
    ("scheduling_award", "adjusted"): "1, rent = 'closed', returned = returned + 1",  # nothing else is possible
    ("scheduling_award", "pays_from"): "start + 1, cut_at = start",  # only beside a cut that is before it
    ("scheduling_award", "start"): "{0} - 1",
    ("scheduling_award", "state"): "'void'",
    ("scheduling_budget", "period"): "'week'",
    ("scheduling_calendarcell", "batch"): "{0} + 1",
    ("scheduling_calendarcell", "instant"): "{0} - 1",
    ("scheduling_calendarcell", "part"): OTHER_PART,
    ("scheduling_freedunits", "part"): OTHER_PART,
    ("scheduling_freedunits", "sold"): "{0} - 0.25",
    ("scheduling_intervalarchive", "first"): "{0} - 1",
    ("scheduling_intervalfairness", "broken_count"): "1",
    ("scheduling_jobfloor", "start"): "{0} - 1",
    ("scheduling_laneclock", "lane"): "'other'",
    ("scheduling_outage", "start"): "{0} - 1",
    ("scheduling_pool", "batch_policy"): """{0} || '{{"changed": 1}}'""",
    ("scheduling_pool", "cancellation_keep_percent"): "50",
    ("scheduling_pool", "clock_first"): "{0} - 1",
    ("scheduling_pool", "instant_policy"): """{0} || '{{"changed": 1}}'""",
    ("scheduling_pool", "instant_share_percent"): "50",
    ("scheduling_pool", "posted_slots"): "50",
    ("scheduling_pool", "usual_plan"): "CASE {0} WHEN 'keep' THEN 'renew' ELSE 'keep' END",
    ("scheduling_pricetick", "lane"): "'other'",
    ("scheduling_resourcekind", "step"): "{0} / 2",
    ("scheduling_server", "state"): "'draining'",
    ("scheduling_startestimate", "earliest"): "{0} - 1",
    ("scheduling_startestimate", "price_low"): "{0} - 1",
    ("scheduling_tenantpolicy", "budget_period"): "'week'",
    ("scheduling_tenantpolicy", "lend"): "'keep'",
    ("scheduling_tenantpolicy", "rent"): "'never'",
    ("scheduling_tenantpolicy", "plan"): "CASE {0} WHEN 'keep' THEN 'renew' ELSE 'keep' END",
    ("scheduling_trainingjob", "lane"): "CASE {0} WHEN 'batch' THEN 'instant' ELSE 'batch' END",
    ("scheduling_trainingjob", "state"): "CASE {0} WHEN 'rejected' THEN 'expired' ELSE 'running' END",
    ("ledger_transaction", "corrects_id"): "(SELECT min(id) FROM ledger_transaction)",
}
WHOLE_JOB = "work_left IS NULL"
# Which rows are changed, where not the first one that comes: one of each kind.
PAID_ROWS = [f"lane = '{lane}' AND state = 'done' AND paid > 0" for lane in ("batch", "instant")]
ROWS: Mapping[str | tuple[str, str], list[str]] = {
    "scheduling_pool": ["slug = 'main'"],  # wherever its row lies: the changes below are of its settings
    "scheduling_award": [
        f"{WHOLE_JOB} AND lane = 'batch' AND paid > 0",
        f"{WHOLE_JOB} AND lane = 'batch' AND paid = 0",
        f"{WHOLE_JOB} AND lane = 'instant' AND state = 'done'",
        f"{WHOLE_JOB} AND lane = 'instant' AND state = 'booked'",
    ],
    ("scheduling_award", "dividend"): PAID_ROWS,
    ("scheduling_award", "adjusted"): PAID_ROWS,
    ("scheduling_award", "returned"): PAID_ROWS,
    ("scheduling_award", "pays_from"): ["start + 1 < \"end\" AND state = 'done' AND paid > 0"],
    ("scheduling_award", "work_left"): ["work_left > 0"],
    ("scheduling_award", "paid_before"): ["work_left > 0"],
    "scheduling_calendarcell": ["slot >= 29 AND instant > 0 AND capacity >= batch + instant + 1"],
    "scheduling_freedunits": ["sold > 0"],
    "scheduling_instantanswer": ["award_id IS NULL", "award_id IS NOT NULL", "resold IS NOT NULL"],
    "scheduling_interval": [
        f"pool_id = {MAIN}",
        f"pool_id <> {MAIN}",
        "jobs_awarded > 0",
        f"base_id IS NOT NULL AND pool_id = {MAIN}",
        f"base_id IS NOT NULL AND pool_id <> {MAIN}",
    ],
    "scheduling_laneclock": [f"lane = '{lane}' AND pool_id = {MAIN}" for lane in ("batch", "instant")],
    # One of the operator's, for all: the other's list is empty, which a program of a tenant must keep.
    "scheduling_catalogueprogram": ["tenant_id IS NOT NULL"],
    ("scheduling_catalogueprogram", "tenants"): ["tenant_id IS NULL"],
    "scheduling_pricetick": [f"lane = 'batch' AND pool_id = {MAIN}", f"lane = 'batch' AND pool_id <> {MAIN}"],
    "scheduling_startestimate": ["started IS NULL", "started IS NOT NULL"],
    "scheduling_trainingjob": ["state = 'rejected'", "state = 'finished' AND lane = 'batch'", "state = 'finished'"],
    ("scheduling_useprice", "id"): ["id = (SELECT min(o.id) FROM scheduling_useprice o WHERE from_slot > 0)"],
    "ledger_account": ["id = 2"],
    "ledger_balance": ["account_id = 2 AND entry_count > 0"],
    ("ledger_balance", "guarded"): ["account_id >= 8 AND amount > 0"],
    ("ledger_balance", "amount"): ["account_id = 2", "account_id >= 8 AND amount > 0"],
    "ledger_daysheet": ["cardinality(paid_subjects) > 0", "cardinality(earned_awards) > 0"],
    "ledger_transaction": ["id = (SELECT max(id) FROM ledger_transaction)"],
}
FREE_SLOT = (
    "(SELECT min(slot) FROM generate_series(0, 27) slot"
    " WHERE NOT EXISTS (SELECT FROM scheduling_interval i WHERE i.pool_id = r.pool_id AND i.slot = slot.slot))"
)
FREE_ID = (
    "(SELECT min(e.id) + 1 FROM scheduling_event e"
    " WHERE NOT EXISTS (SELECT FROM scheduling_event following WHERE following.id = e.id + 1))"
)
UNANSWERED = "(SELECT max(id) FROM scheduling_trainingjob)"
# What else has to differ in a row that is added, for the database allows no two: pairs of column and SQL.
ADDED: Mapping[str, Mapping[str, str]] = {
    "scheduling_award": {"attempt": "7"},
    "scheduling_budget": {"period": "'day'"},
    "scheduling_calendarcell": {"slot": "r.slot + 40"},
    "scheduling_cell": {"tenant_id": "r.tenant_id + 1"},
    "scheduling_event": {"id": FREE_ID},
    "scheduling_fairnessalert": {"measure": "'other'"},
    "scheduling_feedseal": {"number": "77", "last_event_id": "r.last_event_id + 100000"},
    "scheduling_freedunits": {"slot": "77"},
    "scheduling_instantanswer": {"number": "77", "job_id": UNANSWERED, "award_id": "NULL::bigint"},
    "scheduling_interval": {"number": "77", "slot": FREE_SLOT},
    "scheduling_intervalarchive": {"day": "r.day + 1"},
    "scheduling_intervalfairness": {"number": "77", "interval_id": "77000"},
    "scheduling_jobfloor": {"attempt": "7"},
    "scheduling_outage": {"start": "5", "end": "6"},
    "scheduling_catalogueprogram": {"name": "'other'"},
    "scheduling_policyweights": {"name": "'other'"},
    "scheduling_operatorsecret": {"name": "'other'"},
    "scheduling_programarchive": {"digest": "'other'"},
    "scheduling_programarchivepiece": {"number": "77"},
    "scheduling_programswitch": {"tenant_id": "r.tenant_id + 1000"},
    "scheduling_programversion": {"version": "77"},
    "scheduling_pool": {"slug": "'other'"},
    "scheduling_poolday": {"day": "r.day + 1"},
    "scheduling_pricetick": {"slot": "r.slot + 1000"},
    "scheduling_resourcekind": {"name": "'other'"},
    "scheduling_server": {"name": "'other'"},
    "scheduling_servercapacity": {"resource_id": "r.resource_id + 1000"},
    "scheduling_signingkey": {"public_key": "'other'", "retired_at": "now()"},
    "scheduling_tenantday": {"tenant_id": "r.tenant_id + 1000"},
    "scheduling_tenantfairness": {"tenant_id": "r.tenant_id + 1000"},
    "scheduling_tenantpolicy": {"tenant_id": "r.tenant_id + 1"},
    "scheduling_trainingjob": {"client_key": "'other'"},
    "ledger_balance": {"stripe": "77"},
    "ledger_daytotal": {"stripe": "77"},
    "ledger_entry": {"line": "77"},
    "ledger_seal": {"number": "77", "last_transaction_id": "100000"},
    "ledger_transaction": {"key": "'other'"},
    "tenants_auditentry": {"sequence": "77", "hash": "'other'"},
}

# A word of the finding that says where.
WHERE: Mapping[str, str] = {
    "scheduling_answerframe": "answer",
    "scheduling_award": "job",
    "scheduling_budget": "budget",
    "scheduling_calendarcell": "calendar",
    "scheduling_cell": "cells",
    "scheduling_event": "event",
    "scheduling_fairnessalert": "limits of fairness",
    "scheduling_feedseal": "seal",
    "scheduling_freedunits": "given up",
    "scheduling_instantanswer": "answer",
    "scheduling_interval": "interval",
    "scheduling_intervalarchive": "archive",
    "scheduling_intervalfairness": "fairness",
    "scheduling_jobfloor": "floor",
    "scheduling_laneclock": "pool",
    "scheduling_outage": "outage",
    "scheduling_catalogueprogram": "program",
    "scheduling_policyweights": "weights",
    "scheduling_weightspromotion": "weights put in place",
    "scheduling_operatorsecret": "secret",
    "scheduling_programarchive": "archive",
    "scheduling_programarchivepiece": "archive",
    "scheduling_programswitch": "programs of",
    "scheduling_programversion": "version",
    "scheduling_pool": "pool",
    "scheduling_poolday": "fairness",
    "scheduling_pricetick": "price",
    "scheduling_resourcekind": "pool",
    "scheduling_server": "server",
    "scheduling_servercapacity": "server",
    "scheduling_signingkey": "signing key",
    "scheduling_startestimate": "estimate",
    "scheduling_tenantday": "fairness",
    "scheduling_tenantfairness": "fairness",
    "scheduling_tenantpolicy": "sharing",
    "scheduling_trainingjob": "job",
    "scheduling_useprice": "prices of use",
    "ledger_account": "account",
    "ledger_balance": "account",
    "ledger_daysheet": "sheet",
    "ledger_daytotal": "account",
    "ledger_entry": "transaction",
    "ledger_seal": "seal",
    "ledger_sealhead": "seal",
    "ledger_transaction": "transaction",
    "tenants_auditentry": "entry",
    "tenants_audithead": "end of the history",
}


def make_world() -> Proven:
    """With the row of an archive, of intervals that this market has not come to; and with intervals that are told by
    others, however small they are."""
    with mock.patch.object(chain, "WORTH_IT", 99.0):
        world = make_proven()
    row = IntervalArchive(pool=world.elastic, day=NOON.date(), first=9_001, last=9_009, file="sweeps-2026-03-02.zip")
    row.digest, row.size, row.public_key, row.archived_at = "d" * 64, 7, "e" * 64, NOON
    with as_superuser(), transaction.atomic():
        archive_remember(row, by=access_of_system("a test"))
    return world


built = built_once(make_world)
NAMED = sorted({entry.table for entry in entries() if entry.checks[0] in CHECKS})


@cache
def types_of(table: str) -> dict[str, str]:
    return dict(run("SELECT column_name, udt_name FROM information_schema.columns WHERE table_name = %s", [table]))


def changes(table: str, column: str) -> Iterator[str]:
    """SQL, one statement for each kind of row. Names and values are those of this file."""
    for where in ROWS.get((table, column), ROWS.get(table, ["true"])):
        row = f"ctid = (SELECT ctid FROM {table} WHERE {where} ORDER BY ctid LIMIT 1)"  # noqa: S608
        if column == "removed":
            yield f"DELETE FROM {table} WHERE {row}"  # noqa: S608
        elif column == "added":
            number = f"(SELECT max(id) + 1000 FROM {table})"  # noqa: S608
            other = ({"id": number} if "id" in types_of(table) else {}) | dict(ADDED.get(table, {}))
            pairs = ", ".join(f"'{name}', {value}" for name, value in other.items())
            copy = f"jsonb_populate_record(NULL::{table}, to_jsonb(r) || jsonb_build_object({pairs}))"
            yield f"INSERT INTO {table} SELECT ({copy}).* FROM {table} r WHERE r.{row}"  # noqa: S608
        else:
            change = OTHERWISE.get((table, column), CHANGES[types_of(table)[column]]).format(f'"{column}"')
            yield f'UPDATE {table} SET "{column}" = {change} WHERE {row}'  # noqa: S608


@pytest.mark.wide
@pytest.mark.parametrize("table", NAMED)
def test_whatever_is_called_named_is_named(table: str, built: Proven) -> None:
    missed = []
    for entry in entries():
        for column in entry.columns if entry.table == table and entry.checks[0] in CHECKS else ():
            for sql in changes(table, column):
                with undone():
                    try:
                        tamper(sql)
                    except DatabaseError as error:
                        missed.append(f"{column}: the database refuses it, choose another change: {error}")
                        continue
                    lines = (line for name in entry.checks for line in CHECKS[name](built))
                    if not any(WHERE[table] in line for line in lines):
                        missed.append(f"{column}: {sql}")
    assert not missed, "\n".join(missed)


@pytest.mark.wide
def test_nothing_is_named_where_nothing_was_touched(built: Proven) -> None:
    assert [line for check in CHECKS.values() for line in check(built)] == []
