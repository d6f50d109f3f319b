"""The book by itself: here it holds money for jobs that no market knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def _no_purposes() -> Iterator[None]:
    from tenants.ledger import audit  # Django is not ready when this file is read

    purposes, audit.purposes[:] = list(audit.purposes), []
    yield
    audit.purposes[:] = purposes
