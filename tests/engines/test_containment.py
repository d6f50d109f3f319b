"""A program that does what it may not: contained, reported, and nobody left of it."""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from marketplace.embedded import write_private
from marketplace.embedded.programs import SHARED
from marketplace.web.process import shared_socket
from scheduling.engines.base import FAILED, FINISHED, LOST, STOPPED
from scheduling.engines.launcher import confine
from scheduling.engines.launcher.confine import PORTS_SINCE, can_never_kill, landlock_version
from scheduling.engines.launcher.launch import words
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.launcher.unpack import TEMPORARY
from scheduling.engines.local import accounts
from scheduling.engines.local.accounts import FIRST_ACCOUNT, Rights, rights
from scheduling.engines.local.surroundings import ours
from tests.conftest import FOLDER
from tests.engines.local import (
    ALL,
    ROOT,
    SMALL,
    ended,
    engine_in,
    gang,
    gone_by,
    nobody_is_left,
    people_of,
    possible,
    process_of,
    start,
    story,
    text_of,
    until,
)
from tests.engines.own import own, script
from tests.patience import PATIENCE

QUICKLY = replace(SMALL, cpu_least=1, cpu_share=1e-9, nice=0)
no_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
no_scopes = pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock says nothing about signals")
no_filter = pytest.mark.skipif(not can_never_kill(), reason="this machine has no filter of system calls")
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a gang an account of its own")


def launched(
    folder: Path,
    code: str,
    *,
    cpu_seconds: int = 60,
    bare: bool = False,
    readable: tuple[str, ...] = (),
    temporary: str = "",
) -> subprocess.CompletedProcess[str]:
    """A process that has given everything up, as one of a gang has before it becomes the program."""
    place = words(str(folder), None, cpu_seconds, asdict(SMALL), bare=bare, readable=readable, temporary=temporary)
    command = [sys.executable, *place, sys.executable, "-S", "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)


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
    done = launched(tmp_path, code + "print(os.waitpid(child, 0)[1], flush=True)\nos.kill(os.getpid(), 10)")
    assert (done.returncode, done.stdout) == (-10, "15\n")


@no_scopes
def test_signals_reach_nobody_else_not_even_of_the_same_account(tmp_path: Path) -> None:
    done = launched(tmp_path, f"import os\nos.kill({os.getpid()}, 0)")
    assert "PermissionError" in done.stderr


SHARES = """
import multiprocessing, os
from multiprocessing.shared_memory import SharedMemory
def double(number):
    return 2 * number
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(double, [1, 2]))
block = SharedMemory(create=True, size=10)
print(block.name)
print([name for name in os.listdir("/dev/shm") if name != block.name], flush=True)
os._exit(0)  # the block stays, as after a program that was killed
"""


@pytest.fixture
def _own_shared_memory() -> None:
    """Tried in a process that ends with it."""
    code = "import sys; from scheduling.engines.launcher import confine; sys.exit(not confine.own_names(1))"
    if subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=PATIENCE, check=False).returncode:
        pytest.skip("this machine gives no shared memory of one's own")


@pytest.mark.usefixtures("_own_shared_memory")
@pytest.mark.parametrize("walled", [False, True])
def test_several_processes_of_a_program_have_locks_queues_and_shared_memory_that_nobody_else_sees(
    tmp_path: Path, *, walled: bool
) -> None:
    """As PyTorch's loaders of data need them. What the machine's services share is neither seen nor in reach."""
    done = launched(tmp_path, SHARES, readable=ours(ROOT, ALL.values()).readable if walled else ())
    assert done.returncode == 0, done.stderr
    doubled, name, others = done.stdout.split("\n")[0:3]
    assert (doubled, others) == ("[2, 4]", "[]")
    assert not (Path(confine.SHARED_MEMORY) / name).exists()


@pytest.fixture
def apart(_own_shared_memory: None) -> Iterator[Path]:
    """A folder that does not lie in the machine's /tmp, with one in it that a gang finds there."""
    folder = Path(tempfile.mkdtemp(prefix="bourse-test-", dir="/var/tmp"))
    (folder / TEMPORARY).mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


WRITES = "open('/tmp/bourse-x', 'a').write('x'); import os; print(os.listdir('/tmp'), open('/tmp/bourse-x').read())"


def test_tmp_is_the_gangs_own(apart: Path) -> None:
    """Its processes share it, and see nothing of the machine's."""
    walled = ours(ROOT, ALL.values()).readable
    if any(path.startswith(confine.FOR_A_TIME) for path in walled):
        pytest.skip("what programs run with lies in /tmp here")
    for text in ("x", "xx"):
        done = launched(apart, WRITES, readable=walled, temporary=str(TEMPORARY))
        assert done.stdout == f"['bourse-x'] {text}\n", done.stderr
    assert (apart / TEMPORARY / "bourse-x").read_text() == "xx"
    assert not Path(confine.FOR_A_TIME, "bourse-x").exists()
    outside = launched(apart, "open('/var/tmp/bourse-x', 'w')", readable=walled, temporary=str(TEMPORARY))
    assert "PermissionError" in outside.stderr


