"""A backup that is made while the market works is restored elsewhere, and verifies."""

from __future__ import annotations

import errno
import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from marketplace.embedded import state_for
from marketplace.embedded.state import DATABASE, OWNER
from marketplace.upkeep.backup import (
    AsLongAs,
    BackupFailed,
    LeftOut,
    _fingerprint,
    _pack,
    _program,
    _unpack,
    backup_make,
    backup_restore,
)
from scheduling.app.clock import pool_advance
from scheduling.engines.launcher.strangers import removed
from scheduling.market.calendar.lanes import lane_lock
from scheduling.models import Lane
from tests.another_account import another_account
from tests.audit.proven import make_proven
from tests.database import as_superuser, run
from tests.engines.test_hostile_folders import deep_folder
from tests.ledger.builders import tamper
from tests.patience import PATIENCE
from tests.scheduling.builders import NOON

pytestmark = pytest.mark.django_db(transaction=True)
ELSEWHERE = f"restored_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"  # each worker's own: they share one server
TABLES = ("ledger_entry", "scheduling_interval", "scheduling_award")


@contextmanager
def another_database(like: str = "template1") -> Iterator[str]:
    """Of the same owner: an empty one, or one that is like another, at which nobody is connected."""
    with as_superuser():
        run(f"DROP DATABASE IF EXISTS {ELSEWHERE} WITH (FORCE)")
        run(f"CREATE DATABASE {ELSEWHERE} OWNER {OWNER} TEMPLATE {like}")
    yield ELSEWHERE
    with as_superuser():
        run(f"DROP DATABASE {ELSEWHERE} WITH (FORCE)")


@pytest.fixture
def elsewhere() -> Iterator[str]:
    with another_database() as name:
        yield name


def installation(var: Path, database: str, key: str) -> dict[str, str]:
    """The environment of a process of the product, with both of its roles."""
    from tests.conftest import STATE

    urls = {
        name: url.replace(f"/{DATABASE}?", f"/{database}?")
        for name, url in (("DATABASE_URL", STATE.database_url), ("DATABASE_OWNER_URL", STATE.owner_url))
    }
    return {**os.environ, **urls, "SECRET_KEY": key, "BOURSE_VAR": str(var), "PYTHONPATH": str(settings.BASE_DIR)}


def runs_of(var: Path) -> Path:
    """Where gangs of that installation write: root's lie elsewhere, where accounts without rights may enter."""
    return state_for(var).folder / "runs"


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    yield
    for var in ("here", "there"):
        shutil.rmtree(state_for(tmp_path / var).folder, ignore_errors=True)


