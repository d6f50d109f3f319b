"""The catalogue's pages: who sees which, whose words, and that what is registered there is what was written."""

from __future__ import annotations

import random
import re
from html import unescape
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from scheduling.catalogue.pages.programs import pieces
from scheduling.catalogue.registration import program_retire
from scheduling.models import CatalogueProgram, ProgramArchive, ProgramSwitch, ProgramVersion
from scheduling.programs.templates import TEMPLATES
from tenants.models import Tenant
from tenants.roles import AUDITOR, OPERATOR, OWNER, STAFF_ROLES, SUBMITTER, TENANT_ROLES, VIEWER
from tests.catalogue.builders import BY, allow, archive_with, member, register
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.live import make_live_pool
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db
SCRIPT = {"command": [], "parameters": [], "script": "echo '<b>unseen-by-others</b>'\n"}
TEXT = "name: mine\nshape: independent\nscript: |\n  #!/bin/bash\n  echo 1\n"


def lumen_that_may() -> Tenant:
    lumen = make_tenant("lumen")
    allow(lumen)
    return lumen


def html(client: Any, path: str, status: int = 200) -> str:
    answer = client.get(path, secure=True)
    assert answer.status_code == status
    return str(answer.getvalue().decode(errors="replace"))


@pytest.mark.parametrize("role", [*TENANT_ROLES, *STAFF_ROLES])
@pytest.mark.parametrize("owner", ["lumen", "operator"])
def test_words_are_shown_to_the_operator_and_members_of_the_owner(role: str, owner: str) -> None:
    lumen = lumen_that_may()
    register(BY if owner == "operator" else member(lumen), archive_with("train.py"), **SCRIPT)
    client = client_as(role, None if role in STAFF_ROLES else lumen)
    may = role == OPERATOR or (owner == "lumen" and role in TENANT_ROLES)
    page = html(client, f"/t/lumen/programs/of/{owner}/align/")
    assert ("&lt;b&gt;unseen-by-others" in page) == may
    assert "<b>unseen-by-others" not in page
    html(client, f"/t/lumen/programs/of/{owner}/align/1/archive/", 200 if may else 404)
    assert "unseen-by-others" not in html(client, "/t/lumen/programs/")


@pytest.mark.parametrize("owner", ["lumen", "operator"])
@pytest.mark.parametrize("shape", ["all_reduce", "parameter_server"])
def test_a_job_of_a_program_begins_at_its_page(owner: str, shape: str) -> None:
    lumen = lumen_that_may()
    make_live_pool()
    for name in ("align", "other"):  # the newest would be the first on the form
        register(BY if owner == "operator" else member(lumen), name=name, shape=shape)
    reader = client_as(SUBMITTER, lumen)
    page = html(reader, f"/t/lumen/programs/of/{owner}/align/")
    (address,) = re.findall(r'href="(/t/lumen/submit/\?program=[^"]+)"', page)
    form = html(reader, unescape(address))
    choice = f"{'operator' if owner == 'operator' else ''}:align:1"
    if shape == "parameter_server":  # it is described in detail
        assert re.findall(r'<input type="radio"\s+name="program"\s+value="([^"]*)"\s+checked', form) == [choice]
    else:
        (choices,) = re.findall(r'<select name="runs".*?</select>', form, re.DOTALL)
        assert re.findall(r'<option value="([^"]*)" selected', choices) == [choice]
    assert 'name="name" value="align"' in form


def test_no_job_begins_where_none_may_be_submitted() -> None:
    lumen = lumen_that_may()
    register(member(lumen))
    assert "Submit a job of it" not in html(client_as(VIEWER, lumen), "/t/lumen/programs/of/lumen/align/")
    program_retire(name="align", by=member(lumen), at=NOON)
    reader = client_as(SUBMITTER, lumen)
    assert "Submit a job of it" not in html(reader, "/t/lumen/programs/of/lumen/align/")
    register(member(lumen), name="other")
    allow(lumen, may_bring=False)
    assert "Submit a job of it" not in html(reader, "/t/lumen/programs/of/lumen/other/")
    make_live_pool()
    for odd in (":align:1", "::", ":nobody:7", "%00", ":align:99999999999"):
        assert 'value="my-job"' in html(reader, f"/t/lumen/submit/?program={odd}")