@no_landlock
@pytest.mark.parametrize("at", [TEMPORARY, TEMPORARY.parent])
def test_a_link_in_its_place_opens_nothing(apart: Path, tmp_path: Path, at: Path) -> None:
    """A program may have put one there; then there is no /tmp for it, as on a machine that gives none."""
    (tmp_path / "tmp").mkdir()
    shutil.rmtree(apart / TEMPORARY.parent)
    (apart / at).parent.mkdir(exist_ok=True)
    (apart / at).symlink_to(tmp_path / "tmp" if at == TEMPORARY else tmp_path)
    done = launched(apart, WRITES, temporary=str(TEMPORARY))
    assert "PermissionError" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


@no_landlock
def test_where_what_a_gang_needs_lies_in_tmp_the_machines_stays(tmp_path: Path) -> None:
    """A private one would hide it. Nothing is written there either."""
    assert tmp_path.is_relative_to(confine.FOR_A_TIME)
    (tmp_path / TEMPORARY).mkdir(parents=True)
    done = launched(tmp_path, WRITES, temporary=str(TEMPORARY))
    assert "PermissionError" in done.stderr
    assert launched(tmp_path, "open('here', 'w')", temporary=str(TEMPORARY)).returncode == 0


AS_NOBODY = """
import os, sys
from scheduling.engines.launcher.confine import own_names
os.setgroups([]); os.setgid(65534); os.setuid(65534)
import ctypes; ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # its own files of /proc are its own again
alone = ([sys.argv[1]], ["/usr", "/lib"], []) if sys.argv[2] == "alone" else None
print(own_names(1, alone, (sys.argv[1], ".bourse/tmp")))
open("/tmp/bourse-x", "w").write("x")
"""


@only_root
@pytest.mark.parametrize("visibility", ["all", "alone"])
def test_who_is_not_root_has_one_by_a_space_of_names(apart: Path, visibility: str) -> None:
    for path in (apart, apart / TEMPORARY.parent, apart / TEMPORARY):
        os.chown(path, 65_534, 65_534)
    command = [sys.executable, "-c", AS_NOBODY, str(apart), visibility]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.stdout == "[]\n":
        pytest.skip("this machine gives such spaces to root alone")
    assert done.stdout == "['/dev/shm', '/tmp']\n", done.stderr
    assert (apart / TEMPORARY / "bourse-x").read_text() == "x"
    assert not Path(confine.FOR_A_TIME, "bourse-x").exists()


def test_a_machine_that_gives_no_space_of_names_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses:
        def unshare(self, _: int) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refuses())
    assert confine.own_names(1, temporary=(str(tmp_path), str(TEMPORARY))) == []


def test_each_start_has_an_empty_one_and_what_stays_is_not_in_it(apart: Path) -> None:
    text = "ls -A /tmp\necho state > /tmp/state\nmkdir -p /tmp/closed/in && chmod 0 /tmp/closed\ncat /tmp/state\n"
    limits = ProcessLimits()
    rights_there = rights(apart / "gangs", ROOT, ALL.values(), limits)
    if any(path.startswith(confine.FOR_A_TIME) for path in rights_there.readable):
        pytest.skip("what programs run with lies in /tmp here")
    with engine_in(apart, limits=limits, rights=rights_there) as engine:
        for _ in range(2):
            handle = start(engine, own(script(text), home="job-1"))
            assert ended(engine, handle).end == FINISHED, story(engine, handle)
            assert re.findall("closed|state", text_of(engine, handle)) == ["state"]
        assert {path.name for path in (engine.root / "job-1" / "work").iterdir()} == {".bourse", "checkpoint"}


@pytest.mark.usefixtures("_own_shared_memory")
def test_what_lies_in_shared_memory_is_memory_of_the_gang() -> None:
    holds = "import time; held = bytearray(60_000_000); time.sleep(60)"
    text = f"head -c 60000000 /dev/zero > /dev/shm/much\npython3 -c '{holds}'\n"
    with engine_in() as engine:
        handle = start(engine, own(script(text)))
        status = ended(engine, handle)
        sentence = f"it took [0-9]+ MB of memory, more than {SMALL.memory_mb}"
        assert re.fullmatch(sentence, status.detail), story(engine, handle)
        assert status.end == FAILED


