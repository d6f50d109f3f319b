"""Fixtures of several files here."""

from __future__ import annotations

import pytest


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own transaction counts as ended: else its events would be held back as not yet certain."""
    from scheduling.models import Event

    def newest() -> int:
        return Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0

    monkeypatch.setattr("scheduling.notices.collecting.feed_cursor", newest)
    monkeypatch.setattr("scheduling.webhooks.changes.feed_cursor", newest)
    monkeypatch.setattr("scheduling.webhooks.deliveries.feed_cursor", newest)
