"""A real Slurm in a folder of its own: munged, slurmctld, and several slurmd by name on this machine. Whatever it
starts, it stops by its own process id."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.patience import PATIENCE
from tests.ports import free_ports

DAEMONS = ("munged", "slurmctld", "slurmd")
FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin")


def program(name: str) -> str | None:
    """Where it is installed; daemons lie in folders that are not everybody's path."""
    return shutil.which(name) or next(
        (f"{place}/{name}" for place in FOLDERS if os.access(f"{place}/{name}", os.X_OK)), None
    )


MISSING = [name for name in (*DAEMONS, "sbatch", "squeue") if program(name) is None]
WHY_NOT = f"a real Slurm is needed, and {', '.join(MISSING)} is not installed (Debian: slurm-wlm, munge)"


class Cluster:
    """`nodes`: names of its servers, each with `cpus` and, where it says so, GPUs. `shape`: what else its configuration
    says of them."""

    def __init__(
        self, folder: Path, nodes: Sequence[str], *, cpus: int = 8, gpus: int = 0, shape: str = "", **settings: Any
    ) -> None:
        self.shape = shape
        self.folder, self.nodes, self.cpus, self.gpus = folder, tuple(nodes), cpus, gpus
        self.settings: dict[str, Any] = settings
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.conf = folder / "slurm.conf"
        self.shared = folder / "shared"
        controller, *ports = free_ports(1 + len(nodes))
        self.controller_port, self.ports = controller, dict(zip(nodes, ports, strict=True))

    @property
    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return clean | {"SLURM_CONF": str(self.conf), "LC_ALL": "C"}

    def start(self) -> None:
        for name in ("state", "spool", "log", "shared"):
            (self.folder / name).mkdir(exist_ok=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.write()
        self.run("munged")
        until(lambda: self.socket.exists(), self.story)
        self.before_controller()
        self.run("slurmctld")
        for node in self.nodes:
            self.run("slurmd", node)
        until(self.is_up, self.story)

    def before_controller(self) -> None:
        """What else has to be there first: of this one, nothing."""

    @property
    def socket(self) -> Path:
        return self.folder / "munge.socket"

    def write(self, **changed: Any) -> None:
        """Its configuration, with what is changed."""
        self.settings |= changed
        me = getpass.getuser()
        values = {
            "ClusterName": "test",
            "SlurmctldHost": "localhost(127.0.0.1)",
            "SlurmctldPort": self.controller_port,
            "SlurmUser": me,
            "SlurmdUser": me,
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.socket}",
            "CredType": "cred/munge",
            "StateSaveLocation": self.folder / "state",
            "SlurmdSpoolDir": self.folder / "spool" / "%n",
            "SlurmctldPidFile": self.folder / "slurmctld.pid",
            "SlurmdPidFile": self.folder / "slurmd-%n.pid",
            "SlurmctldLogFile": self.folder / "log" / "slurmctld",
            "SlurmdLogFile": self.folder / "log" / "slurmd-%n",
            "SlurmdParameters": "config_overrides",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny",
            "SchedulerParameters": "batch_sched_delay=0,sched_interval=1",
            "MpiDefault": "none",
            "ReturnToService": 2,
            "SlurmdTimeout": 30,
            "MinJobAge": 300,
            "KillWait": 3,
            "EnforcePartLimits": "ALL",
            "SwitchType": "switch/none",
            "JobAcctGatherType": "jobacct_gather/none",
            "AccountingStorageType": "accounting_storage/none",
        } | {name: value for name, value in self.settings.items() if value is not None}
        of_partition = ("OverSubscribe", "MaxTime")
        lines = [f"{name}={value}" for name, value in values.items() if name not in of_partition]
        gres = f" Gres=gpu:{self.gpus}" if self.gpus else ""
        if self.gpus:
            lines.append("GresTypes=gpu")
            devices = ("/dev/null", "/dev/zero", "/dev/full")[: self.gpus]  # Slurm insists on devices
            text = "".join(f"NodeName={node} Name=gpu File={device}\n" for node in self.nodes for device in devices)
            (self.folder / "gres.conf").write_text(text)
        for node, port in self.ports.items():
            lines.append(
                f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={self.cpus}"
                f" RealMemory=1024{gres} {self.shape}"
            )
        share, longest = self.settings.get("OverSubscribe", "NO"), self.settings.get("MaxTime", "INFINITE")
        nodes = ",".join(self.nodes)
        lines.append(f"PartitionName=main Nodes={nodes} Default=YES MaxTime={longest} State=UP OverSubscribe={share}")
        self.conf.write_text("\n".join(lines) + "\n")

    def run(self, name: str, node: str = "") -> subprocess.Popen[bytes]:
        """Start a daemon."""
        words = {
            "munged": [
                "--foreground", f"--key-file={self.folder / 'munge.key'}", f"--socket={self.socket}",
                f"--pid-file={self.folder / 'munged.pid'}", f"--log-file={self.folder / 'log' / 'munged'}",
                f"--seed-file={self.folder / 'munge.seed'}", "--force",
            ],
            "slurmctld": ["-D", "-f", str(self.conf)],
            "slurmd": ["-D", "-f", str(self.conf), "-N", node],
        }[name]  # fmt: skip
        file = program(name)
        assert file
        with (self.folder / "log" / f"{name}{node}.out").open("ab") as log:
            process = subprocess.Popen(
                [file, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.processes[f"{name} {node}".strip()] = process
        return process

    def kill(self, name: str, number: int = 9) -> None:
        """End one of its daemons."""
        process = self.processes.pop(name)
        process.send_signal(number)
        process.wait(PATIENCE)

    def is_up(self) -> bool:
        answer = self.call("sinfo", "-h", "-N", "-o", "%N|%T")
        rows = dict(line.split("|") for line in answer.stdout.splitlines() if "|" in line)
        return set(rows) == set(self.nodes) and all(
            state in ("idle", "mixed", "allocated", "reserved") for state in rows.values()
        )

    def call(self, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        """One of its commands, as an operator would."""
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, check=False, **settings
        )

    def reserve(
        self, name: str = "bourse", nodes: Sequence[str] = (), minutes: str = "UNLIMITED", flags: str = "IGNORE_JOBS",
        users: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """The standing reservation of whole servers, as the site makes it."""
        everybody, servers = ",".join([getpass.getuser(), *users]), ",".join(nodes or self.nodes)
        answer = self.call(
            "scontrol", "create", "reservation", f"ReservationName={name}", "StartTime=now", f"Duration={minutes}",
            f"Users={everybody}", f"Nodes={servers}", f"Flags={flags}",
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr

    def jobs(self) -> list[str]:
        """All it knows of: id, state, comment."""
        return self.call("squeue", "-h", "-t", "all", "-o", "%i|%T|%r|%k").stdout.splitlines()

    def stop(self) -> None:
        """Nobody of it is left."""
        for process in self.processes.values():  # there is nothing that they should save
            process.kill()
            process.wait(PATIENCE)
        for process in [*people_of(str(self.folder)), *steps_of(self.folder)]:
            with suppress(psutil.Error):  # it has ended meanwhile
                process.kill()
        until(lambda: not people_of(str(self.folder)) and not steps_of(self.folder), lambda: str(self.folder))

    def story(self) -> str:
        """What its daemons said, for a failed test."""
        logs = {path.name: path.read_text(errors="replace")[-1500:] for path in (self.folder / "log").iterdir()}
        return "\n".join([*self.jobs(), *(f"--- {name}\n{text}" for name, text in sorted(logs.items()) if text)])


@contextmanager
def cluster(
    nodes: Sequence[str] = ("n1", "n2", "n3"), kind: type[Cluster] = Cluster, **settings: Any
) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="bourse-slurm-"))
    folder.chmod(0o755)
    here = kind(folder, nodes, **settings)
    try:
        here.start()
        yield here
    finally:
        here.stop()
        shutil.rmtree(folder, ignore_errors=True)


def steps_of(folder: Path) -> list[Any]:
    """What slurmd left behind: its steps overwrite their command line, and are known by the files that they hold."""
    steps = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # it has ended meanwhile
            if process.name() == "slurmstepd" and process.status() != psutil.STATUS_ZOMBIE:
                links = [os.readlink(entry) for entry in Path(f"/proc/{process.pid}/fd").iterdir()]
                if any(link.startswith(f"{folder}/") for link in links):
                    steps.append(process)
    return steps


def people_of(word: str) -> list[Any]:
    from tests.engines.local import people_of as everybody

    return everybody(word)


def until(condition: Callable[[], object], say: Callable[[], str] = lambda: "", patience: float = PATIENCE) -> None:
    """Ask again and again until it is true."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"it did not come true in {patience:g} s\n{say()}"
        time.sleep(0.05)


Settings = Mapping[str, Any]
