"""Which addresses refuse which role, by reading and by sending, against the table in `who_may_open_what.json`.

An address that refuses fewer than the table says is a hole, or a decision: write the file anew with
BOURSE_WRITE_BASELINE=1 (and `-m "wide or not wide" -n 0`), read the difference, and say why in the commit. Who is
refused a change for other reasons than the address is up to the services, which have tests of their own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from django.db import transaction
from django.test import Client
from django.urls import get_resolver

from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, STAFF_ROLES, SUBMITTER, VIEWER
from tests.marketplace.test_addresses_answer import named_addresses
from tests.scheduling.markets import make_market
from tests.tenants.builders import client_of, make_member, make_staff

pytestmark = pytest.mark.django_db

TABLE = Path(__file__).with_name("who_may_open_what.json")
WRITE = os.environ.get("BOURSE_WRITE_BASELINE") == "1"
METHODS = ("get", "post")
ANSWERED_BY_SERVICES = {"operator_program_retire"}  # it says to whoever may not that there is no such program
Refusals = Mapping[str, list[str]]  # names of addresses, by method


def refusals(browser: Client) -> Refusals:
    """Return which addresses refuse. What a request changes is undone before the next one."""
    refused: dict[str, list[str]] = {method: [] for method in METHODS}
    for name, address in named_addresses(get_resolver().url_patterns):
        for method in METHODS:
            with transaction.atomic():
                answer = getattr(browser, method)(address)
                transaction.set_rollback(True)
            if answer.status_code == 403:
                refused[method].append(name)
    return {method: sorted(names) for method, names in refused.items()}


@pytest.mark.parametrize(
    "role",
    [VIEWER, AUDITOR, *(pytest.param(role, marks=pytest.mark.wide) for role in (SUBMITTER, BILLING, OWNER, OPERATOR))],
)
def test_each_address_refuses_the_roles_of_the_table(role: str) -> None:
    _, (tenant,) = make_market("lumen")
    user = make_staff(role).user if role in STAFF_ROLES else make_member(tenant, role).user
    refused = refusals(client_of(user))
    table: dict[str, Refusals] = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    if WRITE:
        TABLE.write_text(json.dumps(table | {role: refused}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    else:
        assert refused == table[role]


def test_every_address_of_the_operator_refuses_members() -> None:
    """By its table, so that a new page without a permission is seen where it is opened by name."""
    table: dict[str, Refusals] = json.loads(TABLE.read_text(encoding="utf-8"))
    names = {name for name, address in named_addresses(get_resolver().url_patterns) if address.startswith("/operator/")}
    for role in (VIEWER, SUBMITTER, BILLING, OWNER):
        assert names - {*table[role]["get"], *table[role]["post"]} == ANSWERED_BY_SERVICES
