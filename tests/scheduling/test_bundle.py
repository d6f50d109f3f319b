"""An audit bundle agrees with itself, and its checker refuses one in which a single number was changed."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import CommandError, call_command

from scheduling.services.bundle import check, public_key, seed_of
from scheduling.services.bundle.signature import sign
from tests.ledger.builders import commit_checks
from tests.scheduling.markets import at
from tests.scheduling.test_verification import make_history

pytestmark = pytest.mark.django_db
Rows = list[dict[str, Any]]


def make_bundle(path: Path) -> Path:
    pool, _ = make_history()
    commit_checks()
    start, end = at(pool, 0) - timedelta(days=400), at(pool, 400)
    call_command("audit_bundle", pool=pool.slug, start=start, end=end, out=path / "b.zip", stdout=io.StringIO())
    return path / "b.zip"


def changed(bundle: Path, name: str, change: Callable[[Rows], None], *, listed: bool) -> Path:
    """The bundle with other rows in one file. `listed`: its writer corrected the list of files, and cannot sign it."""
    with zipfile.ZipFile(bundle) as old:
        files = {entry: old.read(entry) for entry in old.namelist()}
    rows = [json.loads(line) for line in files[name].splitlines()]
    change(rows)
    files[name] = b"".join(json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n" for row in rows)
    if listed:
        manifest = json.loads(files["manifest.json"]) | {name: hashlib.sha256(files[name]).hexdigest()}
        files["manifest.json"] = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    other = bundle.with_name("changed.zip")
    with zipfile.ZipFile(other, "w") as new:
        for entry, content in files.items():
            new.writestr(entry, content)
    return other


def first_slot(rows: Rows) -> list[Any]:
    return next(slot for row in rows for slot in row["charges"] if slot)


def more_paid(rows: Rows) -> None:
    next(row for row in rows if row["paid"])["paid"] += 1


def moved_to_another_owner(rows: Rows) -> None:
    first_slot(rows)[0][0] += 1


def later(rows: Rows) -> None:
    rows[0]["end"] += 1


def award_removed(rows: Rows) -> None:
    del rows[0]


def entry_changed(rows: Rows) -> None:
    rows[0]["entries"][0][1] += 1


def entry_moved(rows: Rows) -> None:
    rows[-1]["entries"][0][0] += 8


def fact_changed(rows: Rows) -> None:
    row = next(row for row in rows if '"slot"' in row["facts"])
    row["facts"] = row["facts"].replace('"slot": ', '"slot": 1')


def transaction_removed(rows: Rows) -> None:
    del rows[1]


def view_changed(rows: Rows) -> None:
    rows[-1]["view"] = rows[-1]["view"].replace('"slot":', '"slot":1')


def slot_of_interval_changed(rows: Rows) -> None:
    rows[0]["slot"] += 1


def interval_removed(rows: Rows) -> None:
    del rows[1]


def balance_changed(rows: Rows) -> None:
    account = next(iter(rows[0]["closing"]))
    rows[0]["closing"][account] += 1


CHANGES = [
    ("awards.jsonl", more_paid, "do not add up to what it pays"),
    ("awards.jsonl", moved_to_another_owner, "who earns what"),
    ("awards.jsonl", later, "its slots are not those"),
    ("awards.jsonl", award_removed, "is missing"),
    ("transactions.jsonl", entry_changed, "does not add up to zero"),
    ("transactions.jsonl", entry_moved, "its digest is another"),
    ("transactions.jsonl", fact_changed, "its digest is another"),
    ("transactions.jsonl", transaction_removed, "closes with"),
    ("intervals.jsonl", view_changed, "its digest is another"),
    ("intervals.jsonl", slot_of_interval_changed, "its digest is another"),
    ("intervals.jsonl", interval_removed, "does not follow"),
    ("balances.json", balance_changed, "closes with"),
]


def test_an_untouched_bundle_agrees_and_each_changed_number_is_refused(tmp_path: Path, settings: Any) -> None:
    bundle, key = make_bundle(tmp_path), public_key(seed_of(settings.SECRET_KEY)).hex()
    assert check.check(bundle, key) == []
    assert check.check(bundle, "0" * 64) == ["the bundle is signed with another key than the one you gave"]
    for name, change, told in CHANGES:
        found = check.check(changed(bundle, name, change, listed=False), key)
        assert f"{name} was changed" in found, change
        assert any(told in line for line in found), (change, found)
        forged = check.check(changed(bundle, name, change, listed=True), key)
        assert "the signature does not belong to the list of files" in forged, change


def test_the_checker_runs_alone_and_says_by_its_status_whether_all_agrees(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    with zipfile.ZipFile(bundle) as files:
        files.extract("check.py", tmp_path)
    other = changed(bundle, "awards.jsonl", more_paid, listed=False)
    for path, status, told in ((bundle, 0, "everything agrees"), (other, 1, "do not agree")):
        ran = subprocess.run([sys.executable, "-I", tmp_path / "check.py", path], capture_output=True, text=True)
        assert (ran.returncode, told in ran.stdout) == (status, True), ran.stdout + ran.stderr


def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(b"nonsense")
    assert check.check(tmp_path / "b.zip")[0].startswith("the bundle cannot be read")


def test_signatures_are_those_of_another_program() -> None:
    for number in range(4):
        seed, message = bytes([number] * 32), b"m" * number
        theirs = Ed25519PrivateKey.from_private_bytes(seed)
        assert public_key(seed) == theirs.public_key().public_bytes_raw()
        assert sign(seed, message) == theirs.sign(message)
        assert check.signature_holds(public_key(seed), message, sign(seed, message))
        assert not check.signature_holds(public_key(seed), message + b"!", sign(seed, message))


def test_the_command_refuses_what_makes_no_bundle(tmp_path: Path) -> None:
    pool, _ = make_history()
    given = {"pool": pool.slug, "start": at(pool, 0), "end": at(pool, 9), "out": tmp_path / "b.zip"}
    for options in ({"pool": "nowhere"}, {"end": at(pool, -1)}):
        with pytest.raises(CommandError):
            call_command("audit_bundle", **(given | options))
    assert list(tmp_path.iterdir()) == []
