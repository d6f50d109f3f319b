"""A job names a program of the catalogue that its tenant may use; its parameters are checked, its version stays."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.catalogue.registration import program_retire
from scheduling.jobs.submission import InvalidJob, Submitted, job_submit
from scheduling.models import Pool
from scheduling.programs.stored import stored_program
from tenants.access import Refused
from tenants.models import Tenant
from tenants.scoping import scope
from tests.catalogue.builders import BY, WHY, allow, member, register
from tests.scheduling.builders import NOON, make_server, make_tenant
from tests.scheduling.live import SPEC, fund, make_live_pool

pytestmark = pytest.mark.django_db
RING: dict[str, Any] = {name: value for name, value in SPEC.items() if name != "ps_mbps"} | {"ps_demand": []}
UNITS = {"epochs": 1, "chunks": 4}


@pytest.fixture
def pool() -> Pool:
    pool = make_live_pool()
    make_server(pool)
    return pool


@pytest.fixture
def lumen() -> Tenant:
    tenant = make_tenant("lumen")
    fund(tenant)
    allow(tenant)
    return tenant


def submit(pool: Pool, tenant: Tenant, program: Any, spec: Any = RING, key: str | None = None) -> Submitted | Refused:
    return job_submit(
        pool=pool,
        name="train",
        spec=spec | {"program": program},
        lane="batch",
        by=member(tenant),
        at=NOON,
        client_key=key,
    )


def pinned(outcome: Any) -> Any:
    assert isinstance(outcome, Submitted), outcome
    with scope(outcome.job.tenant):
        outcome.job.refresh_from_db()
    return outcome.job.spec["program"]


def fault(outcome: Any) -> tuple[str, str]:
    assert isinstance(outcome, InvalidJob), outcome
    return outcome.field, outcome.sentence


def test_version_of_the_moment_is_pinned_and_stays(pool: Pool, lumen: Tenant) -> None:
    register(member(lumen))
    first = submit(pool, lumen, {"name": "align", "parameters": {"rate": 0.5}}, key="once")
    assert pinned(first) == {"name": "align", "version": 1, "parameters": {"rate": 0.5}}
    register(member(lumen), title="Next")
    assert pinned(submit(pool, lumen, {"name": "align"}))["version"] == 2
    assert pinned(submit(pool, lumen, {"name": "align", "version": 1}))["version"] == 1
    again = submit(pool, lumen, {"name": "align", "parameters": {"rate": 0.5}}, key="once")
    assert isinstance(again, Submitted)
    assert again.repeated
    assert pinned(again)["version"] == 1


def test_job_with_the_operators_program_keeps_it_when_the_tenant_brings_one_of_that_name(
    pool: Pool, lumen: Tenant
) -> None:
    register(BY, title="Theirs")
    pin = pinned(submit(pool, lumen, {"name": "align"}))
    assert pin == {"name": "align", "version": 1, "parameters": {}, "owner": "operator"}
    register(member(lumen), title="Mine")
    version = stored_program(tenant_id=lumen.pk, name="align", version=pin["version"], owner=pin["owner"])
    assert version is not None
    assert version.program.title == "Theirs"
    assert "owner" not in pinned(submit(pool, lumen, {"name": "align"}))
    assert pinned(submit(pool, lumen, {"name": "align", "owner": "operator"}))["owner"] == "operator"


@pytest.mark.parametrize(
    ("program", "field"),
    [
        ({"name": "algn"}, "program.name"),
        ({"name": 7}, "program.name"),
        ({}, "program.name"),
        ({"name": "align", "version": 2}, "program.version"),
        ({"name": "align", "version": True}, "program.version"),
        ({"name": "align", "version": "1"}, "program.version"),
        ({"name": "align", "owner": "castor"}, "program.owner"),
        ({"name": "align", "owner": "operator"}, "program.name"),
        ({"name": "align", "command": ["sh"]}, "program.command"),
        ({"name": "align", "parameters": ["rate"]}, "program.parameters"),
        ({"name": "align", "parameters": {"rate": 2}}, "program.parameters.rate"),
        ({"name": "align", "parameters": {"rat": 1}}, "program.parameters.rat"),
        ("align", "program"),
        ({"name": "trainer", "parameters": UNITS}, "ps_demand"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(pool: Pool, lumen: Tenant, program: Any, field: str) -> None:
    register(member(lumen))
    assert fault(submit(pool, lumen, program))[0] == field


def test_name_that_is_nearly_right_is_told(pool: Pool, lumen: Tenant) -> None:
    register(member(lumen))
    assert "did you mean align?" in fault(submit(pool, lumen, {"name": "algn"}))[1]


@pytest.mark.parametrize("version", [None, 1])
def test_own_program_that_is_retired_is_said_to_be(pool: Pool, lumen: Tenant, version: int | None) -> None:
    register(member(lumen))
    program_retire(name="align", by=member(lumen), at=NOON)
    program = {"name": "align"} | ({"version": version} if version else {})
    field, sentence = fault(submit(pool, lumen, program))
    assert field == "program.name"
    assert "is retired: no new job can name it" in sentence
    assert "is no program that you may use" in fault(submit(pool, lumen, program | {"owner": "operator"}))[1]


@pytest.mark.parametrize("shape", ["all_reduce", "independent", "parameter_server"])
def test_shape_of_the_program_is_that_of_the_job(pool: Pool, lumen: Tenant, shape: str) -> None:
    register(member(lumen), shape=shape)
    fits, other = (SPEC, RING) if shape == "parameter_server" else (RING, SPEC)
    assert isinstance(submit(pool, lumen, {"name": "align"}, fits), Submitted)
    assert fault(submit(pool, lumen, {"name": "align"}, other))[0] == "ps_demand"


def test_what_a_tenant_may_not_use_is_not_there(pool: Pool, lumen: Tenant) -> None:
    castor = make_tenant("castor")
    fund(castor)
    register(member(lumen), name="mine")
    register(BY, name="theirs", tenants=["castor"])
    register(BY, name="gone")
    program_retire(name="gone", by=BY, at=NOON, reason=WHY)
    for tenant, name in ((castor, "mine"), (lumen, "theirs"), (lumen, "gone")):
        for version in (None, 1):
            program = {"name": name} | ({"version": version} if version else {})
            field, sentence = fault(submit(pool, tenant, program))
            assert (field, "mine" in sentence.replace(name, "")) == ("program.name", tenant == lumen)
    allow(lumen, may_bring=False)
    assert fault(submit(pool, lumen, {"name": "mine"}))[0] == "program.name"