def manage(environment: Mapping[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *map(str, words)]
    return subprocess.run(
        command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.wide
def test_backup_in_the_middle_of_an_interval_is_restored_and_verifies(tmp_path: Path, elsewhere: str) -> None:
    pool, key = make_proven().pool, secrets.token_urlsafe(50)
    here = installation(tmp_path / "here", connection.settings_dict["NAME"], key)
    log = runs_of(tmp_path / "here") / "gang" / "log"
    log.parent.mkdir(parents=True)
    log.write_text("epoch 3, loss 0.25\n")
    # Somebody decides: what is not committed yet is no part of it.
    locked, over = threading.Event(), threading.Event()

    def decide() -> None:
        with transaction.atomic():
            lane_lock(pool_id=pool.pk, lane=Lane.BATCH)
            locked.set()
            over.wait(PATIENCE)
        connection.close()

    deciding = threading.Thread(target=decide)
    deciding.start()
    assert locked.wait(PATIENCE)
    process = manage(here, "backup", tmp_path / "backup")
    over.set()
    deciding.join()
    assert process.returncode == 0, process.stderr
    before = rows_of(connection.settings_dict["NAME"])
    pool_advance(pool_id=pool.pk, at=pool.slot_start(200))  # the market goes on meanwhile
    assert rows_of(connection.settings_dict["NAME"]) != before

    there = installation(tmp_path / "there", elsewhere, key)
    restored = manage(there, "restore", tmp_path / "backup")
    assert restored.returncode == 0, restored.stderr
    for verified in ("the book is in order", "the intervals are in order", "unbroken"):
        assert verified in restored.stdout
    assert rows_of(elsewhere) == before
    # What was submitted after the backup has left files on clusters: nobody else gets its number.
    for table in ("scheduling_trainingjob", "scheduling_event"):
        assert next_number(elsewhere, table) > next_number(connection.settings_dict["NAME"], table) + 999_000
    assert (runs_of(tmp_path / "there") / "gang" / "log").read_text() == "epoch 3, loss 0.25\n"
    again = manage(there, "restore", tmp_path / "backup")
    assert "The database is not empty" in again.stderr


@pytest.mark.wide
def test_restore_of_what_was_changed_before_names_it_and_hears_every_verification(
    tmp_path: Path, elsewhere: str
) -> None:
    make_proven()
    key = secrets.token_urlsafe(50)
    here = installation(tmp_path / "here", connection.settings_dict["NAME"], key)
    with transaction.atomic():
        tamper("UPDATE ledger_balance SET amount = amount + 1")
    assert manage(here, "backup", tmp_path / "backup").returncode == 0
    restored = manage(installation(tmp_path / "there", elsewhere, key), "restore", tmp_path / "backup")
    assert restored.returncode == 1
    for words in ("findings: ", "the intervals are in order", "unbroken"):
        assert words in restored.stdout
    assert "It is restored, and verify_ledger has findings, which stand above." in restored.stderr


@pytest.mark.wide
def test_what_is_no_whole_backup_or_anothers_is_refused_and_nothing_is_written(tmp_path: Path, elsewhere: str) -> None:
    key = secrets.token_urlsafe(50)
    here = installation(tmp_path / "here", connection.settings_dict["NAME"], key)
    folder = tmp_path / "backup"
    assert manage(here, "backup", folder).returncode == 0
    assert (folder.stat().st_mode & 0o077, key in (folder / "manifest.json").read_text()) == (0, False)
    assert "is there already" in manage(here, "backup", folder).stderr
    there = installation(tmp_path / "there", elsewhere, secrets.token_urlsafe(50))
    assert "SECRET_KEY is not the one of this backup" in manage(there, "restore", folder).stderr
    (folder / "database.dump").write_bytes(b"changed")
    assert "is not what was written" in manage(there | {"SECRET_KEY": key}, "restore", folder).stderr
    assert "holds no whole backup" in manage(there, "restore", tmp_path / "nothing").stderr
    assert rows_of(elsewhere, tables=()) == []


@pytest.mark.parametrize("comment", ["NULL", "'standard public schema'"])
def test_role_that_serves_is_told_that_it_takes_the_owner_and_nothing_else(
    tmp_path: Path, elsewhere: str, comment: str
) -> None:
    """A schema that was made again, as `demo` does, has no comment: a restore takes PostgreSQL's own away, first."""
    with as_superuser():
        run(f"COMMENT ON SCHEMA public IS {comment}")
    here = installation(tmp_path / "here", connection.settings_dict["NAME"], secrets.token_urlsafe(50))
    serving = here | {"DATABASE_OWNER_URL": ""}
    refused = manage(serving, "backup", tmp_path / "backup")
    sentence = "needs more rights than DATABASE_URL gives. Say DATABASE_OWNER_URL as well.\n"
    assert refused.stderr == f"CommandError: pg_dump {sentence}"
    assert manage(here, "backup", tmp_path / "backup").returncode == 0
    there = installation(tmp_path / "there", elsewhere, here["SECRET_KEY"]) | {"DATABASE_OWNER_URL": ""}
    refused = manage(there, "restore", tmp_path / "backup")
    assert refused.stderr == f"CommandError: pg_restore {sentence}"
    assert rows_of(elsewhere, tables=()) == []


@pytest.mark.wide
def test_backup_of_a_newer_version_is_refused_and_nothing_is_written(tmp_path: Path, elsewhere: str) -> None:
    key = secrets.token_urlsafe(50)
    with as_superuser():
        run("INSERT INTO django_migrations (app, name, applied) VALUES ('scheduling', '9999_later', now())")
    try:
        here = installation(tmp_path / "here", connection.settings_dict["NAME"], key)
        process = manage(here, "backup", tmp_path / "backup")
    finally:
        with as_superuser():
            run("DELETE FROM django_migrations WHERE name = '9999_later'")
    assert process.returncode == 0, process.stderr
    refused = manage(installation(tmp_path / "there", elsewhere, key), "restore", tmp_path / "backup")
    assert (refused.returncode, "step scheduling 9999_later" in refused.stderr) == (1, True), refused.stderr
    assert rows_of(elsewhere, tables=()) == []


@pytest.mark.parametrize(
    ("format_", "is_read"), [("bourse-backup/1", True), ("bourse-backup/2", True), ("bourse-backup/3", False)]
)
def test_backup_in_a_format_that_nobody_here_knows_is_refused(tmp_path: Path, *, format_: str, is_read: bool) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"format": format_, "key": "another's", "files": {}}))
    sentence = "SECRET_KEY is not the one" if is_read else "in the format 'bourse-backup/3'; this version reads"
    with pytest.raises(BackupFailed, match=sentence):
        backup_restore(tmp_path)


