"""What a program on a cluster has no name for: the sockets by which its account orders something of Slurm."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from scheduling.engines.launcher.cluster_calls import hidden_places
from scheduling.engines.launcher.launch import words
from tests.engines.local import ROOT, SMALL
from tests.patience import PATIENCE

CALLS = """
import errno, json, os, socket, sys
answers = []
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        answers.append("answers")
    except OSError as error:
        answers.append(errno.errorcode[error.errno])
    try:
        os.unlink(path)
        answers.append("gone")
    except OSError:
        answers.append("stays")
print(json.dumps(answers))
"""
HEAD = "Num       RefCount Protocol Flags    Type St Inode Path\n"
WORK = "/shared/bourse/job-7/work"


def listeners(folder: Path, *paths: str) -> Path:
    file = folder / "unix"
    lines = [
        f"0000000000000000: 00000002 00000000 00010000 0001 01 {number} {path}\n" for number, path in enumerate(paths)
    ]
    file.write_text(HEAD + "".join(lines) + "0000000000000000: 00000003 00000000 00000000 0001 03 99\n")
    return file


def test_services_that_say_who_somebody_is_are_hidden_and_so_are_those_of_steps(tmp_path: Path) -> None:
    file = listeners(
        tmp_path, "/run/munge/munge.socket.2", "/run/slurm/sack.socket", "/var/spool/slurmd/n1_42.4294967291",
        "/var/spool/slurmd/n1_43.0.1", "/run/dbus/system_bus_socket", "@/tmp/.X11-unix/X0", "/run/my munge socket",
    )  # fmt: skip
    assert hidden_places([WORK], file) == [
        "/run/munge",
        "/run/my munge socket",
        "/run/slurm/sack.socket",
        "/var/spool/slurmd",
    ]


def test_what_a_program_needs_stays_whatever_its_sockets_are_called(tmp_path: Path) -> None:
    file = listeners(
        tmp_path, f"{WORK}/munge.socket", "/shared/bourse/n1_7.0", "/scratch/a_1.2", "/scratch/munge/socket"
    )
    assert hidden_places([WORK, "/scratch"], file) == ["/shared/bourse/n1_7.0"]
    assert "/scratch/munge/socket" in hidden_places(["/scratch/munge/own"], file)
    assert hidden_places([WORK], tmp_path / "none") == []


@pytest.fixture
def _names() -> None:
    code = "import sys; from scheduling.engines.launcher import confine; sys.exit(not confine.own_names(1))"
    if subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=PATIENCE, check=False).returncode:
        pytest.skip("this machine gives no spaces of names")


@pytest.fixture
def services(tmp_path: Path) -> Iterator[list[Path]]:
    """One in a folder that a program may not see, and one beside what it needs."""
    paths = [tmp_path / "munge" / "socket", tmp_path / "munge.socket"]
    paths[0].parent.mkdir()
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        for each, path in zip((first, second), paths, strict=True):
            each.bind(str(path))
            each.listen()
        yield paths


@pytest.mark.usefixtures("_names")
def test_what_is_hidden_answers_nobody(tmp_path: Path, services: list[Path]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    places = [place for place in hidden_places([str(work)]) if place.startswith(str(tmp_path))]
    assert places == [str(services[0].parent), str(services[1])]
    place = words(str(work), None, 60, asdict(SMALL), bare=True, hidden=places)
    command = [sys.executable, *place, sys.executable, "-S", "-c", CALLS, *map(str, services)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert json.loads(done.stdout) == ["ENOENT", "stays", "ECONNREFUSED", "stays"], done.stderr
    assert all(path.exists() for path in services)
