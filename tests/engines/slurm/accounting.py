"""A Slurm that keeps accounts as a site's does: slurmdbd, and below it a MariaDB in the cluster's folder."""

from __future__ import annotations

import getpass
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.engines.slurm.cluster import Cluster, program, until
from tests.patience import PATIENCE
from tests.ports import free_ports

MISSING = [name for name in ("slurmdbd", "sacct", "mariadbd") if program(name) is None]
WHY_NOT = (
    f"Slurm's accounting needs {', '.join(MISSING)}, which is not installed (Debian: slurmdbd, mariadb-server-core)"
)
HOST = "127.0.0.1"


class AccountedCluster(Cluster):
    """Its controller tells slurmdbd of every job, and `sacct` asks that."""

    def __init__(self, folder: Path, nodes: Sequence[str], **settings: Any) -> None:
        self.database_port, self.accounting_port = free_ports(2)
        accounts = {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": HOST,
            "AccountingStoragePort": self.accounting_port,
            "AccountingStoragePass": folder / "munge.socket",  # so it is called where munge is asked
        }
        super().__init__(folder, nodes, **accounts | settings)

    def before_controller(self) -> None:
        """A database that lets in everybody, as it listens on the loopback alone; then who writes into it."""
        data, me = self.folder / "mariadb", getpass.getuser()
        data.mkdir()
        self._start(
            "mariadbd", "--no-defaults", f"--datadir={data}", f"--user={me}", f"--port={self.database_port}",
            f"--bind-address={HOST}", f"--socket={self.folder / 'mariadb.socket'}", "--skip-name-resolve",
            f"--pid-file={self.folder / 'mariadb.pid'}", f"--tmpdir={self.folder}",
            "--skip-grant-tables", "--innodb-flush-log-at-trx-commit=0",
        )  # fmt: skip
        until(lambda: answers(self.database_port), self.story)
        self._write_accounting()
        self._start("slurmdbd", "-D")
        until(lambda: answers(self.accounting_port), self.story)
        added = self.call("sacctmgr", "--immediate", "add", "cluster", "test")
        assert added.returncode == 0, added.stdout + added.stderr

    def _write_accounting(self) -> None:
        """slurmdbd looks for it beside slurm.conf, and refuses one that others may read."""
        values = {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.socket}",
            "DbdHost": "localhost",
            "DbdAddr": HOST,
            "DbdPort": self.accounting_port,
            "SlurmUser": getpass.getuser(),
            "StorageType": "accounting_storage/mysql",
            "StorageHost": HOST,
            "StoragePort": self.database_port,
            "StorageUser": "root",
            "LogFile": self.folder / "log" / "slurmdbd",
            "PidFile": self.folder / "slurmdbd.pid",
        }
        conf = self.folder / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    def _start(self, name: str, *words: str) -> None:
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [program(name) or name, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip


def answers(port: int) -> bool:
    """Whether somebody takes calls there."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=PATIENCE):
        return True
    return False