def test_program_of_another_tenant_is_not_there() -> None:
    register(member(lumen_that_may()), archive_with("train.py"))
    client = client_as(OWNER, make_tenant("castor"))
    html(client, "/t/castor/programs/of/lumen/align/", 404)
    html(client, "/t/castor/programs/of/lumen/align/1/archive/", 404)
    html(client, "/t/lumen/programs/", 404)
    assert "align" not in html(client, "/t/castor/programs/")


@pytest.mark.parametrize("role", [*TENANT_ROLES, AUDITOR])
def test_operators_pages_are_for_the_staff_and_its_words_and_changes_for_the_operator(role: str) -> None:
    client = client_as(role, None if role == AUDITOR else lumen_that_may())
    register(BY, archive_with("train.py"), **SCRIPT)
    for path in ("", "of/operator/trainer/", "of/operator/align/"):
        assert "unseen-by-others" not in html(client, f"/operator/programs/{path}", 200 if role == AUDITOR else 403)
    html(client, "/operator/programs/of/operator/align/1/archive/", 404 if role == AUDITOR else 403)
    html(client, "/operator/programs/new/", 403)
    assert client.post("/operator/programs/new/", {"text": TEXT, "reason": "a try"}, secure=True).status_code == 403
    assert client.post("/operator/programs/allow/", {"tenant": "lumen"}, secure=True).status_code == 403
    client.post("/operator/programs/align/retire/", {"reason": "a try"}, secure=True)
    assert CatalogueProgram.objects.get().retired_at is None
    assert ProgramVersion.objects.count() == 1


def test_operator_sees_everything_and_says_who_may_bring() -> None:
    lumen = lumen_that_may()
    register(member(lumen), name="hers", **SCRIPT)
    register(BY, name="theirs")
    client = client_as(OPERATOR, None)
    page = html(client, "/operator/programs/")
    assert all(name in page for name in ("hers", "theirs", "trainer", *TEMPLATES))
    assert "unseen-by-others" in html(client, "/operator/programs/of/lumen/hers/")
    html(client, "/operator/programs/of/operator/trainer/")
    client.post("/operator/programs/allow/", {"tenant": "lumen", "may_bring": "no"}, secure=True)
    assert ProgramSwitch.objects.get(tenant=lumen).may_bring  # nobody said why
    form = {"tenant": "lumen", "may_bring": "no", "reason": "enough"}
    client.post("/operator/programs/allow/", form, secure=True)
    assert not ProgramSwitch.objects.get(tenant=lumen).may_bring


@pytest.mark.parametrize("template", TEMPLATES)
def test_template_is_copied_into_the_form_and_can_be_registered(template: str) -> None:
    lumen = lumen_that_may()
    client = client_as(SUBMITTER, lumen)
    answer = client.get(f"/t/lumen/programs/new/?copy={template}", secure=True)
    text = answer.context["form"]["text"].value()
    answer = client.post("/t/lumen/programs/new/", {"text": text.replace("\n", "\r\n")}, secure=True)
    assert answer.status_code == 302
    row = ProgramVersion.objects.get()
    assert row.document == TEMPLATES[template]
    html(client, answer["Location"])


def test_edit_makes_the_next_version_with_its_archive() -> None:
    lumen = lumen_that_may()
    register(member(lumen))
    client = client_as(SUBMITTER, lumen)
    answer = client.get("/t/lumen/programs/new/?edit=align", secure=True)
    text = answer.context["form"]["text"].value()
    assert "--rate={rate}" in text
    archive = SimpleUploadedFile("a.tar.gz", archive_with("train.py"))
    answer = client.post("/t/lumen/programs/new/?edit=align", {"text": text, "archive": archive}, secure=True)
    assert answer.status_code == 302
    assert (ProgramVersion.objects.count(), ProgramArchive.objects.count()) == (2, 1)
    page = html(client, "/t/lumen/programs/of/lumen/align/?version=1")
    assert '<b class="own">{rate}</b>' in page
    assert "version 1" in page
    other = client.post("/t/lumen/programs/new/?edit=align", {"text": TEXT}, secure=True)
    assert b"must stay align" in other.content


