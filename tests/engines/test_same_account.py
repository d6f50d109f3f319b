"""What a program does to who has the same account, where gangs have none of their own: by calls that no rule of files
and no scope of signals forbids."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from scheduling.engines.launcher.confine import can_never_kill, landlock_version
from scheduling.engines.launcher.launch import words
from scheduling.engines.local.surroundings import ours
from tests.engines.local import ALL, ROOT, SMALL, possible
from tests.patience import PATIENCE

no_filter = pytest.mark.skipif(not can_never_kill(), reason="this machine has no filter of system calls")
TRIES = """
import json, os, resource, socket, sys
done = {}
def tried(name, attempt):
    try:
        attempt()
        done[name] = "worked"
    except OSError as error:
        done[name] = error.strerror
named = json.loads(sys.argv[1])
%s
print(json.dumps(done), flush=True)
"""
FILES = """
def connect(path):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)
tried("close a folder", lambda: os.chmod(named["folder"], 0))
tried("open a file to others", lambda: os.chmod(named["file"], 0o777))
tried("another time", lambda: os.utime(named["file"], (1, 1)))
tried("a word beside it", lambda: os.setxattr(named["file"], "user.x", b"1"))
tried("see it", lambda: os.stat(named["file"]))
tried("call a service", lambda: connect(named["socket"]))
for link in ("root", "cwd"):
    tried("see by " + link, lambda: os.stat(f"/proc/{os.getppid()}/{link}"))
tried("go up", lambda: os.stat("../" * 9 + named["file"]))
tried("the root before", lambda: os.stat("/.before"))
tried("change the root", lambda: os.mkdir("/new"))
tried("own file", lambda: os.chmod("own", 0o600))
tried("its output again", lambda: open("/dev/stderr", "w").close())
"""
OTHERS = """
parent = os.getppid()
tried("limit", lambda: resource.prlimit(parent, resource.RLIMIT_CPU, (1, 1)))
tried("turns", lambda: os.setpriority(os.PRIO_PROCESS, parent, 19))
tried("turns of all", lambda: os.setpriority(os.PRIO_USER, 0, 19))
tried("order", lambda: os.sched_setscheduler(parent, os.SCHED_IDLE, os.sched_param(0)))
tried("own limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)))
tried("own turns", lambda: os.setpriority(os.PRIO_PROCESS, 0, 19))
tried("own order", lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
"""
BLOCK = """
import ctypes
system = ctypes.CDLL(None, use_errno=True)
block = system.shmget(0, 1 << 20, 0o1600)
assert block >= 0 and system.semget(0, 1, 0o1600) >= 0 and system.msgget(0, 0o1600) >= 0
"""


def launched(folder: Path, code: str, *, alone: bool, named: dict[str, str] | None = None) -> str:
    """What such a process says, which has our account and may read what a gang may."""
    readable = (*possible().readable, *ours(ROOT, ALL.values()).readable) if landlock_version() else ()
    place = words(str(folder), None, 60, asdict(SMALL), bare=False, readable=readable, alone=alone)
    command = [sys.executable, *place, sys.executable, "-S", "-c", code, json.dumps(named or {})]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def _spaces_of_names() -> None:
    code = "import sys; from scheduling.engines.launcher import confine; sys.exit(not confine.own_names(1))"
    if not landlock_version() or subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode:
        pytest.skip("this machine gives no spaces of names")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Path]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        yield tmp_path / "socket"


@pytest.mark.usefixtures("_spaces_of_names")
def test_files_and_services_of_the_same_account_have_no_name(tmp_path: Path, service: Path) -> None:
    work, theirs = tmp_path / "work", tmp_path / "theirs"
    for folder in (work, theirs):
        folder.mkdir()
    (work / "own").touch()
    (theirs / "key").write_text("secret")
    os.chmod(theirs, 0o700)
    before = (theirs / "key").stat()
    named = {"folder": str(theirs), "file": str(theirs / "key"), "socket": str(service)}
    done = json.loads(launched(work, TRIES % FILES, alone=True, named=named))
    assert {name for name, how in done.items() if how == "worked"} == {"own file", "its output again"}, done
    after = (theirs / "key").stat()
    assert (after.st_mode, after.st_mtime, after.st_ctime) == (before.st_mode, before.st_mtime, before.st_ctime)


@no_filter
@pytest.mark.parametrize("alone", [False, True])
def test_others_of_the_same_account_cannot_be_slowed_or_ended_by_a_limit(
    tmp_path: Path, request: pytest.FixtureRequest, *, alone: bool
) -> None:
    if alone:
        request.getfixturevalue("_spaces_of_names")
    done = json.loads(launched(tmp_path, TRIES % OTHERS, alone=alone))
    assert {name for name, how in done.items() if how == "worked"} == {"own limit", "own turns", "own order"}, done


@pytest.mark.usefixtures("_spaces_of_names")
def test_blocks_and_queues_that_are_known_by_a_number_go_with_the_program(tmp_path: Path) -> None:
    """Else memory that nobody is counted for would be taken for good."""
    files = [Path("/proc/sysvipc") / name for name in ("shm", "sem", "msg")]

    def ours_there() -> list[str]:
        return [line.split()[1] for file in files for line in file.read_text().splitlines() if " 1600 " in line]

    before = ours_there()
    launched(tmp_path, BLOCK, alone=False)
    assert ours_there() == before
