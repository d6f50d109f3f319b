"""`manage.py archive` killed at each of its steps: nothing is lost, and the next one does it all, once."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from marketplace.embedded.state import DATABASE
from scheduling.audit import archiving
from scheduling.audit.bundle import check
from scheduling.models import IntervalArchive
from tests.audit.test_archives import FIRST_DAY, findings_of, make_days, stored
from tests.concurrency.beside import Beside, beside

pytestmark = [pytest.mark.wide, pytest.mark.django_db(transaction=True)]

STEPS = [
    ("_archive_write", "before"),
    ("_archive_write", "after"),
    ("_checked", "after"),
    ("_synced", "before"),
    ("_synced", "after"),
    ("archive_remember", "before"),  # from here on within the transaction
    ("archive_remember", "after"),
]


def owning_addresses() -> dict[str, str]:
    from tests.conftest import STATE

    name = connection.settings_dict["NAME"]
    urls = {"DATABASE_URL": STATE.database_url, "DATABASE_OWNER_URL": STATE.owner_url}
    return {key: url.replace(f"/{DATABASE}?", f"/{name}?") for key, url in urls.items()}


def test_archive_that_is_killed_at_any_step_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "NEWEST", 2)
    pool, _ = make_days()
    before, folder = stored(pool), tmp_path / "archives"
    work = f"archive {(FIRST_DAY + timedelta(days=30)).isoformat()} {folder}"
    with beside(os.environ | owning_addresses() | {"SECRET_KEY": settings.SECRET_KEY}) as other:
        for step in STEPS:
            killed(other, work, *step)
            assert stored(pool) == before
            assert not IntervalArchive.objects.exists()
            assert findings_of(pool) == []
        other.done(work)
    rows = list(IntervalArchive.objects.order_by("first"))
    assert len(rows) > 1
    assert sorted(path.name for path in folder.iterdir()) == sorted(row.file for row in rows)
    for row in rows:
        assert check.check(str(folder / row.file), row.public_key) == []
    archived = {number for number, parts in stored(pool).items() if parts == (b"", b"")}
    assert archived == set(range(1, rows[-1].last + 1))
    assert findings_of(pool) == []
    assert findings_of(pool, folder) == []


def killed(other: Beside, work: str, function: str, when: str) -> None:
    ended = other.work(work, "scheduling.audit.archiving", function, when)
    assert ended.status == -signal.SIGKILL, ended.errors