def next_number(database: str, table: str) -> int:
    from tests.conftest import STATE

    with psycopg.connect(STATE.superuser_url.replace("/postgres?", f"/{database}?")) as there:
        row = there.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [table]).fetchone()
    assert row is not None
    return int(row[0])


def rows_of(database: str, tables: tuple[str, ...] = TABLES) -> Any:
    """Of these tables; without any, the names of all that are there."""
    from tests.conftest import STATE

    with psycopg.connect(STATE.superuser_url.replace("/postgres?", f"/{database}?")) as there:
        if not tables:
            return there.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return [there.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in tables]  # noqa: S608


def test_program_of_the_servers_version_is_taken_before_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer `pg_restore` sets what an older server does not know, and nothing would be restored."""
    server = connection.cursor().connection.info.server_version // 10_000

    def programs_are(*versions: int) -> None:
        folders = [tmp_path / "-".join(map(str, versions)) / str(version) for version in versions]
        for folder, version in zip(folders, versions, strict=True):
            folder.mkdir(parents=True)
            (folder / "pg_dump").write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version}.1 (Debian)'\n")
            (folder / "pg_dump").chmod(0o755)
        monkeypatch.setattr("marketplace.embedded.programs.postgres_folders", lambda: folders[1:])
        monkeypatch.setenv("PATH", str(folders[0]) if folders else "/nowhere")

    programs_are(server + 2, server - 1, server, server + 1)
    assert _program("pg_dump").parent.name == str(server)
    programs_are(server - 1, server + 2, server + 1)
    assert _program("pg_dump").parent.name == str(server + 1)
    programs_are(server - 1)
    with pytest.raises(BackupFailed, match=f"^No pg_dump of version {server} or newer is here"):
        _program("pg_dump")


def test_without_an_embedded_postgresql_the_sentence_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackupFailed, match=r"^No pg_dump of version"):
        _program("pg_dump")


def test_files_of_a_gang_are_packed_without_the_secrets_that_it_was_told(tmp_path: Path) -> None:
    gang = tmp_path / "runs" / "job-7" / "key"
    gang.mkdir(parents=True)
    for name in ("plan.json", "secrets", "log"):
        (gang / name).write_text("x")
    work = tmp_path / "runs" / "job-7" / "work"
    work.mkdir()
    (work / "secrets").write_text("a program's own file of that name")
    _pack(tmp_path / "runs", tmp_path / "files.tar.gz")
    with tarfile.open(tmp_path / "files.tar.gz") as packed:
        files = {member.name for member in packed if member.isreg()}
    assert files == {"job-7/key/plan.json", "job-7/key/log", "job-7/work/secrets"}


def test_saved_state_larger_than_memory_is_packed_piece_by_piece(tmp_path: Path) -> None:
    """A checkpoint of a real model has tens of gigabytes."""
    runs, size = tmp_path / "runs", 64 * 2**20
    runs.mkdir()
    with (runs / "checkpoint").open("wb") as file:
        file.truncate(size)
    tracemalloc.start()
    try:
        _pack(runs, tmp_path / "files.tar.gz")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < size / 8
    with tarfile.open(tmp_path / "files.tar.gz") as packed:
        assert packed.getmember("checkpoint").size == size


@pytest.mark.parametrize("written_since", [b"", b"1234567890abcdef"])
def test_file_that_others_write_meanwhile_has_the_length_that_the_archive_says(written_since: bytes) -> None:
    assert AsLongAs(io.BytesIO(written_since), 10).read(64) == written_since[:10].ljust(10, b"\0")


def test_backup_that_finds_no_room_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("marketplace.upkeep.backup._run", lambda *_: None)
    monkeypatch.setattr("marketplace.upkeep.backup._pack", full)
    with pytest.raises(BackupFailed, match="cannot be written: No space left on device"):
        backup_make(tmp_path / "backup", NOON)
    assert not (tmp_path / "backup").exists()
    (tmp_path / "file").touch()
    with pytest.raises(BackupFailed, match="cannot be made: Not a directory"):
        backup_make(tmp_path / "file" / "backup", NOON)


def test_files_are_unpacked_by_every_python_that_may_run_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12 has 3.11.2, in which an archive is unpacked without a word about filters."""
    usual = tarfile.TarFile.extractall

    def older(self: tarfile.TarFile, path: Path, members: Any = None, *, numeric_owner: bool = False) -> None:
        usual(self, path, members, numeric_owner=numeric_owner)

    monkeypatch.setattr(tarfile.TarFile, "extractall", older)
    work = tmp_path / "runs" / "job-7" / "work"
    work.mkdir(parents=True)
    (work / "state").write_text("saved")
    (work / "state").chmod(0o640)
    work.chmod(0o500)
    _pack(tmp_path / "runs", tmp_path / "files.tar.gz")
    _unpack(tmp_path / "files.tar.gz", tmp_path / "there")
    state = tmp_path / "there" / "job-7" / "work" / "state"
    assert state.read_text() == "saved"
    assert [place.stat().st_mode & 0o777 for place in (state, state.parent)] == [0o640, 0o500]
    for folder in (work, state.parent):
        folder.chmod(0o700)


