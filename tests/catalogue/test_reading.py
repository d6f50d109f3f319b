"""Who sees which programs, and whose words; what programs did; the command."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from scheduling.catalogue.read_catalogue import Deeds, read_catalogue, read_program
from scheduling.common import plain_document, plain_text
from scheduling.models import Run
from scheduling.programs.templates import TEMPLATES
from tenants.models import Tenant
from tenants.roles import AUDITOR, OPERATOR, STAFF_ROLES, TENANT_ROLES, VIEWER
from tenants.scoping import scope
from tests.api.builders import program_of
from tests.catalogue.builders import BY, allow, archive_with, member, register
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.live import SPEC, make_award, make_live_pool

pytestmark = pytest.mark.django_db
WORDS = {"command": [], "parameters": [], "script": "echo unseen-by-others\n"}


def lines(tenant: Tenant) -> list[tuple[str, str, int | None]]:
    with scope(tenant):
        return [(line.owner, line.name, line.version) for line in read_catalogue(tenant=tenant, at=NOON)]


def test_catalogue_has_ones_own_first_then_what_is_built_in_then_the_operators() -> None:
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    allow(lumen)
    register(BY, name="aaa")
    register(BY, name="hers", tenants=["castor"])
    register(member(lumen), name="mine")
    register(member(lumen), name="mine", title="Next")
    everybody = [("operator", "trainer", None), ("operator", "aaa", 1)]
    assert lines(lumen) == [("lumen", "mine", 2), *everybody]
    assert lines(castor) == [*everybody, ("operator", "hers", 1)]


def run_of(tenant: Tenant, pool: Any, program: dict[str, Any], *, state: str, hours: float) -> None:
    award = make_award(pool, tenant, spec=SPEC | {"program": program})
    with scope(tenant):
        Run.objects.create(
            tenant=tenant,
            job=award.job,
            award=award,
            engine="local",
            key=f"{award.pk}",
            program=program["name"],
            state=state,
            ends_at=NOON,
            due_at=NOON,
            started_at=NOON,
            ended_at=NOON + timedelta(hours=hours),
            seen_at=NOON,
        )


def test_deeds_are_counted_for_each_program_and_not_for_another_of_its_name() -> None:
    lumen, pool = make_tenant("lumen"), make_live_pool()
    allow(lumen)
    register(BY)
    register(member(lumen))
    own, theirs = {"name": "align", "version": 1}, {"name": "align", "version": 1, "owner": "operator"}
    run_of(lumen, pool, own, state="finished", hours=1.5)
    run_of(lumen, pool, own, state="failed", hours=0.5)
    run_of(lumen, pool, theirs, state="finished", hours=4)
    run_of(lumen, pool, {"name": "trainer", "parameters": {}}, state="finished", hours=3)
    with scope(lumen):
        at = NOON + timedelta(days=1)
        deeds = {(line.owner, line.name): line.deeds for line in read_catalogue(tenant=lumen, at=at)}
        page = read_program(owner="lumen", name="align", tenant=lumen, at=at)
        late = read_catalogue(tenant=lumen, at=NOON + timedelta(days=31))
    assert deeds == {
        ("lumen", "align"): Deeds(2, 1, 2.0, NOON),
        ("operator", "align"): Deeds(1, 1, 4.0, NOON),
        ("operator", "trainer"): Deeds(1, 1, 3.0, NOON),
    }
    assert page is not None
    assert [run.state for run in page.runs] == ["failed", "finished"]
    assert all(line.deeds.runs == 0 for line in late)


@pytest.mark.parametrize("role", [*TENANT_ROLES, *STAFF_ROLES])
@pytest.mark.parametrize("owner", ["lumen", "operator"])
def test_words_and_archive_are_shown_to_the_operator_and_members_of_the_owner(role: str, owner: str) -> None:
    lumen = make_tenant("lumen")
    allow(lumen)
    with scope(lumen):
        register(BY if owner == "operator" else member(lumen), archive_with("train.py"), **WORDS)
    caller = program_of(role, lumen)
    reply = caller.get(f"tenants/lumen/programs/of/{owner}/align/")
    archive = caller.get(f"tenants/lumen/programs/of/{owner}/align/versions/1/archive/")
    may = role == OPERATOR or (owner == "lumen" and role in TENANT_ROLES)
    assert reply.status_code == 200
    assert ("unseen-by-others" in reply.content.decode()) == may
    assert archive.status_code == (200 if may else 404)
    everything = caller.get("tenants/lumen/programs/").content.decode()
    assert "align" in everything
    assert "unseen-by-others" not in everything


@pytest.mark.parametrize("role", [VIEWER, AUDITOR, OPERATOR])
def test_program_of_another_tenant_is_not_found_under_ones_own_address(role: str) -> None:
    lumen, _ = make_tenant("lumen"), make_tenant("castor")
    allow(lumen)
    register(member(lumen), **WORDS)
    caller = program_of(role, make_tenant("castor"))
    assert caller.get("tenants/castor/programs/of/lumen/align/").status_code == 404
    assert "align" not in caller.get("tenants/castor/programs/").content.decode()


def test_refusal_of_the_interface_names_every_field() -> None:
    lumen = make_tenant("lumen")
    allow(lumen)
    caller = program_of("owner", lumen)
    reply = caller.post("tenants/lumen/programs/", {"document": {"name": "x", "shape": "round", "commnd": []}})
    assert reply.status_code == 422
    fields = [error["field"] for error in reply.json()["errors"]]
    assert fields == ["document.commnd", "document.shape", "document.command"]
    reply = caller.post("tenants/lumen/programs/", {"document": {}, "archive": "no base64!"})
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (400, "archive")


# ---------------------------------------------------------------- the command


def command(*words: str) -> str:
    out = StringIO()
    call_command("program", *words, stdout=out)
    return out.getvalue()


def test_operator_registers_lists_shows_and_retires(tmp_path: Path) -> None:
    make_tenant("castor")
    file, archive = tmp_path / "mine.yaml", tmp_path / "mine.tar.gz"
    file.write_text(plain_text(TEMPLATES["script"] | {"name": "mine"}), encoding="utf-8")
    archive.write_bytes(archive_with("train.py"))
    words = ("--archive", str(archive), "--for", "castor", "--reason", "first")
    assert command("register", str(file), *words).startswith("mine, version 1, is registered: ")
    assert command("register", str(file), *words).startswith("mine, version 1, is as before: ")
    assert "mine" in command("list")
    assert "trainer" in command("list")
    assert "castor" in command("list")
    assert command("offer", "mine", "--all", "--reason", "good") == "mine is for all tenants.\n"
    assert command("offer", "mine", "--for", "castor", "--reason", "no") == "mine is for castor.\n"
    text = command("show", "mine")
    assert 'echo "member $BOURSE_RANK' in text
    assert "version 1" in text
    assert command("retire", "mine", "--reason", "old") == "mine is retired.\n"
    assert "retired" in command("list")
    assert command("allow", "castor", "--reason", "asked for it") == "castor may bring programs.\n"
    assert command("allow", "castor", "--no", "--reason", "no more") == "castor may not bring programs.\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name: mine\nshape: round\n", "shape: must be one of"),
        ("just words", "write the fields of one program"),
        ("a: &x 1\nb: *x\n", "References"),
        ("name: mine\nparameters:\n  - name: rate\n    name: rates\n", "Line 4, column 5: 'name' stands there twice"),
        ("name: mine\n? [a]\n: 1\n", "unhashable"),
    ],
)
def test_file_that_is_no_program_is_refused_with_what_is_wrong(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=sentence):
        command("register", str(file), "--reason", "a try")


@pytest.mark.parametrize("template", TEMPLATES)
def test_template_is_shown_to_be_copied(template: str) -> None:
    text = command("show", template)
    assert plain_document(text, longest=10_000) == TEMPLATES[template]
