"""A credit with nine digits in place of six: whoever changes `scheduling.core.currency` changes nothing else.

In a process of its own, for what a credit has is read as the modules are loaded.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from django.conf import settings

from scheduling.core.currency import DIGITS

OTHER = 9
PROGRAM = f"""
from scheduling.core import currency
currency.DIGITS, currency.DIGITS_IN_WORDS, currency.MICRO = {OTHER}, "nine", 10**{OTHER}
import django, json
django.setup()
from bourse_client.command.screen import CREDITS, credits
from scheduling.audit.bundle import check
from scheduling.core import settlement
from tenants.api.fields import READ_CREDITS, SHOWN_CREDITS, Credits
from tenants.api.reference import operations
from tenants.api.schema import document
from tenants.ledger import amounts
booking = {{"paid": 1.2345678905, "slot_payouts": {{"runs": [[1, 1.0]]}}}}
print(json.dumps({{
    "document": document(),
    "problem": operations.problem().example,
    "paid": [settlement.micro(booking["paid"]), check.charges_of(booking, [7], amounts.DIGITS)[0][0][1]],
    "written": [amounts.exported(1), amounts.amount_read("1.234567891"), amounts.shown(1_235_000_000)],
    "invalid": Credits.default_error_messages["invalid"],
    "client": [bool(CREDITS.fullmatch(amounts.exported(1))), credits(amounts.exported(1_234_500_000_001))],
}}, default=str))
"""


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """What such a process says."""
    path = os.pathsep.join([str(settings.BASE_DIR), str(settings.BASE_DIR / "client")])
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=settings.BASE_DIR,
        env={**os.environ, "PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "marketplace.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    document: dict[str, Any] = json.loads(run.stdout)
    return document


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.wide
def test_book_and_the_program_in_a_bundle_count_in_nine(report: dict[str, Any]) -> None:
    assert report["paid"] == [1_234_567_891, 1_234_567_891]


@pytest.mark.wide
def test_amounts_are_read_and_written_with_nine(report: dict[str, Any]) -> None:
    assert report["written"] == ["0.000000001", 1_234_567_891, "1.24"]
    assert "nine digits" in report["invalid"]


def test_every_amount_that_the_interface_shows_has_nine(report: dict[str, Any]) -> None:
    amounts = texts(report["document"]) + re.findall(r"\"([^\"]*)\"", report["problem"])
    with_digits = [len(text.partition(".")[2]) for text in amounts if re.fullmatch(r"-?[0-9]+\.[0-9]{5,}", text)]
    assert len(with_digits) > 100
    assert set(with_digits) == {OTHER} != {DIGITS}
    assert "with nine digits" in report["document"]["info"]["description"]


def test_command_line_knows_an_amount_by_nine(report: dict[str, Any]) -> None:
    assert report["client"] == [True, "1,234.500000001"]
