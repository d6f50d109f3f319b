"""What PyTorch, its launcher and its loaders need, without PyTorch: a program finds it under the limits as they are."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from scheduling.engines.launcher.confine import PORTS_SINCE, landlock_version
from scheduling.engines.launcher.launch import words
from scheduling.engines.launcher.limits import GangLimits, ProcessLimits
from scheduling.engines.local.surroundings import ours
from scheduling.engines.plans import limits_of
from tests.engines.local import ALL, ROOT
from tests.engines.own import own, script
from tests.patience import PATIENCE
from tests.ports import free_port

no_ports = pytest.mark.skipif(landlock_version() < PORTS_SINCE, reason="this kernel's Landlock says nothing of ports")


def launched(
    folder: Path,
    code: str,
    *,
    ports: tuple[int, ...] | None = (),
    beside: tuple[str, ...] = (),
    readable: tuple[str, ...] = (),
) -> str:
    """What a process prints that has given up all but what it may have without words of the operator."""
    limits = ProcessLimits()
    place = words(
        str(folder), None, limits.cpu_seconds(60.0), asdict(limits), bare=False, readable=readable, ports=ports,
        beside=beside,
    )  # fmt: skip
    command = [sys.executable, *place, sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_reserves_addresses_computes_for_long_writes_much_and_opens_many_files(tmp_path: Path) -> None:
    own = [resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]
    code = f"""
import mmap, os, resource
reserved = mmap.mmap(-1, 16 * 2**30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
assert [resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU)] == {own}
with open("checkpoint", "wb") as file:
    file.seek(1_500_000_000)
    file.write(b"x")
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_000)]
print(open("/proc/self/oom_score_adj").read().strip())
"""
    assert launched(tmp_path, code) == "1000\n"


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
def test_a_walled_program_finds_names_certificates_and_what_is_installed_beside_python(tmp_path: Path) -> None:
    installed = Path(sys.prefix, "bin", "pytest")
    code = f"""
import os, pwd, socket, ssl, subprocess, time
print(socket.gethostbyname("localhost"), pwd.getpwuid(0).pw_name)
certificates = ssl.get_default_verify_paths().capath
print(not os.path.isdir({str(os.path.realpath("/etc/ssl/certs"))!r}) or len(os.listdir("/etc/ssl/certs")) > 0)
print(subprocess.run([{str(installed)!r}, "--version"], capture_output=True, text=True).stdout.split()[0])
subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.DEVNULL, check=True)  # as Triton looks for CUDA's library
for closed in ("/etc/shadow", {str(ROOT / "manage.py")!r}, os.path.expanduser("~root")):
    try:
        os.listdir(closed) if os.path.isdir(closed) else open(closed)
        print("reads", closed)
    except (PermissionError, FileNotFoundError):
        pass
"""
    assert launched(tmp_path, code, readable=ours(tmp_path, ALL.values()).readable) == "127.0.0.1 root\nTrue\npytest\n"


@no_ports
@pytest.mark.parametrize(("ports", "output"), [(None, "listens"), ((), "refused")])
def test_a_program_of_a_cluster_listens_where_it_wants(
    tmp_path: Path, ports: tuple[int, ...] | None, output: str
) -> None:
    code = f"""
import socket
try:
    socket.create_server(("127.0.0.1", {free_port()})).close()
    print("listens")
except PermissionError:
    print("refused")
"""
    assert launched(tmp_path, code, ports=ports) == f"{output}\n"


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
def test_a_program_writes_in_the_folders_that_were_named_and_in_no_others(tmp_path: Path) -> None:
    for name in ("own", "scratch", "other"):
        (tmp_path / name).mkdir()
    code = f"""
for name in ("own", "scratch", "other"):
    try:
        open({str(tmp_path)!r} + "/" + name + "/written", "w").close()
        print(name)
    except PermissionError:
        pass
"""
    assert launched(tmp_path / "own", code, beside=(str(tmp_path / "scratch"), "/nowhere")) == "own\nscratch\n"


def test_limits_of_a_gang_follow_its_size_also_when_that_changes() -> None:
    def of(members: int, cpu_seconds: int = 0) -> GangLimits:
        phases = [{"members": [["worker", rank, "s1"] for rank in range(size)]} for size in (1, members)]
        return GangLimits.of({"limits": asdict(ProcessLimits()), "phases": phases, "cpu_seconds": cpu_seconds})

    assert of(1) == GangLimits(96, 2_048, 0)
    assert of(12, 60) == GangLimits(192, 12 * 2_048, 780)


def test_memory_is_what_the_program_says_or_what_was_bought_or_else_the_engines() -> None:
    stated = own(script("true", limits={"memory_mebibytes": 300}))
    silent = own(script("true"))
    bought = replace(silent, amounts={"worker": {"memory": 16.0}, "ps": {}})
    few = replace(silent, amounts={"worker": {"memory": 0.5}, "ps": {}})
    assert [limits_of(ProcessLimits(), each).memory_mb for each in (stated, bought, few)] == [300, 16_384, 2_048]
