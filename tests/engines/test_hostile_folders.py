"""Folders that a program fills so as to harm whoever counts, gives, keeps or clears them."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marketplace.upkeep.backup import _pack
from marketplace.upkeep.forecast import _files
from scheduling.engines.base import FAILED, FINISHED, Fault
from scheduling.engines.launcher import files
from scheduling.engines.launcher.strangers import looked_through, removed
from scheduling.engines.launcher.unpack import TEMPORARY, packed, unpack
from scheduling.engines.local.accounts import FIRST_ACCOUNT, give
from scheduling.runs.old_files import files_remove, folder_bytes
from tests.engines.local import ended, engine_in, possible, start, story, until
from tests.engines.own import own, script

DEEP = 1_500  # more folders in one another than Python calls itself
PATH_MAX = 4_096
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another account")


def deep_folder(top: Path, name: str = "d", depth: int = DEEP) -> None:
    """With a file of ten bytes at its end, whose path may be longer than the kernel takes."""
    top.mkdir(parents=True)
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        inner = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    file = os.open("saved", os.O_WRONLY | os.O_CREAT, dir_fd=at)
    os.write(file, b"0123456789")
    os.close(file)
    os.close(at)


def test_program_that_makes_folders_in_one_another_fails_and_does_not_end_whoever_watches_over_it() -> None:
    """A gang whose supervisor is lost costs nothing."""
    makes = "for _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\n"
    text = f"python3 - <<'end'\nimport os, time\n{makes}time.sleep(60)\nend\n"
    with engine_in() as engine:
        for _ in range(2):  # the second one is given what the first has left
            handle = start(engine, own(script(text), seconds=40))
            status = ended(engine, handle)
            assert (status.end, status.detail) == (FAILED, "it has more than 100 folders in one another")
        engine.clean("job-7")
        assert not (engine.root / "job-7").exists()


@pytest.mark.one_case
@pytest.mark.parametrize("what", ["os.mkdir(f'{number}')", "os.symlink('.', str(number))"])
def test_folders_and_links_are_counted_like_files(what: str) -> None:
    text = f"python3 - <<'end'\nimport os, time\nfor number in range(25_000):\n    {what}\ntime.sleep(60)\nend\n"
    with engine_in() as engine:
        handle = start(engine, own(script(text), seconds=40))
        status = ended(engine, handle)
        assert status.end == FAILED, story(engine, handle)
        assert "into its folder, more than 20" in status.detail or "more than 20,000 files" in status.detail


def test_files_of_nothing_count_as_they_are_long() -> None:
    with engine_in() as engine:
        handle = start(engine, own(script("truncate -s 1G nothing\nsleep 60\n"), seconds=40))
        status = ended(engine, handle)
        assert (status.end, status.detail) == (FAILED, "its files are 1024 MB long together, more than 20")


NAMELESS = """
import os, time
held = []
for number in range(6):
    file = os.memfd_create("x") if %r == "memory" else os.open(str(number), os.O_WRONLY | os.O_CREAT)
    if %r == "disk":
        os.unlink(str(number))
    for _ in range(10 if %r == "disk" else 40):
        os.write(file, bytes(1_000_000))
    held.append(file)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("where", "why"), [("disk", "MB into its folder, more than 20"), ("memory", "MB of memory, more than 100")]
)
def test_files_without_a_name_count(where: str, why: str) -> None:
    text = f"python3 - <<'end'\n{NAMELESS % (where, where, where)}end\n"
    with engine_in() as engine:
        handle = start(engine, own(script(text), seconds=40))
        status = ended(engine, handle)
        assert status.end == FAILED
        assert why in status.detail, story(engine, handle)


@pytest.mark.parametrize(("name", "depth"), [("d", DEEP), ("d" * 255, 60)])
def test_folder_of_any_depth_is_measured_kept_and_removed(tmp_path: Path, name: str, depth: int) -> None:
    runs = tmp_path / "runs"
    deep_folder(runs / "job-7" / "work", name, depth)
    (runs / "job-7" / "log").write_text("said")
    assert folder_bytes(runs / "job-7") == 14
    growth = _files(runs, datetime(2020, 1, 1, tzinfo=UTC), 7.0)
    assert growth.rows == (1 if depth == DEEP else 2)  # beyond what a gang may have nobody looks
    _pack(runs, tmp_path / "files.tar.gz")
    with tarfile.open(tmp_path / "files.tar.gz") as packed:
        names = packed.getnames()
    assert "job-7/log" in names
    assert max(map(len, names)) < PATH_MAX
    assert files_remove(runs, [7]).jobs == (7,)
    assert not (runs / "job-7").exists()


