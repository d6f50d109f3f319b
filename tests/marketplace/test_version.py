"""One version, wherever somebody looks for it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest
from django.conf import settings
from django.test import Client

import bourse_client
from marketplace.version import VERSION
from tenants.roles import VIEWER
from tests.patience import PATIENCE
from tests.scheduling.builders import make_tenant
from tests.tenants.builders import client_of, make_member


def test_command_and_process_say_it(client: Client) -> None:
    command = [sys.executable, "manage.py", "version"]  # it needs no settings
    result = subprocess.run(command, env={}, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=PATIENCE)
    assert result.stdout == f"{VERSION}\n"
    assert client.get("/healthz").content.decode() == f"ok\nversion: {VERSION}\n"


@pytest.mark.django_db
def test_each_page_says_it_at_its_foot() -> None:
    tenant = make_tenant("lumen")
    page = client_of(make_member(tenant, VIEWER).user).get("/t/lumen/jobs/", follow=True, secure=True)
    assert f"Bourse {VERSION}" in page.content.decode()


def test_it_is_written_nowhere_else() -> None:
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "marketplace.version.VERSION"}
    assert settings.SPECTACULAR_SETTINGS["VERSION"] == bourse_client.__version__ == VERSION
    changes = (settings.BASE_DIR / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE)