@no_landlock
@pytest.mark.parametrize(("devices", "opened"), [(["full"], "['/dev/full']"), ([], "[]")])
def test_devices_of_gpus_are_open_to_those_who_were_dealt_some(tmp_path: Path, devices: list[str], opened: str) -> None:
    """A GPU is a file that is opened to be written. This machine may have none: another device takes its place."""
    limits = asdict(replace(SMALL, address_space_mb=0))
    code = f"""
import os, resource
from scheduling.engines.launcher import confine
from tests.patience import PATIENCE
confine.give_up({limits}, {str(tmp_path)!r}, None, 60, bare=False, readable=(), ports=(), devices={devices})
opened = []
for path in ("/dev/full", "/dev/zero"):
    try:
        os.close(os.open(path, os.O_RDWR))
        opened.append(path)
    except PermissionError:
        pass
print(opened, resource.getrlimit(resource.RLIMIT_AS)[0] == {resource.getrlimit(resource.RLIMIT_AS)[0]})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stdout == f"{opened} True\n", done.stderr


@pytest.mark.wide
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


@contextmanager
def listening() -> Iterator[int]:
    """A web process's port."""
    with shared_socket("127.0.0.1", 0) as ours:
        ours.listen()
        yield int(ours.getsockname()[1])


def free_port() -> int:
    with shared_socket("127.0.0.1", 0) as ours:
        return int(ours.getsockname()[1])


def rights_behind(monkeypatch: pytest.MonkeyPatch, walls: tuple[bool, bool]) -> Rights:
    """What works with these walls alone: by Landlock, and by spaces of names."""
    monkeypatch.setattr(accounts, "WALLS", [walls])
    return rights(FOLDER / "gangs", ROOT, ALL.values(), SMALL, shared=SHARED)


