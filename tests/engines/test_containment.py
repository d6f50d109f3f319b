"""A program that does what it may not: contained, reported, and nobody left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from scheduling.engines.base import FAILED, LOST
from scheduling.engines.local.accounts import FIRST_ACCOUNT, Rights
from scheduling.engines.local.confine import can_never_kill, landlock_version
from scheduling.engines.local.launch import words
from tests.engines.local import (
    ROOT,
    SMALL,
    ended,
    engine_in,
    gang,
    nobody_is_left,
    people_of,
    possible,
    process_of,
    story,
    text_of,
    until,
)

QUICKLY = replace(SMALL, cpu_least=1, cpu_share=0.0, nice=0)
no_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
no_scopes = pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock says nothing about signals")
no_filter = pytest.mark.skipif(not can_never_kill(), reason="this machine has no filter of system calls")
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a gang an account of its own")


def launched(folder: Path, code: str, *, cpu_seconds: int = 60, bare: bool = False) -> subprocess.CompletedProcess[str]:
    """A process that has given everything up, as one of a gang has before it becomes the program."""
    place = words(str(folder), None, cpu_seconds, asdict(SMALL), bare=bare)
    command = [sys.executable, *place, sys.executable, "-S", "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)


@no_filter
@pytest.mark.parametrize(
    "call",
    [
        "os.kill(os.getpid(), 9)",
        "os.killpg(0, 9)",
        "signal.raise_signal(9)",
        "signal.pthread_kill(threading.get_ident(), 9)",
        "signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 9)",
    ],
)
def test_no_call_sends_sigkill(tmp_path: Path, call: str) -> None:
    done = launched(tmp_path, f"import os, signal, threading\n{call}")
    assert done.returncode == 1, done
    assert "Operation not permitted" in done.stderr


def test_other_signals_still_reach_oneself_and_ones_children(tmp_path: Path) -> None:
    code = "import os, signal, time\nif (child := os.fork()) == 0: time.sleep(20)\nos.kill(child, 15)\n"
    done = launched(tmp_path, code + "print(os.waitpid(child, 0)[1])\nos.kill(os.getpid(), 10)")
    assert (done.returncode, done.stdout) == (-10, "15\n")


@no_scopes
def test_signals_reach_nobody_else_not_even_of_the_same_account(tmp_path: Path) -> None:
    done = launched(tmp_path, f"import os\nos.kill({os.getpid()}, 0)")
    assert "PermissionError" in done.stderr


def test_processor_time_ends_a_process_by_a_signal_that_says_so(tmp_path: Path) -> None:
    assert launched(tmp_path, "while True: pass", cpu_seconds=1).returncode == -24


@only_root
def test_root_without_rights_cannot_take_them_back(tmp_path: Path) -> None:
    code = """
import os, resource
for name, attempt in {
    "limit": lambda: resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6)),
    "nice": lambda: os.nice(-5),
    "owner": lambda: os.chown(".", 1, 1),
    "account": lambda: os.setuid(1),
}.items():
    try:
        attempt()
        print(name, "worked")
    except (OSError, ValueError):
        print(name, "refused")
"""
    assert launched(tmp_path, code, bare=True).stdout.count("refused") == 4
    assert "worked" in launched(tmp_path, code).stdout


def readable_python(root: Path) -> str:
    """One that other accounts can read: ours may lie in a closed home."""
    for python in (sys.executable, *sorted(map(str, Path("/usr/bin").glob("python3.*")))):
        if os.access(python, os.X_OK) and possible(root, python, "open('works', 'w').close()").own:
            return python
    pytest.skip("other accounts can read no Python here, or not the checkout")


@only_root
def test_each_gang_has_an_account_of_its_own_and_reaches_nothing_of_ours() -> None:
    with engine_in() as first:
        python = readable_python(first.root.parent)
    with engine_in(python=python, rights=Rights(own=True, bare=False)) as engine:
        handles = [engine.start(replace(gang("naughty", {"sin": "peek"}), home=f"job-{n}")) for n in (1, 2)]
        for handle in handles:
            until(lambda: "root " in text_of(engine, handle), lambda: story(engine, handle), engine=engine)  # noqa: B023
        accounts = [process_of(engine, handle, "worker").uids().real for handle in handles]
        assert len(set(accounts)) == 2
        for handle, account in zip(handles, accounts, strict=True):
            said = text_of(engine, handle)
            assert account >= FIRST_ACCOUNT
            assert f"account {account}\n" in said
            assert "worked" not in said
            assert said.count("refused") == 5
        os.kill(handles[0].pid, signal.SIGKILL)
        assert ended(engine, handles[0]).end == LOST
        until(lambda: not people_of(handles[0].key))
        assert process_of(engine, handles[1], "worker").is_running()


@pytest.mark.parametrize(
    ("sin", "why"),
    [
        ("fork", "processes, more than 30"),
        ("eat", "MB of memory, more than 200"),
        ("spin", "s of processor time, more than 3"),
        ("fill", "MB into its folder, more than 20"),
    ],
)
def test_program_that_takes_too_much_is_ended_with_everybody_it_made(sin: str, why: str) -> None:
    with engine_in(limits=QUICKLY if sin == "spin" else SMALL) as engine:
        handle = engine.start(gang("naughty", {"sin": sin}, seconds=70))
        status = ended(engine, handle, patience=60)
        assert status.end == FAILED
        assert why in status.detail
        assert why in text_of(engine, handle)
        nobody_is_left(handle.key)


@no_filter
def test_program_that_kills_itself_has_failed_and_is_not_the_platforms_fault() -> None:
    with engine_in() as engine:
        handle = engine.start(gang("naughty", {"sin": "suicide"}))
        status = ended(engine, handle)
        assert (status.end, status.detail) == (FAILED, "worker 0 ended with code 1 before the job began")
        assert "Operation not permitted" in text_of(engine, handle)


def test_program_that_asks_for_too_much_at_once_does_not_get_it() -> None:
    with engine_in() as engine:
        handle = engine.start(gang("naughty", {"sin": "swell"}))
        assert ended(engine, handle).end == FAILED
        assert "MemoryError" in text_of(engine, handle)


def test_flood_is_cut_with_a_note_and_program_that_ignores_sigterm_is_killed_in_time() -> None:
    with engine_in() as engine:
        flood = engine.start(gang("naughty", {"sin": "flood"}, seconds=6))
        handle = engine.start(gang("naughty", {"sin": "deaf"}, seconds=60))
        until(lambda: text_of(engine, handle).count("deaf") == 3, lambda: story(engine, handle), engine=engine)
        engine.change(handle, end_at := time.time() + 2.5)
        status = ended(engine, handle)
        assert status.ended_at is not None
        assert status.ended_at <= end_at + 0.3
        nobody_is_left(handle.key)
        ended(engine, flood)
        log = engine.root / "job-1" / flood.key / "log"
        assert log.stat().st_size < 400_000
        assert "its lines are left out from here on." in log.read_text()


@no_landlock
def test_program_writes_nowhere_but_in_its_folder() -> None:
    Path("/tmp/bourse-escaped-too").unlink(missing_ok=True)  # noqa: S108  of a time when it could
    with engine_in() as engine:
        handle = engine.start(gang("naughty", {"sin": "outside"}, seconds=4))
        ended(engine, handle)
        said = text_of(engine, handle)
        assert "wrote" not in said
        assert said.count("could not: Permission denied") == 3
        assert (engine.root / "job-1" / "work" / "inside").exists()
        assert not (engine.root / "job-1" / "escaped").exists()
        assert not Path("/tmp/bourse-escaped-too").exists()  # noqa: S108