def test_what_an_earlier_start_left_of_any_depth_is_cleared_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = packed("echo hello\n", b"")
    assert unpack(files) == ""
    deep_folder(tmp_path / TEMPORARY / "d")
    assert unpack(files) == ""
    assert list((tmp_path / TEMPORARY).iterdir()) == []


def test_what_closes_a_folder_to_its_own_account_is_looked_through_and_removed_all_the_same(tmp_path: Path) -> None:
    deep_folder(tmp_path / "work", depth=3)
    (tmp_path / "work" / "d").chmod(0)
    account = os.fork()
    if account == 0:  # root reads what is closed
        if os.geteuid() == 0:
            for place in (tmp_path, tmp_path / "work", tmp_path / "work" / "d"):
                os.chown(place, FIRST_ACCOUNT, FIRST_ACCOUNT)
            os.chdir(tmp_path)
            os.setuid(FIRST_ACCOUNT)
        else:
            os.chdir(tmp_path)
        counted = sum(1 for _ in looked_through(Path("work")))
        os._exit(0 if counted == 4 else 1)
    assert os.waitpid(account, 0)[1] == 0
    removed(tmp_path / "work")
    assert not (tmp_path / "work").exists()


@only_root
def test_folder_of_any_depth_is_given_but_no_file_that_has_another_name_elsewhere(tmp_path: Path) -> None:
    deep_folder(tmp_path / "work")
    (tmp_path / "ours").write_text("ours")
    os.link(tmp_path / "ours", tmp_path / "work" / "theirs")
    give(tmp_path / "work", FIRST_ACCOUNT)
    owners = {entry.name: entry.about.st_uid for entry in looked_through(tmp_path / "work")}
    assert owners == {"d": FIRST_ACCOUNT, "saved": FIRST_ACCOUNT, "theirs": 0}
    removed(tmp_path / "work")


def test_link_that_takes_the_place_of_a_file_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("ours")
    work = tmp_path / "runs" / "job-7" / "work"
    work.mkdir(parents=True)
    (work / "saved").write_text("theirs")
    places: list[Callable[[], None]] = [
        lambda: (work / "saved").symlink_to(tmp_path / "key"),
        lambda: os.mkfifo(work / "saved"),
    ]
    for place in places:
        entries = looked_through(work)
        entry = next(entries)
        (work / "saved").unlink()
        place()
        with pytest.raises(OSError, match=r"symbolic links|no file"):
            entry.opened()
        entries.close()


@only_root
def test_what_a_program_saved_is_not_its_accounts_any_more_once_it_has_ended() -> None:
    """Accounts are used again, by programs of others."""
    if not possible().own:
        pytest.skip("gangs have no account of their own here")
    with engine_in() as engine:
        work = engine.root / "job-7" / "work"
        for _ in range(2):
            handle = start(engine, own(script("echo x >> saved; sleep 1\ncat saved\n"), seconds=40))
            until(lambda: work.exists() and work.stat().st_uid >= FIRST_ACCOUNT, engine=engine)
            assert ended(engine, handle).end == FINISHED
            assert (work.stat().st_uid, work.stat().st_mode & 0o777) == (0, 0o700)
        assert (work / "saved").read_text() == "x\nx\n"


@only_root
def test_what_a_program_saved_is_no_accounts_where_the_next_gang_of_its_job_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its account is free again at once."""
    if not possible().own:
        pytest.skip("gangs have no account of their own here")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with engine_in() as engine:
        monkeypatch.setattr(files, "write", full)
        gang = own(script("cat saved\n"), seconds=40)
        assert engine.submit([gang])[gang.key] == Fault("The gang could not be started: No space left on device.")
        assert (engine.root / gang.home / "work").stat().st_uid == 0
