"""`manage.py archive` by the owning role, as operators call it; and what the other commands say then."""

from __future__ import annotations

import io
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, ManagementUtility, call_command
from django.utils import timezone

from scheduling.audit import archiving
from scheduling.models import IntervalArchive
from tenants.ledger import audit as ledger
from tenants.scoping import scope_disabled
from tests.audit.test_archives import FIRST_DAY, make_days

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["archive", "--before", "tomorrow"], "--before: takes a day like 2026-01-31"),
        (
            ["audit_bundle", "--pool", "main", "--from", "March", "--to", "2026-04-01", "--out", "b.zip"],
            "--from: takes a time like 2026-01-31",
        ),
        (["demo", "--at", "noon"], "takes a time like 2026-01-31 or 2026-01-31T12:00Z"),
    ],
)
def test_a_time_that_cannot_be_read_is_told_how_one_is_written(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ManagementUtility(["manage.py", *arguments]).execute()
    assert sentence in capsys.readouterr().err


@pytest.fixture(autouse=True)
def _few_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "NEWEST", 2)


def command(name: str, **options: Any) -> str:
    out = io.StringIO()
    call_command(name, stdout=out, stderr=out, **options)
    return out.getvalue()


@pytest.mark.wide
def test_commands_archive_by_the_owning_role_and_verify(tmp_path: Path, settings: Any) -> None:
    pool, _ = make_days()
    before = (FIRST_DAY + timedelta(days=30)).isoformat()
    options = {"before": date.fromisoformat(before), "pool": pool.slug, "folder": tmp_path / "archives"}
    assert "would go" in command("archive", **options)
    assert not IntervalArchive.objects.exists()
    owner, settings.DATABASE_OWNER = settings.DATABASE_OWNER, None
    with pytest.raises(CommandError, match="DATABASE_OWNER_URL"):
        command("archive", **options, apply=True)
    settings.DATABASE_OWNER = owner
    output = command("archive", **options, apply=True)
    assert output.count("archived  sha256") == IntervalArchive.objects.count() > 1
    assert "and what is later stays: it has some of the pool's 2 newest intervals" in output
    assert "archived  sha256" not in command("archive", **options, apply=True)
    words = command("verify_intervals", pool=pool.slug)
    assert "the intervals are in order" in words
    assert "their places in the chain alone were looked at" in words
    words = command("verify_intervals", pool=pool.slug, archive=tmp_path / "archives")
    assert "read from" in words
    assert "decided again" in words
    assert "1 here" not in command("retention")
    assert f"intervals of {pool.slug}:" in command("retention")
    with scope_disabled("the test looks at the whole book"):
        assert ledger.verify().findings == ()
    (victim, *_) = sorted((tmp_path / "archives").iterdir())
    victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.raises(SystemExit):
        command("verify_intervals", pool=pool.slug, archive=tmp_path / "archives")
    for options_wrong, words in (
        ({**options, "pool": "nowhere"}, "there is no pool nowhere"),
        ({**options, "before": timezone.now().date() + timedelta(days=9)}, "is not over yet"),
    ):
        with pytest.raises(CommandError, match=words):
            command("archive", **options_wrong)
