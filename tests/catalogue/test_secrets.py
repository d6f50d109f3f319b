"""The operator's store: a value goes to processes of the tenants that may have it, and nowhere else."""

from __future__ import annotations

import io
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from scheduling.catalogue.registration import InvalidProgram, program_register
from scheduling.catalogue.secrets import secret_names, secret_remove, secret_set, secrets_listed, secrets_opened
from scheduling.engines.base import Fault, Gang
from scheduling.models import OperatorSecret, ProgramVersion, Run
from scheduling.programs.stored import program_of_row
from scheduling.runs.runs import gang_of
from tenants.access import Refused
from tenants.models import AuditEntry, Tenant
from tenants.roles import OPERATOR, OWNER, STAFF_ROLES, TENANT_ROLES
from tenants.scoping import scope
from tests.catalogue.builders import BY, DOCUMENT, WHY, allow, member, register
from tests.quotes.test_submit_page import market
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.live import SPEC, make_award
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db
VALUE = "hf_s3cret-value"


def put(name: str = "hub", value: str = VALUE, tenants: list[str] | None = None) -> OperatorSecret:
    outcome = secret_set(name=name, value=value, tenants=tenants, by=BY, at=NOON, reason=WHY)
    assert isinstance(outcome, OperatorSecret), outcome
    return outcome


def program(secrets: dict[str, str]) -> Any:
    register(BY, secrets=secrets)
    return program_of_row(ProgramVersion.objects.select_related("program__tenant").latest("pk"))


def test_value_is_sealed_under_its_name_and_opened_for_those_who_may_have_it(settings: Any) -> None:
    lumen = make_tenant("lumen")
    row = put(tenants=["lumen"])
    assert VALUE not in row.secret
    named = program({"TOKEN": "hub"})
    assert secrets_opened(named, "lumen") == (("TOKEN", VALUE),)
    assert secrets_opened(named, "castor") == "The secret 'hub' is not for this tenant."
    assert (secret_names("lumen"), secret_names("castor")) == (["hub"], [])
    put("other", "another")
    OperatorSecret.objects.filter(name="other").update(secret=row.secret)  # put under another name
    assert "cannot be opened" in str(secrets_opened(program({"TOKEN": "other"}), "lumen"))
    settings.SECRET_KEY = "x" * 60
    assert "cannot be opened" in str(secrets_opened(named, lumen.slug))


def test_next_value_is_what_processes_get_and_a_removed_one_is_gone() -> None:
    put()
    named = program({"TOKEN": "hub"})
    put(value="the next")
    assert secrets_opened(named, "lumen") == (("TOKEN", "the next"),)
    assert isinstance(secret_remove(name="hub", by=BY, at=NOON + timedelta(1), reason=WHY), OperatorSecret)
    assert OperatorSecret.objects.get().secret == ""
    assert secrets_opened(named, "lumen") == "The operator's store has no secret 'hub'."
    assert secrets_listed() == []


def test_history_names_the_act_and_never_the_value() -> None:
    make_tenant("lumen")
    put(tenants=["lumen"])
    secret_remove(name="hub", by=BY, at=NOON, reason=WHY)
    entries = list(AuditEntry.objects.filter(subject="secret hub").order_by("sequence"))
    assert [entry.action for entry in entries] == ["secret_set", "secret_remove"]
    assert entries[0].after == {"tenants": ["lumen"]}
    assert VALUE not in str([vars(entry) for entry in entries])


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "Hub"}, "invalid_secret"),
        ({"value": ""}, "invalid_secret"),
        ({"value": "a\0b"}, "invalid_secret"),
        ({"value": "x" * 4_097}, "invalid_secret"),
        ({"tenants": ["nobody"]}, "unknown_tenant"),
        ({"reason": ""}, "reason_missing"),
        ({"by": member(Tenant(slug="lumen"), OWNER)}, "not_allowed"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], code: str) -> None:
    words: dict[str, Any] = {"name": "hub", "value": VALUE, "tenants": None, "by": BY, "at": NOON, "reason": WHY}
    outcome = secret_set(**words | fields)
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert VALUE not in outcome.sentence
    assert not OperatorSecret.objects.exists()


