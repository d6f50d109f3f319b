"""Who tries things names each job anew and changes a line each time: what scripts become fills neither the catalogue
nor its pages and forms."""

from __future__ import annotations

import re
from typing import Any

import pytest

from scheduling.catalogue import read_catalogue, registration
from scheduling.catalogue.pages import programs as pages
from scheduling.catalogue.registration import program_register
from scheduling.programs.catalogue import FROM_SCRIPT
from scheduling.quotes.pages import submit_catalogue
from scheduling.quotes.pages.submit_catalogue import offered_programs
from tenants.access import Refused
from tenants.models import Tenant
from tenants.roles import OPERATOR, OWNER
from tests.catalogue.builders import DOCUMENT, allow, member, register
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db
SCRIPT: dict[str, Any] = {"command": [], "parameters": [], "script": "echo 1\n"}


@pytest.fixture
def lumen() -> Tenant:
    tenant = make_tenant("lumen")
    allow(tenant)
    return tenant


def scripts(tenant: Tenant, *names: str) -> None:
    for name in names:
        register(member(tenant), name=name + FROM_SCRIPT, **SCRIPT)


def is_refused(tenant: Tenant, **fields: Any) -> bool:
    outcome = program_register(document=DOCUMENT | fields, archive=None, by=member(tenant), at=NOON)
    assert not isinstance(outcome, Refused) or outcome.code == "too_many_programs"
    return isinstance(outcome, Refused)


def test_scripts_leave_room_for_programs_and_have_a_room_of_their_own(
    lumen: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "MOST_PROGRAMS", 1)
    monkeypatch.setattr(registration, "MOST_SCRIPTS", 2)
    scripts(lumen, "a", "b")
    assert is_refused(lumen, name="c" + FROM_SCRIPT, **SCRIPT)
    assert not is_refused(lumen, name="a" + FROM_SCRIPT, **SCRIPT | {"script": "echo 2\n"})
    assert not is_refused(lumen, name="align")
    assert is_refused(lumen, name="another")


def test_the_form_offers_the_newest_names_and_the_page_lists_them_and_counts_the_others(
    lumen: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit_catalogue, "OFFERED_SCRIPTS", 1)
    monkeypatch.setattr(pages, "MOST_SCRIPTS_SHOWN", 2)
    register(member(lumen))
    scripts(lumen, "z", "m", "a")
    own = [each.program.name for each in offered_programs(lumen.pk) if each.program.owner.tenant]
    assert own == ["a-sbatch", "align"]
    client = client_as(OWNER, lumen)
    page = client.get("/t/lumen/programs/", secure=True).content.decode()
    assert re.findall(r"programs/of/lumen/([a-z-]+)/", page) == ["a-sbatch", "align", "m-sbatch"]
    assert "1 older" in page
    assert "What a job can start. 4 are Lumen’s" in text_of(page)
    of_operators = client_as(OPERATOR, None).get("/operator/programs/", secure=True).content.decode()
    assert "4 that tenants brought themselves" in text_of(of_operators)
    assert client.get("/t/lumen/programs/of/lumen/z-sbatch/", secure=True).status_code == 200


def test_a_programs_page_lists_its_newest_versions_and_each_can_be_opened(
    lumen: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_catalogue, "MOST_VERSIONS_SHOWN", 2)
    for number in range(4):
        register(member(lumen), name="a-sbatch", **SCRIPT | {"script": f"echo {number}\n"})
    client = client_as(OWNER, lumen)
    page = client.get("/t/lumen/programs/of/lumen/a-sbatch/", secure=True).content.decode()
    assert re.findall(r"\?version=([0-9]+)", page) == ["4", "3"]
    assert "2 older" in page
    first = client.get("/t/lumen/programs/of/lumen/a-sbatch/?version=1", secure=True)
    assert "echo 0" in first.content.decode()
