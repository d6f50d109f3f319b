"""The history only grows, and a change behind the product's back is found."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction

from marketplace.upkeep.sealing import seal_everything
from tenants import history
from tenants.access import Access
from tenants.ledger.seals import Sealed, head
from tenants.models import AuditEntry, AuditHead, Tenant, User
from tenants.roles import AUDITOR, OPERATOR, OWNER, VIEWER
from tenants.selectors import access_of, audit_entries
from tests.database import as_superuser, run, without_triggers
from tests.tenants.builders import NOW, SYSTEM, access, make_member, make_staff, make_tenant
from tests.tenants.test_members import in_threads

pytestmark = pytest.mark.django_db


def append(subject: str = "server s01", **values) -> AuditEntry:
    with transaction.atomic():
        return history.append(at=NOW, by=SYSTEM, action="server_drain", subject=subject, reason="repair", **values)


def test_entries_are_numbered_and_chained() -> None:
    first, second = append(), append()
    assert (second.sequence, second.previous_hash) == (first.sequence + 1, first.hash)
    assert history.verify() == history.VerifiedHistory(second.sequence, second.hash)


def test_empty_history_is_unbroken() -> None:
    assert history.verify() == history.VerifiedHistory(0, history.START)


@pytest.mark.django_db(transaction=True)
def test_entry_outside_a_transaction_is_a_broken_promise() -> None:
    with pytest.raises(RuntimeError, match="in the transaction of the change"):
        history.append(at=NOW, by=SYSTEM, action="server_drain", subject="x")


def test_every_entry_has_words() -> None:
    with pytest.raises(ValueError, match="'x_change' has no words"):
        history.append(at=NOW, by=SYSTEM, action="x_change", subject="x")


def test_values_come_back_as_they_were_hashed() -> None:
    append(
        before={"price_base": 1e20, "small": 1e-7, "none": None, "yes": True, "when": NOW, "list": [1, {"a": 2.5}]},
        after={"ünïcode": "–", "big": 2**70},
    )
    assert isinstance(history.verify(), history.VerifiedHistory)


@pytest.mark.parametrize("name", ["", "n" * 120])
def test_the_longest_address_stands_whole_beside_the_beginning_of_a_name(name: str) -> None:
    """Who comes by single sign-on may have no name, and is called by the address then, twice."""
    person = User.objects.create_user(f"{'u' * 59}@{'.'.join(['d' * 60] * 3)}.example.org", name=name)
    with transaction.atomic():
        entry = history.append(at=NOW, by=Access(person, None, frozenset()), action="server_drain", subject="x")
    assert entry.actor_name.startswith((name or person.email)[:40])
    assert entry.actor_name.endswith(f"<{person.email}>")
    assert len(entry.actor_name) <= 300
    assert isinstance(history.verify(), history.VerifiedHistory)


def test_value_that_is_not_plain_is_refused() -> None:
    with pytest.raises(TypeError, match="plain values"):
        append(after={"tenant": object()})


@pytest.mark.parametrize(
    "change", ["update", "delete", "queryset_update", "queryset_delete", "head_back", "head_delete", "empty", "no_end"]
)
def test_database_refuses_to_change_the_past(change: str) -> None:
    append()
    entry = append()
    run("SET CONSTRAINTS ALL IMMEDIATE")  # a table with checks still to come is not emptied in any case
    changes = {
        "update": lambda: AuditEntry(pk=entry.pk, sequence=entry.sequence, at=NOW, before=None).save(),
        "delete": entry.delete,
        "queryset_update": lambda: AuditEntry.objects.update(reason="another"),
        "queryset_delete": lambda: AuditEntry.objects.all().delete(),
        "head_back": lambda: AuditHead.objects.update(sequence=1),
        "head_delete": lambda: AuditHead.objects.all().delete(),
        "empty": lambda: run("TRUNCATE tenants_auditentry"),
        "no_end": lambda: run("TRUNCATE tenants_audithead"),
    }
    with pytest.raises(DatabaseError, match="history"), transaction.atomic(), as_superuser():
        changes[change]()
    assert isinstance(history.verify(), history.VerifiedHistory)


FORGERIES = {
    "reason": ("UPDATE tenants_auditentry SET reason = 'another' WHERE sequence = 2", 2, "changed"),
    "actor": ("UPDATE tenants_auditentry SET actor_name = 'somebody' WHERE sequence = 2", 2, "changed"),
    "time": ("UPDATE tenants_auditentry SET at = at + interval '1 microsecond' WHERE sequence = 2", 2, "changed"),
    "before": ("""UPDATE tenants_auditentry SET before = '{"units": 9}' WHERE sequence = 2""", 2, "changed"),
    "tenant": ("UPDATE tenants_auditentry SET tenant_id = NULL WHERE sequence = 2", 2, "changed"),
    "removed": ("DELETE FROM tenants_auditentry WHERE sequence = 2", 2, "missing"),
    "cut_off": ("DELETE FROM tenants_auditentry WHERE sequence = 3", 3, "cut off"),
    "emptied": ("DELETE FROM tenants_auditentry", 1, "cut off"),
    "hash": ("UPDATE tenants_auditentry SET hash = repeat('a', 64) WHERE sequence = 2", 2, "changed"),
    "chain": ("UPDATE tenants_auditentry SET previous_hash = repeat('a', 64) WHERE sequence = 2", 2, "follow"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_change_behind_the_triggers_is_found_and_named(forgery: str) -> None:
    tenant = Tenant.objects.create(slug="lumen", name="Lumen")
    for units in (1, 2, 3):
        append(tenant=tenant, before={"units": units})
    sql, sequence, what = FORGERIES[forgery]
    with without_triggers():
        run(sql)
    verdict = history.verify()
    assert isinstance(verdict, history.Broken)
    (finding,) = verdict.findings
    assert (finding.name, what in finding.what) == (f"entry {sequence}", True)
    errors = io.StringIO()
    with pytest.raises(SystemExit) as stop:
        call_command("verify_history", stderr=errors)
    assert (stop.value.code, errors.getvalue()) == (1, f"{finding}\n")


def cut_off(last: int) -> None:
    """The entries after that one are gone, and the end of the history says that there never were any."""
    with without_triggers():
        run("DELETE FROM tenants_auditentry WHERE sequence > %s", [last])
        run(
            "UPDATE tenants_audithead SET (sequence, hash) ="
            " (SELECT sequence, hash FROM tenants_auditentry WHERE sequence = %s)",
            [last],
        )


def test_history_that_was_cut_off_with_its_end_put_back_contradicts_the_seals() -> None:
    for _ in range(3):
        append()
    assert isinstance(seal_everything(at=NOW), Sealed)
    cut_off(2)
    verdict = history.verify()
    assert isinstance(verdict, history.Broken)
    assert str(verdict) == "entry 3: it is missing: seal 1 of the ledger noted it"


def test_history_that_was_rewritten_from_an_entry_on_contradicts_the_seals() -> None:
    append(before={"units": 1})
    assert isinstance(seal_everything(at=NOW), Sealed)
    with without_triggers():
        run("DELETE FROM tenants_auditentry")
        run("UPDATE tenants_audithead SET (sequence, hash) = (0, %s)", [history.START])
    append(before={"units": 2})
    verdict = history.verify()
    assert isinstance(verdict, history.Broken)
    assert str(verdict) == "entry 1: it was rewritten: seal 1 of the ledger noted it"


def test_what_was_cut_off_before_any_seal_is_seen_by_who_noted_the_end(capsys) -> None:
    """Inside the database nothing else tells of it: this is what a noted head is for."""
    append()
    noted = append().hash
    cut_off(1)
    assert isinstance(history.verify(), history.VerifiedHistory)
    with pytest.raises(SystemExit):
        call_command("verify_history", "--head", noted)
    assert f"head {noted}: was noted earlier and is not in the chain" in capsys.readouterr().err


def test_a_noted_head_stays_in_the_chain_however_far_it_grows(capsys) -> None:
    heads = [append().hash for _ in range(3)]
    call_command("verify_history", "--head", heads[0], "--head", heads[1].upper())
    assert capsys.readouterr().out == f"3 entries, unbroken; the last is {heads[2]}\n"
    with pytest.raises(CommandError, match="64 hexadecimal"):
        call_command("verify_history", "--head", "abc")


def test_an_entry_says_which_seal_was_the_newest() -> None:
    first = append()
    assert isinstance(seal_everything(at=NOW), Sealed)
    second = append()
    assert (first.seal_number, first.seal_digest) == (None, "")
    assert (second.seal_number, second.seal_digest) == (1, head())
    with without_triggers():
        run("UPDATE tenants_auditentry SET seal_number = NULL, seal_digest = '' WHERE sequence = 2")
    verdict = history.verify()
    assert isinstance(verdict, history.Broken)
    assert str(verdict) == "entry 2: it was changed"


def test_command_says_that_the_history_is_unbroken(capsys) -> None:
    entry = append()
    call_command("verify_history")
    assert capsys.readouterr().out == f"1 entries, unbroken; the last is {entry.hash}\n"


@pytest.mark.django_db(transaction=True)
def test_entries_written_at_once_form_one_chain() -> None:
    in_threads(*[lambda: [append() for _ in range(5)]] * 4)
    verdict = history.verify()
    assert isinstance(verdict, history.VerifiedHistory)
    assert verdict.entries == 20


def test_history_shows_each_reader_their_part() -> None:
    one, two = make_tenant("one"), make_tenant("two")
    owner, viewer = make_member(one, OWNER), make_member(one, VIEWER)
    make_member(two, OWNER)
    auditor, operator = make_staff(AUDITOR).user, make_staff(OPERATOR).user
    assert {entry.tenant for entry in audit_entries(access(owner))} == {one}
    assert list(audit_entries(access(viewer))) == []
    assert {entry.tenant for entry in audit_entries(access_of(auditor, two))} == {two}
    assert audit_entries(access_of(operator, None)).count() == AuditEntry.objects.count()
    assert list(audit_entries(access_of(owner.user, None))) == []