def test_entry_that_leads_elsewhere_is_not_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "files.tar.gz", "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("../elsewhere"))
    with pytest.raises(BackupFailed, match="no backup writes"):
        _unpack(tmp_path / "files.tar.gz", tmp_path / "there")
    assert not (tmp_path / "elsewhere").exists()


def test_file_with_two_names_is_unpacked_under_both(tmp_path: Path) -> None:
    """Programs make such names: the best of their saved states, caches of what they have loaded."""
    work = tmp_path / "runs" / "job-7" / "work"
    work.mkdir(parents=True)
    (work / "epoch-3").write_text("saved")
    os.link(work / "epoch-3", work / "best")
    _pack(tmp_path / "runs", tmp_path / "files.tar.gz")
    _unpack(tmp_path / "files.tar.gz", tmp_path / "there")
    names = [tmp_path / "there" / "job-7" / "work" / name for name in ("best", "epoch-3")]
    assert [name.read_text() for name in names] == ["saved", "saved"]
    assert names[0].samefile(names[1])  # it takes its room once, in the backup and after it


@pytest.mark.parametrize(("name", "depth", "packed"), [("d", 140, 126), ("d" * 100, 40, 29)])
def test_folders_that_are_too_deep_or_whose_paths_are_too_long_are_named(
    tmp_path: Path, name: str, depth: int, packed: int
) -> None:
    runs, target = tmp_path / "runs", tmp_path / "files.tar.gz"
    deep_folder(runs / "job-7" / "work", name, depth)
    (runs / "job-8").mkdir()
    deepest = "/".join(["job-7", "work", *[name] * packed])
    try:
        assert _pack(runs, target) == LeftOut(too_deep=(deepest,))
    finally:
        removed(runs)
    with tarfile.open(target) as files:
        assert max(files.getnames(), key=len) == deepest
    _unpack(target, tmp_path / "there")
    removed(tmp_path / "there")


