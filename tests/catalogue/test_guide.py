"""The guide's page on programs: what it shows can be done, and its table has every field."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from bourse_client.command.parser import parser_made
from bourse_client.job_file import read_program
from scheduling.catalogue.registration import Registered, program_register
from scheduling.common import plain_document
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.management.commands.program import Command
from scheduling.management.commands.secret import Command as Secret
from scheduling.programs.catalogue import FIELDS
from scheduling.programs.templates import TEMPLATES
from tests.catalogue.builders import allow, archive_with, member
from tests.catalogue.test_submitting import RING
from tests.scheduling.builders import NOON, make_server, make_tenant
from tests.scheduling.live import fund, make_live_pool

TEXT = (Path(settings.BASE_DIR) / "docs" / "guide" / "programs.md").read_text(encoding="utf-8")
PROGRAM = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)[0]


@pytest.mark.django_db
def test_program_of_the_page_can_be_registered_and_run_by_a_job() -> None:
    lumen, pool = make_tenant("lumen"), make_live_pool()
    make_server(pool)
    fund(lumen)
    allow(lumen)
    document = plain_document(PROGRAM, longest=10_000)
    assert read_program(PROGRAM) == document
    registered = program_register(
        document=document, archive=io.BytesIO(archive_with("train.py")), by=member(lumen), at=NOON
    )
    assert isinstance(registered, Registered)
    record: dict[str, Any] = json.loads("{" + re.findall(r'^ {4}("program": .*)$', TEXT, re.MULTILINE)[0] + "}")
    job = job_submit(pool=pool, name="train", spec=RING | record, lane="batch", by=member(lumen), at=NOON)
    assert isinstance(job, Submitted), job
    assert job.job.spec["program"] == record["program"] | {"version": 1}


def test_table_has_every_field_of_a_program() -> None:
    rows = re.findall(r"^\| (`.+?`) \|", TEXT, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(FIELDS)


def test_page_names_every_template() -> None:
    assert all(f"`{name}`" in TEXT for name in TEMPLATES)


def test_each_command_of_the_page_is_one() -> None:
    ours = re.findall(r"^ {4}bourse (.+)$", TEXT, re.MULTILINE)
    operators = re.findall(r"`manage\.py program (\w+ [^`]+)`", TEXT)
    assert len(ours) == 3
    assert len(operators) == 4
    for line in ours:
        parser_made().parse_args(line.split())
    for line in operators:
        words = re.findall(r'"[^"]*"|\S+', line)
        Command().create_parser("manage.py", "program").parse_args(words)
    for line in re.findall(r"`manage\.py secret (\w+ [^`]+)`", TEXT):
        words = re.findall(r'"[^"]*"|\S+', line)
        assert Secret().create_parser("manage.py", "secret").parse_args(words).name == "hub"
