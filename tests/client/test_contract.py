"""The client speaks the published interface and nothing else: addresses, parameters, bodies and the answers' names."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from bourse_client import Client, shapes
from bourse_client.command.parser import METHODS as KINDS_OF_CALLS
from bourse_client.command.parser import SERVER_STATES, STATES
from tests.client.stub import good, streaming, stub_server, text

DOCUMENT = yaml.load(
    (Path(__file__).parents[2] / "docs" / "openapi.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
ROOT = "/api/v1/"
PAGE = {"next": None, "previous": None, "results": []}
Do = Callable[[Client], Any]
# Method -> the operation it stands for.
METHODS: dict[str, Do] = {
    "me_read": lambda client: client.me(),
    "jobs_list": lambda client: list(client.jobs(state=["queued"], lane="batch", pool="main", name="x", reason="y")),
    "jobs_read": lambda client: client.job(7),
    "jobs_create": lambda client: client.job_submit({}, pool="main", name="x", otherwise="batch"),
    "jobs_bulk": lambda client: client.jobs_submit([{"name": "x", "spec": {}}], pool="main"),
    "arrays_create": lambda client: client.array_submit({"spec": {}}, pool="main", name="x", count=2),
    "arrays_read": lambda client: client.array(7),
    "array_cancel": lambda client: client.array_cancel(7),
    "jobs_parse": lambda client: client.job_parse({"hours": {}, "worth": {}}, pool="main"),
    "jobs_description": lambda client: client.job_description(7),
    "job_cancel": lambda client: client.job_cancel(7),
    "jobs_cancel": lambda client: client.jobs_cancel([7]),
    "job_queue": lambda client: client.job_queue(7),
    "jobs_explain": lambda client: client.job_explain(7),
    "jobs_pieces": lambda client: client.job_pieces(7),
    "jobs_logs": lambda client: client.job_logs(7, after=3, search="x", level="error", who="w 1", run_number=2),
    "jobs_log_file": lambda client: client.job_log_file(7, run_number=2),
    "jobs_files": lambda client: client.job_files(7),
    "jobs_file_content": lambda client: client.job_file(7, "a/b", BytesIO()),
    "programs_list": lambda client: list(client.programs()),
    "programs_read": lambda client: client.program("align", owner="operator", version=2),
    "programs_register": lambda client: client.program_register({}, archive=b"1"),
    "program_versions_register": lambda client: client.program_continue("align", {}, archive=b"1"),
    "program_uploads_begin": lambda client: client.program_upload({}, b"1"),
    "programs_upload": lambda client: client.program_upload({}, b"1"),
    "programs_retire": lambda client: client.program_retire("align"),
    "program_archive_read": lambda client: client.program_archive("align", 2, owner="operator"),
    "quotes_create": lambda client: client.quote({}, pool="main", name="x"),
    "what_ifs_create": lambda client: client.what_if(7, "max_price", 2.5, interval=3, pool="main"),
    "what_ifs_read": lambda client: client.what_if_read(7),
    "what_ifs_cancel": lambda client: client.what_if_cancel(7),
    "what_ifs_list": lambda client: list(client.what_ifs()),
    "what_ifs_fields": lambda client: list(client.what_if_fields()),
    "studies_list": lambda client: list(client.studies()),
    "studies_read": lambda client: client.study(7),
    "studies_create": lambda client: client.study_create({}, files={"log.txt": b"1"}, pool="main", start="x", end="y"),
    "studies_start": lambda client: client.study_start(7),
    "studies_cancel": lambda client: client.study_cancel(7),
    "studies_resume": lambda client: client.study_resume(7),
    "studies_show": lambda client: client.study_show(7, shown=True),
    "studies_remove": lambda client: client.study_remove(7),
    "studies_report": lambda client: client.study_report(7),
    "studies_figures": lambda client: client.study_figures(7),
    "pools_list": lambda client: list(client.pools()),
    "prices_now": lambda client: list(client.prices_now("main")),
    "prices_ahead": lambda client: list(client.prices_ahead("main", lane="batch", resource="worker")),
    "prices_history": lambda client: list(client.prices_history("main", lane="batch", resource="worker")),
    "servers_list": lambda client: list(client.servers("main", state=["lost"])),
    "quota_read": lambda client: client.quota("main"),
    "sharing_read": lambda client: client.sharing("main"),
    "ledger_balances": lambda client: client.balances(),
    "ledger_entries": lambda client: list(client.entries(account="held", kind="settle", job=7)),
    "statements_read": lambda client: client.statement("2026-11"),
    "statement_lines": lambda client: client.statement_csv("2026-11"),
    "events_list": lambda client: list(client.events(after=3, ordering="-id")),
    "events_stream": lambda client: list(islice(client.events_followed(after=3), 1)),
}
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if isinstance(operation, dict) and "operationId" in operation
}
# What the client reads of an answer -> what the schema calls it.
SHAPES = {
    "Job": "JobShown",
    "JobWithSpec": "JobWithSpec",
    "Parsed": "Parsed",
    "ScriptLine": "ScriptLineShown",
    "Description": "DescriptionShown",
    "Explanation": "Explanation",
    "Reason": "ReasonShown",
    "BulkJob": "BulkJob",
    "CancelOutcome": "CancelOutcome",
    "Payee": "Payee",
    "Terms": "TermsShown",
    "Estimate": "EstimateShown",
    "Change": "ChangeShown",
    "Course": "CourseShown",
    "ByUse": "ByUseShown",
    "Quote": "QuoteShown",
    "WhatIf": "WhatIfShown",
    "WhatIfResult": "WhatIfResult",
    "WhatIfJob": "WhatIfJob",
    "WhatIfOutcome": "OutcomeShown",
    "WhatIfTenant": "WhatIfTenant",
    "WhatIfPrice": "WhatIfPrice",
    "StudyRow": "StudyRow",
    "Study": "StudyShown",
    "StudyAnswer": "StudyAnswer",
    "OwnTenant": "OwnTenantShown",
    "Me": "MeShown",
    "Log": "LogShown",
    "LogLine": "LogLineShown",
    "JobFile": "JobFileShown",
    "JobFiles": "JobFilesShown",
    "Price": "PriceShown",
    "Server": "ServerShown",
    "Capacity": "CapacityShown",
    "OwnerOfUnits": "OwnerShown",
    "Quota": "QuotaShown",
    "UnitsOfResource": "ResourceQuota",
    "UnitsOnServer": "ServerQuota",
    "RentedUnits": "RentedUnits",
    "Sharing": "SharingShown",
    "Balances": "BalancesShown",
    "Total": "TotalShown",
    "Statement": "StatementShown",
    "Event": "EventShown",
}
SECOND = ("programs_upload",)  # after a call that allows it
ANSWERS = dict.fromkeys(("program_uploads_begin", "programs_upload"), good({"upload": "a ticket"}))
ANSWERS |= {
    "jobs_bulk": good({"results": []}),
    "jobs_cancel": good({"results": []}),
    "statement_lines": text("", "text/csv"),  # it has them as JSON, too
    "events_stream": streaming('id: 4\ndata: {"id": 4}\n\n'),
}


@pytest.mark.parametrize("name", METHODS)
def test_method_calls_its_operation_as_the_schema_has_it(name: str) -> None:
    method, path, operation = OPERATIONS[name]
    kind = next(iter(next(answer for status, answer in operation["responses"].items() if status < "3")["content"]))
    usual = good(PAGE) if kind == "application/json" else text("", kind)
    with stub_server(ANSWERS.get(name, usual)) as stub, Client(stub.address, "t", tenant="lumen") as client:
        METHODS[name](client)
    call = stub.calls[name in SECOND]
    address, _, query = call.path.partition("?")
    assert (call.method, bool(re.fullmatch(re.sub(r"\{\w+\}", r"[^/]+", path), address))) == (method, True), address
    names = (
        {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"} if query else set()
    )
    assert {part.partition("=")[0] for part in query.split("&") if part} <= names
    assert (call.key is not None) == (method == "POST")


@pytest.mark.parametrize(("shape", "schema"), SHAPES.items())
def test_answers_have_the_names_that_the_client_reads(shape: str, schema: str) -> None:
    schema_part = DOCUMENT["components"]["schemas"][schema]
    assert set(getattr(shapes, shape).__annotations__) <= set(schema_part["required"]) | set(schema_part["properties"])


def test_states_are_those_of_the_schema() -> None:
    parameters = {parameter["name"]: parameter for parameter in OPERATIONS["jobs_list"][2]["parameters"]}
    assert parameters["state"]["schema"]["items"]["enum"] == list(STATES)
    assert set(STATES) > shapes.OVER
    parameters = {parameter["name"]: parameter for parameter in OPERATIONS["servers_list"][2]["parameters"]}
    assert parameters["state"]["schema"]["items"]["enum"] == list(SERVER_STATES)


def test_calls_are_made_in_every_way_of_the_schema() -> None:
    assert {method for method, _, _ in OPERATIONS.values()} == set(KINDS_OF_CALLS)