def test_folder_at_the_last_level_that_is_empty_is_packed_as_a_whole(tmp_path: Path) -> None:
    place = tmp_path / "runs" / "job-7"
    for _ in range(127):
        place /= "d"
    place.mkdir(parents=True)
    assert _pack(tmp_path / "runs", tmp_path / "files.tar.gz") == LeftOut()


def test_link_is_unpacked_as_a_link_wherever_it_leads(tmp_path: Path) -> None:
    """Programs make them: the newest of their saved states, caches of models."""
    work = tmp_path / "runs" / "job-7" / "work"
    (work / "epoch-3").mkdir(parents=True)
    (work / "epoch-3" / "state").write_text("saved")
    for name, target in (("latest", "epoch-3"), ("broken", "epoch-4"), ("system", "/etc")):
        (work / name).symlink_to(target)
    _pack(tmp_path / "runs", tmp_path / "files.tar.gz")
    _unpack(tmp_path / "files.tar.gz", tmp_path / "there")
    there = tmp_path / "there" / "job-7" / "work"
    assert {name: os.readlink(there / name) for name in ("latest", "broken", "system")} == {
        "latest": "epoch-3",
        "broken": "epoch-4",
        "system": "/etc",
    }
    assert (there / "latest" / "state").read_text() == "saved"


@pytest.mark.parametrize("behind", ["link", "link/file", "link/folder/file"])
def test_nothing_is_unpacked_through_a_link(tmp_path: Path, behind: str) -> None:
    with tarfile.open(tmp_path / "files.tar.gz", "w:gz") as packed:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "elsewhere")
        packed.addfile(link)
        packed.addfile(tarfile.TarInfo(behind))
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(BackupFailed, match="no backup writes"):
        _unpack(tmp_path / "files.tar.gz", tmp_path / "there")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_second_name_leads_to_no_file_of_another_job(tmp_path: Path) -> None:
    """The number of a file that was removed meanwhile may be that of another job's file."""
    for job in ("job-7", "job-8"):
        (tmp_path / "runs" / job).mkdir(parents=True)
    (tmp_path / "runs" / "job-7" / "state").write_text("saved")
    os.link(tmp_path / "runs" / "job-7" / "state", tmp_path / "runs" / "job-8" / "state")
    _pack(tmp_path / "runs", tmp_path / "files.tar.gz")
    _unpack(tmp_path / "files.tar.gz", tmp_path / "there")
    first, second = (tmp_path / "there" / job / "state" for job in ("job-7", "job-8"))
    assert (first.read_text(), second.read_text(), first.samefile(second)) == ("saved", "saved", False)


def test_second_name_of_what_no_backup_has_is_not_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "files.tar.gz", "w:gz") as packed:
        other = tarfile.TarInfo("state")
        other.type, other.linkname = tarfile.LNKTYPE, "../elsewhere"
        packed.addfile(other)
    (tmp_path / "elsewhere").write_text("ours")
    with pytest.raises(BackupFailed, match="no backup writes"):
        _unpack(tmp_path / "files.tar.gz", tmp_path / "there")