def test_archive_larger_than_any_other_body_comes_by_page_and_goes_as_it_came() -> None:
    client = client_as(SUBMITTER, lumen_that_may())
    page = html(client, "/t/lumen/programs/new/")
    address = unescape(re.findall(r'action="([^"]*upload=[^"]*)"', page)[0])
    content = archive_with("data", content=random.Random(1).randbytes(3 << 20))
    archive = SimpleUploadedFile("a.tar.gz", content)
    assert client.post(address, {"text": TEXT, "archive": archive}, secure=True).status_code == 302
    file = client.get("/t/lumen/programs/of/lumen/mine/1/archive/", secure=True)
    assert file.getvalue() == content
    assert file["Content-Disposition"] == 'attachment; filename="mine-1.tar.gz"'
    outside = SimpleUploadedFile("a.tar.gz", archive_with("../up"))
    refused = client.post(address, {"text": TEXT + "title: x\n", "archive": outside}, secure=True)
    assert "leaves the folder" in refused.content.decode()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("name: mine\nshape: round\n", "shape</code> must be one of"), ("a: [", "Line "), ("words", "one program")],
)
def test_what_is_wrong_is_told_beside_the_text(text: str, sentence: str) -> None:
    client = client_as(SUBMITTER, lumen_that_may())
    answer = client.post("/t/lumen/programs/new/", {"text": text}, secure=True)
    assert answer.status_code == 200
    assert sentence in answer.content.decode()
    assert text.split("\n")[0] in answer.content.decode()


def test_operator_registers_with_a_reason_for_all_or_for_some() -> None:
    make_tenant("lumen")
    client = client_as(OPERATOR, None)
    for fields, sentence in (
        ({}, b"Say why"),
        ({"reason": "asked for", "tenants": "nobody"}, b"There is no tenant nobody"),
    ):
        assert sentence in client.post("/operator/programs/new/", {"text": TEXT} | fields, secure=True).content
    fields = {"text": TEXT, "reason": "asked for", "tenants": "lumen, "}
    assert client.post("/operator/programs/new/", fields, secure=True).status_code == 302
    assert CatalogueProgram.objects.get().tenants == ["lumen"]


@pytest.mark.parametrize(("role", "may"), [(VIEWER, True), (SUBMITTER, False)])
def test_form_is_for_those_who_may_register(role: str, may: bool) -> None:
    lumen = make_tenant("lumen")
    allow(lumen, may_bring=may)
    client = client_as(role, lumen)
    html(client, "/t/lumen/programs/new/", 403)
    assert client.post("/t/lumen/programs/new/", {"text": TEXT}, secure=True).status_code == 403
    assert "New program" not in html(client, "/t/lumen/programs/")


def test_program_is_retired_by_a_member_and_stays_in_sight() -> None:
    lumen = lumen_that_may()
    register(member(lumen))
    client = client_as(SUBMITTER, lumen)
    client.post("/t/lumen/programs/align/retire/", secure=True)
    assert "Retired" in html(client, "/t/lumen/programs/")


def test_placeholders_stand_out_of_a_word() -> None:
    assert pieces("--out={dir}/{name}.txt") == [
        ("--out=", False),
        ("{dir}", True),
        ("/", False),
        ("{name}", True),
        (".txt", False),
    ]


def test_of_two_who_edit_a_program_the_second_is_told_of_the_first() -> None:
    """Each sends all that the program says, and would undo without a word what the other has changed."""
    lumen = lumen_that_may()
    register(member(lumen), **SCRIPT)
    client, there = client_as(SUBMITTER, lumen), "/t/lumen/programs/new/?edit=align"
    page = html(client, there)
    text = unescape(re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.S)[1])  # type: ignore[index]
    version = {"latest_seen": re.search(r'name="latest_seen" value="(\d*)"', page)[1]}  # type: ignore[index]
    first, second = (text.replace("unseen", word) for word in ("first", "second"))
    assert client.post(there, {"text": first, **version}, secure=True).status_code == 302
    assert client.post(there, {"text": first, **version}, secure=True).status_code == 302  # pressed twice
    answer = client.post(there, {"text": second, **version}, secure=True).content.decode()
    assert "Somebody has registered another version" in answer
    assert unescape(re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", answer, re.S)[1]) == second  # type: ignore[index]
    assert ProgramVersion.objects.count() == 2
    version = {"latest_seen": re.search(r'name="latest_seen" value="(\d*)"', answer)[1]}  # type: ignore[index]
    assert client.post(there, {"text": second, **version}, secure=True).status_code == 302
    assert ProgramVersion.objects.count() == 3