def test_program_may_name_what_its_owner_may_have() -> None:
    lumen = make_tenant("lumen")
    allow(lumen)
    put("theirs", tenants=["lumen"])
    put("not-theirs", tenants=[])
    register(member(lumen), secrets={"TOKEN": "theirs"})
    for name in ("not-theirs", "nothing"):
        document = DOCUMENT | {"name": "other", "secrets": {"TOKEN": name}}
        refused = program_register(document=document, archive=None, by=member(lumen), at=NOON)
        assert isinstance(refused, InvalidProgram)
        assert refused.field == "secrets.TOKEN"


def test_gang_is_told_the_value_and_what_is_written_of_it_does_not_show_it() -> None:
    pool, lumen = market()
    allow(lumen)
    put(tenants=["lumen"])
    register(member(lumen), secrets={"TOKEN": "hub"}, shape="parameter_server")
    spec = SPEC | {"program": {"name": "align", "version": 1, "parameters": {}}}
    award = make_award(pool, lumen, spec=spec)
    with scope(lumen):
        run = Run.objects.create(
            tenant=lumen, job=award.job, award=award, engine="local", key="a" * 32, program="align",
            state="starting", ends_at=pool.slot_start(9), due_at=pool.slot_start(0), seen_at=timezone.now(),
        )  # fmt: skip
        gang = gang_of(run, award, pool.slot_start(0))
        assert isinstance(gang, Gang)
        assert gang.own is not None
        assert gang.own.secrets == (("TOKEN", VALUE),)
        assert VALUE not in repr(gang)
        secret_remove(name="hub", by=BY, at=NOON, reason=WHY)
        fault = gang_of(run, award, pool.slot_start(0))
    assert isinstance(fault, Fault)
    assert fault.sentence == "The operator's store has no secret 'hub'."


@pytest.mark.parametrize("role", [*TENANT_ROLES, *STAFF_ROLES])
def test_page_is_the_operators_and_shows_no_value(role: str) -> None:
    lumen = make_tenant("lumen")
    put()
    client = client_as(role, None if role in STAFF_ROLES else lumen)
    page = client.get("/operator/secrets/", secure=True)
    assert page.status_code == (200 if role == OPERATOR else 403)
    assert VALUE not in page.content.decode()
    form = {"name": "second", "value": "second value", "tenants": "lumen", "reason": "asked for"}
    client.post("/operator/secrets/", form, secure=True)
    client.post("/operator/secrets/hub/remove/", {"reason": "leaked"}, secure=True)
    assert {row.name for row in secrets_listed()} == ({"second"} if role == OPERATOR else {"hub"})


def test_page_says_what_is_wrong_and_does_not_send_the_value_back() -> None:
    client = client_as(OPERATOR, None)
    form = {"name": "hub", "value": VALUE, "tenants": "nobody", "reason": "asked for"}
    page = client.post("/operator/secrets/", form, secure=True).content.decode()
    assert "There is no tenant nobody" in page
    assert VALUE not in page


def test_command_reads_the_value_from_its_input(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    make_tenant("lumen")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{VALUE}\n"))
    call_command("secret", "set", "hub", "--for", "lumen", "--reason", WHY)
    assert secrets_opened(program({"TOKEN": "hub"}), "lumen") == (("TOKEN", VALUE),)
    call_command("secret", "list")
    call_command("secret", "remove", "hub", "--reason", WHY)
    out = capsys.readouterr().out
    assert "hub" in out
    assert VALUE not in out
    with pytest.raises(CommandError, match="no such secret"):
        call_command("secret", "remove", "hub", "--reason", WHY)