@pytest.mark.one_case
@only_root
@pytest.mark.parametrize("how", ["account", "walls", "both", "as_it_is_here"])
def test_gang_reaches_nothing_that_is_not_its_own(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the account of its own, by Landlock where it stays root, and by both. Ports: by Landlock in any case."""
    usual = possible()
    assert usual.own, "the copy of Python does not work"
    rights = {
        "account": rights_behind(monkeypatch, (False, False)) if how == "account" else usual,
        "walls": replace(usual, own=False, bare=True, alone=False),
        "both": rights_behind(monkeypatch, (True, False)) if how == "both" else usual,
        "as_it_is_here": usual,
    }[how]
    if how != "account" and not (usual.readable and landlock_version() >= 6):
        pytest.skip("this kernel's Landlock cannot")
    with engine_in(rights=rights) as engine, listening() as port:
        keys = [engine.root.parent / name for name in ("secret_key", "passwords.json")]
        for key in keys:
            write_private(key, "secret")
        gangs = [replace(gang("naughty", {"sin": "peek"}), home=f"job-{number}") for number in (1, 2)]
        other = [engine.root / each.home / each.key / "plan.json" for each in gangs]
        named: dict[str, list[Any]] = {"files": [*map(str, [*keys, *other]), "/etc/shadow"], "ports": [port]}
        named["ports"] += [free_port()] if landlock_version() >= PORTS_SINCE else []
        for each in gangs:
            folder = engine.root / each.home / "work"
            folder.mkdir(parents=True)
            (folder / "named.json").write_text(json.dumps(named))
        handles = [start(engine, each) for each in gangs]
        for handle in handles:
            until(lambda: "peeked" in text_of(engine, handle), lambda: story(engine, handle), engine=engine)  # noqa: B023
        accounts = [process_of(engine, handle, "worker").uids().real for handle in handles]
        assert len(set(accounts)) == (2 if rights.own else 1)
        for handle, account in zip(handles, accounts, strict=True):
            text = text_of(engine, handle)
            assert (account >= FIRST_ACCOUNT) == rights.own
            assert f"account {account}\n" in text
            assert "worked" not in text
            assert text.count("refused") == 5 + len(named["files"]) + len(named["ports"])
        os.kill(handles[0].reference["pid"], signal.SIGKILL)
        assert ended(engine, handles[0]).end == LOST
        until(lambda: not people_of(handles[0].key))
        assert process_of(engine, handles[1], "worker").is_running()


@only_root
@no_landlock
def test_gang_stays_root_behind_walls_where_its_account_can_read_no_python_and_there_is_no_room_for_a_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accounts, "WALLS", [(True, False)])
    if rights_behind(monkeypatch, (True, False)).python == sys.executable:
        pytest.skip("accounts can read our own Python here")
    rights_here = rights(FOLDER / "gangs", ROOT, ALL.values(), SMALL, shared=Path("/proc/no-room"))
    assert (rights_here.own, rights_here.bare, rights_here.python) == (False, True, sys.executable)
    assert rights_here.readable


@no_landlock
def test_walls_hold_for_root_with_all_its_rights_too(tmp_path: Path) -> None:
    """So they hold for whoever Bourse runs as where it is not root: nothing in them asks who somebody is."""
    (tmp_path / "own").write_text("own")
    code = "print(open('own').read(), flush=True)\nopen('/etc/shadow')"
    done = launched(tmp_path, code, readable=(*possible().readable, *python_itself()))
    assert done.stdout == "own\n"
    assert "PermissionError" in done.stderr


@no_landlock
@pytest.mark.skipif(not Path("/sys/bus/pci/devices").exists(), reason="this machine has no PCI")
def test_walls_let_a_program_see_which_devices_there_are_as_pytorch_does_before_it_begins(tmp_path: Path) -> None:
    code = (
        "import os\nat = '/sys/bus/pci/devices'\nprint([open(f'{at}/{name}/class').read() for name in os.listdir(at)])"
    )
    done = launched(tmp_path, code, readable=(*possible().readable, *python_itself()))
    assert done.returncode == 0, done.stderr


def python_itself() -> tuple[str, ...]:
    """What the Python of these tests reads: gangs may have a copy."""
    return ours(FOLDER, ALL.values()).readable


def test_gang_that_nothing_keeps_from_our_keys_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    rights_here = replace(possible(), own=False, bare=True)
    monkeypatch.setattr(accounts, "landlock_version", lambda: PORTS_SINCE)
    assert replace(rights_here, own=True, readable=()).warning == ""
    assert replace(rights_here, readable=("/usr/lib",), alone=True).warning == ""
    assert "by their sockets and close its files" in replace(rights_here, readable=("/usr/lib",), alone=False).warning
    assert "may read what it may, keys and passwords too" in replace(rights_here, readable=(), alone=False).warning
    monkeypatch.setattr(accounts, "landlock_version", lambda: PORTS_SINCE - 1)
    assert "may listen at the port of the pages" in replace(rights_here, readable=("/usr/lib",)).warning


@pytest.mark.one_case
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
        handle = start(engine, gang("naughty", {"sin": sin}, seconds=PATIENCE))
        status = ended(engine, handle)
        assert status.end == FAILED
        assert why in status.detail
        assert why in text_of(engine, handle)
        nobody_is_left(handle.key)


@no_filter
def test_program_that_kills_itself_has_failed_and_is_not_the_platforms_fault() -> None:
    with engine_in() as engine:
        handle = start(engine, gang("naughty", {"sin": "suicide"}))
        status = ended(engine, handle)
        assert (status.end, status.detail) == (FAILED, "worker 0 ended with code 1 before the job began")
        assert "Operation not permitted" in text_of(engine, handle)


def test_program_that_asks_for_too_much_at_once_does_not_get_it() -> None:
    with engine_in() as engine:
        handle = start(engine, gang("naughty", {"sin": "swell"}))
        assert ended(engine, handle).end == FAILED
        assert "MemoryError" in text_of(engine, handle)


def test_flood_is_cut_with_a_note_and_program_that_ignores_sigterm_is_killed_in_time() -> None:
    with engine_in() as engine:
        flood = start(engine, replace(gang("naughty", {"sin": "flood"}, seconds=60), home="job-2"))
        handle = start(engine, gang("naughty", {"sin": "deaf"}, seconds=60))
        until(lambda: text_of(engine, handle).count("deaf") == 3, lambda: story(engine, handle), engine=engine)
        engine.change(handle, end_at := time.time() + 2.5)
        status = ended(engine, handle)
        assert (status.end, status.detail) == (STOPPED, "its reservation ends")
        assert gone_by(end_at, status)
        nobody_is_left(handle.key)
        until(lambda: "its lines are left out from here on." in text_of(engine, flood), engine=engine)
        engine.stop(flood)
        ended(engine, flood)
        assert (engine.root / "job-2" / flood.key / "log").stat().st_size < 400_000


@no_landlock
def test_program_writes_nowhere_but_in_its_folder() -> None:
    Path("/tmp/bourse-escaped-too").unlink(missing_ok=True)  # noqa: S108  of a time when it could
    with engine_in() as engine:
        handle = start(engine, gang("naughty", {"sin": "outside"}, seconds=60))
        until((engine.root / "job-1" / "work" / "inside").exists, lambda: story(engine, handle), engine=engine)
        until(lambda: text_of(engine, handle).count("could not: ") == 3, engine=engine)
        assert "wrote" not in text_of(engine, handle)
        engine.stop(handle)
        ended(engine, handle)
        assert not (engine.root / "job-1" / "escaped").exists()
        assert not Path("/tmp/bourse-escaped-too").exists()  # noqa: S108