def test_files_that_the_account_of_the_backup_may_not_read_are_named() -> None:
    """An engine of root gives each gang an account of its own, and the backup may be made under another one."""
    with tempfile.TemporaryDirectory() as outer:
        root, target = Path(outer) / "runs", Path(outer) / "files.tar.gz"
        for name in ("job-7/work/state", "job-8/log", "job-9/log"):
            (root / name).parent.mkdir(parents=True)
            (root / name).write_text("saved")
        for place, mode in ((outer, 0o777), (root / "job-7" / "work", 0o700), (root / "job-8" / "log", 0)):
            Path(place).chmod(mode)
        with another_account() as is_other:  # a folder of our own would be opened
            unreadable = ("job-7/work", "job-8/log") if is_other else ("job-8/log",)
            assert _pack(root, target) == LeftOut(unreadable=unreadable)
            with tarfile.open(target) as packed:
                assert "job-9/log" in packed.getnames()
        if is_other:
            root.chmod(0o711)
            with another_account(), pytest.raises(BackupFailed, match="runs may not be read by this account"):
                _pack(root, target)


def test_backup_without_files_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketplace.upkeep.backup._run", lambda *_: None)
    monkeypatch.setattr("marketplace.upkeep.backup._digest", lambda _: "")
    omissions = LeftOut(unreadable=("job-7/work", "job-8/log"), too_deep=("job-9/work/" + "d/" * 99 + "d",))
    monkeypatch.setattr("marketplace.upkeep.backup._pack", lambda *_: omissions)
    warned = io.StringIO()
    call_command("backup", str(tmp_path / "backup"), stdout=io.StringIO(), stderr=warned)
    manifest = json.loads((tmp_path / "backup" / "manifest.json").read_text())
    assert (manifest["unreadable"], manifest["too_deep"]) == (list(omissions.unreadable), list(omissions.too_deep))
    assert "2 files or folders of programs are not in it, as this account may not read them: job-7/work, " in (
        warned.getvalue()
    )
    assert "1 folder of programs is not in it as a whole" in warned.getvalue()
    assert "job-9/work/d/d/" in warned.getvalue()
    assert max(map(len, warned.getvalue().splitlines())) < 320


def test_all_verifications_speak_after_a_restore_and_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[str]()

    def call(name: str, **options: Any) -> None:
        calls.append(name)
        if name == "verify_ledger":
            options["stderr"].write("the balance of account 7 is not what its entries add up to")
        if name in ("verify_ledger", "verify_history"):
            sys.exit(1)

    module = "marketplace.management.commands.restore"
    manifest = {"version": "1.1.0", "made_at": NOON.isoformat(), "unreadable": ["job-7/work"]}
    monkeypatch.setattr(f"{module}.backup_restore", lambda _: manifest)
    monkeypatch.setattr(f"{module}.call_command", call)
    out, warned = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError) as refused:
        call_command("restore", "backup", stdout=out, stderr=warned)
    assert calls == ["migrate", "verify_ledger", "verify_intervals", "verify_history"]
    assert "the balance of account 7" in warned.getvalue()
    assert "1 file or folder of programs is not in this backup" in warned.getvalue()
    assert str(refused.value).startswith("It is restored, and verify_ledger and verify_history have findings")


def test_files_that_find_no_room_are_told_of_once_the_numbers_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is restored by then: whoever unpacks the files by hand has all that `restore` does beside it."""
    done: list[str] = []

    def full(*_: object) -> None:
        done.append("files")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("marketplace.upkeep.backup._manifest", lambda _: {"key": _fingerprint(settings.SECRET_KEY)})
    monkeypatch.setattr("marketplace.upkeep.backup.connection.introspection.table_names", list)
    monkeypatch.setattr("marketplace.upkeep.backup._steps_of", lambda _: [])
    monkeypatch.setattr("marketplace.upkeep.backup._run", lambda *_: done.append("database"))
    monkeypatch.setattr("marketplace.upkeep.backup._skip_numbers", lambda: done.append("numbers"))
    monkeypatch.setattr("marketplace.upkeep.backup._unpack", full)
    monkeypatch.setattr(settings, "RUNS_DIR", tmp_path / "runs")
    with pytest.raises(BackupFailed, match="runs cannot be written: No space left on device"):
        backup_restore(tmp_path / "backup")
    assert done == ["database", "numbers", "files"]
