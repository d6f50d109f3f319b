"""The processes of our own trainer: workers, parameter servers, and the coordinator, which takes our orders."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from scheduling.engines.launcher import processes
from scheduling.engines.launcher.files import Folder, progress_row
from scheduling.engines.launcher.logbook import Logbook, several
from scheduling.engines.launcher.members import MemberProcess, Members, Wanted
from scheduling.engines.launcher.processes import Ended

COORDINATOR, SERVER, WORKER = "coordinator", "ps", "worker"
AddressOf = Callable[[str, int], str]
FACTS = ("epoch", "epochs", "loss", "seconds", "steps_per_second", "minibatch_seconds", "exchange_seconds", "workers",
         "servers", "gradient_mb")  # fmt: skip


class Crew(Members):
    """All processes of the trainer here, and what the coordinator reports."""

    def __init__(self, folder: Folder, plan: dict[str, Any], log: Logbook, address_of: AddressOf) -> None:
        """`address_of` returns the address at which a role and rank listens, on whichever server it runs."""
        super().__init__(folder, plan, log)
        self.address_of = address_of
        self.pausing = False
        self.last_word = self.sentence = ""

    # Starting and ending.

    def start_all(self, wanted: Wanted, own: Wanted, *, leads: bool = True) -> None:
        """Start our `own` members of those `wanted`, and the coordinator where we lead; raises `OSError` where one
        cannot be started."""
        self.exit_code, self.pausing, self.begun, self.last_word = None, False, False, ""
        self.done.clear()
        first = self._addresses(wanted)
        if leads:
            self._start(COORDINATOR, 0, wanted[0][2], first)
        for role, rank, server in own:
            self._start(role, rank, server, first)
        servers = sorted({server for _, _, server in own})
        also = " and a coordinator" if leads else ""
        self.log.note(f"Started: {several(len(own), 'process', 'processes')}{also} on {', '.join(servers)}.")

    def can_become(self, soon: Wanted, *, elsewhere: bool = False) -> bool:
        """Return whether the job can continue while its members change. No member may leave before the job began, and
        some of each kind must stay: here, or `elsewhere` where the gang has other parts."""
        here = {(each.role, each.rank, each.server) for each in self.running.values() if each.role != COORDINATOR}
        kinds = {role for role, _, _ in here.intersection(soon)}
        return (self.begun or here <= set(soon)) and (elsewhere or {SERVER, WORKER} <= kinds)

    def consists_of(self, members: Wanted) -> bool:
        """Return whether exactly these members run. A coordinator belongs to each gang, though plans do not name it."""
        coordinators = tuple(
            (each.role, each.rank, each.server) for each in self.running.values() if each.role == COORDINATOR
        )
        return super().consists_of(members + coordinators)

    def resize(self, wanted: Wanted, soon: Wanted) -> None:
        """Ask members to leave that will not be wanted soon, and start those that are missing."""
        for process in self.running.values():
            place = (process.role, process.rank, process.server)
            if process.role != COORDINATOR and place not in soon and not process.leaving:
                process.leaving = True
                processes.kill(process.pid, 15)
                self.log.note(f"{process.role} {process.rank} is asked to leave.")
        here = {(process.role, process.rank) for process in self.running.values()}
        for role, rank, server in wanted:
            if (role, rank, server) in soon and (role, rank) not in here | self.done:
                self._start(role, rank, server, None)
                self.log.note(f"{role} {rank} joins on {server}.")

    def ask_to_stop(self) -> None:
        """Ask the coordinator to save and end."""
        for process in self.running.values():
            if process.role == COORDINATOR and not process.leaving:
                process.leaving = self.pausing = True
                processes.kill(process.pid, 15)

    def paused(self) -> None:
        """Kill the processes that are left after the coordinator has saved, so that all can be started anew."""
        for process in self.running.values():
            process.leaving = True
            processes.kill(process.pid)
        self.exit_code = None

    def forget(self, pid: int, ended: Ended) -> MemberProcess | None:
        """Forget a process that ended, and return it, or None if it was none that we started."""
        process = self.running.pop(pid, None)
        if process is not None and process.role == COORDINATOR:
            self.exit_code = ended.code
            self.listen(0)  # read its last reports
        return process

    def _start(self, role: str, rank: int, server: str, first: dict[str, list[str]] | None) -> None:
        ours = {SERVER: "ps", WORKER: "worker", COORDINATOR: "chief"}
        peers = first or self._addresses(self._everybody())
        spec = {"cluster": {ours[name]: peers[name] for name in peers}, "task": {"type": ours[role], "index": rank}}
        surroundings = {
            "PATH": os.environ.get("PATH", ""),
            **self.plan["environment"],
            **self.plan.get("devices", {}).get(f"{role} {rank}", {}),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder.work),
            "TMPDIR": str(self.folder.work),
            "TF_CONFIG": json.dumps(spec),
            "ROLE": role,
            "RANK": str(rank),
            "PEERS": " ".join(f"{name}={','.join(addresses)}" for name, addresses in peers.items()),
            "JOB_SECRET": self.plan["secret"],
            "BOURSE_RUN": self.folder.key,
        }
        output, theirs = os.pipe()
        news, news_theirs = os.pipe() if role == COORDINATOR else (-1, -1)
        try:
            plan = self.plan
            command = [plan["python"], *plan["arguments"], "--folder", str(self.folder.work)]
            command += ["--outlive-parent"]  # we end it ourselves
            command += ["--progress", f"fd:{news_theirs}"] if news >= 0 else []
            handed = [news_theirs] if news >= 0 else []
            pid = self.spawn(server, command, surroundings, output=theirs, handed=handed)
        finally:
            os.close(theirs)
            if news_theirs >= 0:
                os.close(news_theirs)
        self.running[pid] = MemberProcess(role, rank, server, pid)
        self.listen_to(output, role, rank)
        if news >= 0:
            self.listen_to(news, role, rank, news=True)

    def _everybody(self) -> Wanted:
        members = {(role, rank): server for phase in self.plan["phases"] for role, rank, server in phase["members"]}
        return tuple((role, rank, server) for (role, rank), server in sorted(members.items()))

    def _addresses(self, members: Wanted) -> dict[str, list[str]]:
        addresses = {COORDINATOR: [self.address_of(COORDINATOR, 0)]}
        for name in (SERVER, WORKER):
            ranks = sorted(rank for role, rank, _ in members if role == name)
            addresses[name] = [self.address_of(name, rank) for rank in ranks]
        return addresses

    # Reading what they write.

    def hear(self, role: str, rank: int, line: bytes, *, news: bool) -> None:
        """Take a line of a process. Reports of the coordinator (`news`) are kept; other lines go into the log."""
        if not news:
            return super().hear(role, rank, line, news=False)
        row = progress_row(line)
        if not row or not self.keep_progress(row):
            return None
        event = row["event"]
        self.begun = self.begun or event == "started"
        if event == "epoch":
            self.facts = {name: row[name] for name in FACTS if isinstance(row.get(name), (int, float))}
            self.log.line(COORDINATOR, 0, f"epoch {row.get('epoch')} of {row.get('epochs')}: loss {row.get('loss')}")
        elif event in ("started", "finished", "stopped", "failed", "peer_lost", "straggler", "refused", "scaled"):
            self.log.line(COORDINATOR, 0, f"{event} {row.get('sentence') or row.get('reason') or ''}".strip())
        if event in ("finished", "stopped", "failed"):
            self.last_word, self.sentence = event, str(row.get("sentence") or "")[:200]
        return None
