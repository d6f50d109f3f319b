"""The `Engine` for Slurm. Launchers record in the shared folder what runs and how it ended. Slurm only says whether a
part exists at all, and ends it at the latest when its time limit is over.

The engine keeps a gang's plan in its own folder; that one decides what the gang has to do. Launchers read a copy in the
shared folder. Each step is derived anew from plans and records, so an engine may die between any two steps.

What a step needs is in files of its own: `gang_plans` (what gangs have to do), `cluster_jobs` (what Slurm has of them),
`submissions` (parts that are due), `gang_status` (how gangs are) and `server_states`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import pwd
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from scheduling.engines.base import (
    ENDED,
    LOST,
    RUNNING,
    STOPPED,
    UNKNOWN,
    ClusterFinding,
    Counts,
    Fault,
    Gang,
    Generation,
    Handle,
    Report,
    ServerHealth,
    Status,
    Timings,
)  # fmt: skip
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.launcher.one_file import launcher_file
from scheduling.engines.local.surroundings import code_for
from scheduling.engines.plans import (
    continued,
    limits_of,
    own_part,
    processor_seconds,
    room_alerts,
    round_up,
    status_of,
    write_program,
)
from scheduling.engines.programs import RegisteredProgram
from scheduling.engines.slurm.cluster_jobs import ClusterJobs
from scheduling.engines.slurm.commands import Commands
from scheduling.engines.slurm.gang_plans import GangPlans, Plan, end_of
from scheduling.engines.slurm.gang_status import GangStatuses
from scheduling.engines.slurm.parts import PartsHeard, clock_sentence
from scheduling.engines.slurm.server_states import ServerStates
from scheduling.engines.slurm.settings import SlurmSettings
from scheduling.engines.slurm.submissions import Due, Submissions

GPU = "gres:gpu"
FENCE_SECONDS = 2.0  # what still runs of a generation so long after its end is cancelled
FORGET_SECONDS = ALERTS_SECONDS = 60.0
HANDS_OVER_SECONDS = 300.0  # before Slurm's own time limit, a gang whose end is open saves and goes on in another job
MOST_ROUNDS = 64  # of reading what is left of a log, 256 KiB of each part's in one
log = logging.getLogger(__name__)


class SlurmEngine:
    """The engine of one cluster. `root` is our own folder, `base` has the code of the programs, and `clock` returns the
    time of slots."""

    def __init__(
        self,
        name: str,
        settings: SlurmSettings,
        root: Path,
        base: Path,
        programs: Mapping[str, RegisteredProgram],
        *,
        limits: ProcessLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name, self.settings, self.root, self.base, self.programs = name, settings, root, base, programs
        self.shared, self.clock = Path(settings.shared), clock
        self.limits = replace(limits or ProcessLimits(), **dict(settings.limits))
        self.commands, self._parts = Commands(settings), PartsHeard()
        self.plans, self.jobs = GangPlans(root, self.shared), ClusterJobs(self.commands)
        self.statuses = GangStatuses(self.jobs, self._parts, self.shared, clock)
        self.submissions = Submissions(self.jobs, self.statuses, self.shared, clock)
        self.states = ServerStates(self.commands, clock, self._parts.silence_of)
        self._over: dict[str, Status] = {}  # gangs that have ended, by key
        self._over_at: dict[str, float] = {}  # when we saw that a gang had ended, by our own clock
        self._keys: set[str] | None = None  # keys that the market knows; other jobs of ours are to be ended
        self._uncopied: set[str] = set()  # keys of gangs whose log could not be copied
        self._alerts: tuple[str, ...] = ()
        self._alerts_at = -math.inf

    @property
    def timings(self) -> Timings:
        return self.settings.timings

    # The methods of `Engine`.

    def submit(self, gangs: Sequence[Gang]) -> dict[str, Handle | Fault]:
        """Write the plans of all gangs, then submit all parts that are due to Slurm, four at a time."""
        answers: dict[str, Handle | Fault] = {}
        due: list[Due] = []
        files_of = cache(self._files_of)  # the same for all gangs of a program
        for gang in gangs:
            answers[gang.key] = answer = self._accept(gang, files_of)
            plan = self.plans.of(answer) if isinstance(answer, Handle) else None
            if plan and gang.key not in self._over:
                due += self.submissions.due(plan, self._keys)
        for (plan, _, _), outcome in zip(due, self.submissions.send(due), strict=True):
            key = plan["key"]
            if outcome.came and outcome.sentence and isinstance(answers[key], Handle):
                answers[key] = fault = Fault(f"Slurm refused it: {outcome.sentence}.")
                self._give_up(plan, fault)
        return answers

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        """Ask Slurm once for all gangs, at most every two seconds, then read what each launcher wrote."""
        self.jobs.refresh()
        self.plans.copy()
        if self._keys is not None and self.jobs.listing.good:
            self.jobs.end_strangers(self._keys | {handle.key for handle in handles} | self.jobs.keys())
        due: list[Due] = []
        for handle in handles:
            plan = self.plans.of(handle)
            if plan and handle.key not in self._over:
                due += self.submissions.due(plan, self._keys)
        refused = {}
        for (plan, _, _), outcome in zip(due, self.submissions.send(due), strict=True):
            if outcome.came and outcome.sentence:
                refused[plan["key"]] = outcome.sentence
        statuses = {handle.key: self._observe(handle, refused.get(handle.key)) for handle in handles}
        self._fence(handles)
        self._forget({handle.key for handle in handles})
        return statuses

    def change(self, handle: Handle, end_at: float, generations: Sequence[Generation] = (), *, why: str = "") -> None:
        """Change the plan. Launchers read it again; parts of new generations are submitted when they are due."""
        if (plan := self.plans.of(handle)) is None:
            return
        phases = plan["phases"]
        if generations:
            phases = continued(phases, generations, self.clock(), anew=bool(plan.get("own")))
        self.plans.change(plan, phases=phases, end_at=end_at, why=why)

    def stop(self, handle: Handle, *, pause: bool = False, why: str = "") -> None:
        """Order the launchers to save and end. Parts that still wait in Slurm are cancelled by the next `observe`."""
        plan, word = self.plans.of(handle), "paused" if pause else "stopped"
        if plan and plan["stop"] != word and handle.key not in self._over:
            self.plans.change(plan, stop=word, why=why)

    def find(self, home: str, key: str) -> Handle | None:
        """Find a gang by its plan in our folder: with one it was submitted, or is about to be."""
        if not Folder(self.root, home, key).plan.exists():
            return None
        return Handle(key, home, {"engine": self.name})

    def reconcile(self, handles: Sequence[Handle]) -> None:
        """End the jobs of ours in Slurm that belong to no known gang, at once or as soon as Slurm answers."""
        self._keys = {handle.key for handle in handles}
        self.jobs.refresh(at_once=True)
        if self.jobs.listing.good:
            self.jobs.end_strangers(self._keys)

    def pause_all(self) -> int:
        """Let all gangs save and end, and return how many there are. They are found by their plans, without the
        database."""
        handles = [handle for handle in self.plans.on_disk(self.name) if not self._has_ended(handle)]
        for handle in handles:
            self.stop(handle, pause=True)
        return len(handles)

    def touch(self) -> None:
        """Renew the lease of all gangs; raises `OSError` where the shared folder cannot be written."""
        self.shared.mkdir(parents=True, exist_ok=True)
        (self.shared / "alive").touch()

    def servers(self) -> dict[str, ServerHealth]:
        """Return the health of the servers. Slurm is asked at most every five seconds; where it does not answer, all
        are unknown."""
        return self.states.now()

    def report(self) -> Report:
        """Report what is wrong with the reservation, the controller or a disk, read once a minute, and with clocks."""
        if time.monotonic() - self._alerts_at > ALERTS_SECONDS:
            from scheduling.engines.slurm.check import alerts

            self._alerts_at = time.monotonic()
            self._alerts = (*alerts(self), *room_alerts(self.root, self.shared))
        clocks = (f"The {clock_sentence(server, by)[4:]}." for server, by in self._parts.clocks_that_differ())
        return Report((*self._alerts, *clocks), self.commands.drain())

    def check(self, sold: Counts) -> list[ClusterFinding]:
        """Compare Slurm's configuration with what we need, and run a probe on every server: see `check.py`."""
        from scheduling.engines.slurm.check import findings

        return findings(self, sold)

    # Accepting a gang.

    def _accept(self, gang: Gang, files_of: Callable[[str], tuple[Path, Path]]) -> Handle | Fault:
        if fault := self._cannot(gang):
            return fault
        handle = Handle(gang.key, gang.home, {"engine": self.name})
        if self.plans.of(handle):
            return handle  # it was submitted before, and stays the same gang
        try:
            Folder(self.root, gang.home, gang.key).make()
            plan = self._new_plan(gang, *files_of("" if gang.own else gang.program))
            user = self.settings.user_of(gang.tenant)
            Folder(self.shared, gang.home, gang.key).make(pwd.getpwnam(user).pw_gid if user else None)
            if gang.own:
                write_program(Folder(self.shared, gang.home, gang.key), gang.own)
            self.plans.begin(plan)
        except KeyError:
            return Fault(f"The gang could not be started: there is no user {user} here.")
        except OSError as error:
            return Fault(f"The gang could not be started: the shared folder says {error.strerror or error}.")
        return handle

    def _cannot(self, gang: Gang) -> Fault | None:
        """Return why this engine cannot run the gang: it asks for something that the engine does not have."""
        if self.settings.user_of(gang.tenant) is None:
            return Fault(f"The engine {self.name} runs jobs as their tenants, and has no user for {gang.tenant}.")
        if gang.own is None:
            return None if gang.program in self.programs else Fault(f"There is no program {gang.program!r} here.")
        if gang.own.image:
            return Fault(f"The engine {self.name} starts no container images yet.")
        return None

    def _files_of(self, program: str) -> tuple[Path, Path]:
        """Return the paths of the launcher and of the folder with the code of a built-in program (or of none), as all
        servers see them."""
        programs = [self.programs[program]] if program else []
        return launcher_file(self.shared), code_for(programs, self.base, self.shared / "code")

    def _new_plan(self, gang: Gang, launcher: Path, code: Path) -> dict[str, Any]:
        self.states.now()
        phases = continued([], gang.generations, self.clock(), anew=gang.own is not None)
        seconds = self.settings.longest_seconds if gang.open_ended else gang.end_at - gang.generations[0].at
        limits = limits_of(self.limits, gang)
        gpus = {role: self._gpus(amounts) for role, amounts in gang.amounts.items()}
        if any(gpus.values()):
            limits = replace(limits, address_space_mb=0)
        cpu_seconds = processor_seconds(limits, gang, seconds)
        arguments = [] if gang.own else list(self.programs[gang.program].arguments(gang.parameters))
        servers = {server for phase in phases for _, _, server in phase["members"]}
        return {
            "engine": self.name,
            "own": own_part(gang, ["-S", str(launcher), "unpack"]),
            "key": gang.key,
            "home": gang.home,
            "tenant": gang.tenant,
            "amounts": {role: dict(amounts) for role, amounts in gang.amounts.items()},
            "gpus": gpus,
            "open_ended": gang.open_ended,
            "launcher": str(launcher),
            "python": self.settings.python,
            "launch": ["-S", str(launcher), "launch"],
            "environment": {"PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"},
            "readable": [],
            "beside": list(self.settings.writable),
            "arguments": arguments,
            "secret": secrets.token_hex(24),
            "uid": None,
            "bare": False,
            "hosts": {server: self.states.address_of(server) for server in servers},
            "phases": phases,
            "end_at": gang.end_at,
            "stop": "",
            "why": "",
            "limits": asdict(limits),
            "cpu_seconds": cpu_seconds,
            "lease_seconds": self.timings.lease,
            "gather_seconds": self.settings.gather_seconds,
        }

    def _gpus(self, amounts: Mapping[str, float]) -> int:
        """Return how many GPUs one member needs that takes these amounts."""
        resources = self.settings.resources
        return round_up(sum(each for name, each in amounts.items() if resources.get(name, "").startswith(GPU)))

    def _give_up(self, plan: Plan, fault: Fault) -> None:
        """End a gang that Slurm accepted in part only, for gangs run whole or not at all. Parts that were accepted read
        the order to stop, and are cancelled."""
        self._end(plan, Status(ENDED, ended_at=self.clock(), end=LOST, detail=fault.sentence))
        for phase in plan["phases"]:
            self.jobs.cancel(plan["key"], phase["number"], self.settings.user_of(plan["tenant"]))

    # Observing.

    def _observe(self, handle: Handle, refused: str | None) -> Status:
        """Return a gang's status, and write its end down. `refused` is why Slurm refused a part of it just now."""
        if handle.key in self._over:
            return self._over[handle.key]
        own = Folder(self.root, handle.home, handle.key)
        if (state := files.read(own.state)) and state["state"] == ENDED:
            return self._note_end(handle.key, status_of(state))
        plan = self.plans.of(handle)
        if plan is None:
            return self._end_without_plan(handle)
        try:
            status = self.statuses.status_of(plan)
        except OSError as error:
            return Status(UNKNOWN, detail=f"the shared folder cannot be read: {error.strerror or error}")
        if refused and status.state != ENDED:
            detail = f"Slurm refused a part of it: {refused}"
            status = replace(status, state=ENDED, end=LOST, ended_at=self.clock(), detail=detail)
        self._collect(own, plan, rounds=MOST_ROUNDS if status.state == ENDED else 1)
        if status.state == RUNNING and self._is_near_limit(plan):
            self._hand_over(handle)
        return self._end(plan, status) if status.state == ENDED else status

    def _hand_over(self, handle: Handle) -> None:
        """Let a gang save and end; the market starts another one, which goes on. Where our disk is full the next look
        tries again."""
        try:
            self.stop(handle, pause=True)
        except OSError as error:
            log.warning("the pause of %s could not be written down: %s", handle.key, error)

    def _is_near_limit(self, plan: Plan) -> bool:
        """Return whether Slurm will soon end a gang by the time limit that its jobs asked for. A gang whose end is open
        may still have slots then. Each generation has jobs, and a limit, of its own. One that is to end already is left
        to that order: as a paused one it would be started again."""
        if not plan["open_ended"] or plan["stop"]:
            return False
        begun = [float(phase["at"]) for phase in plan["phases"] if float(phase["at"]) <= self.clock()]
        return bool(begun) and self.clock() > max(begun) + self.settings.longest_seconds - HANDS_OVER_SECONDS

    def _collect(self, own: Folder, plan: Plan, *, rounds: int) -> None:
        """Copy what is new in the gang's log and progress, in so many rounds at most. Once it has ended there is no
        other look: an engine that was away may be far behind, and the last lines may have come since. Where our disk is
        full this waits, and the gang is followed all the same: it runs well, and what it does is paid."""
        key = plan["key"]
        try:
            for _ in range(rounds):
                if not self.statuses.collect(own, plan):
                    break
        except OSError as error:
            if key not in self._uncopied:
                log.warning("the log of %s is not copied for now: %s", key, error)
            self._uncopied.add(key)
        else:
            self._uncopied.discard(key)

    def _end_without_plan(self, handle: Handle) -> Status:
        """End a gang whose plan our folder has lost, and return how it ended. Its launchers are ordered to end before
        its end is reported, and what still runs is cancelled as the job of an unknown gang once Slurm answers."""
        theirs = Folder(self.shared, handle.home, handle.key).plan
        try:
            with contextlib.suppress(ValueError):  # then no launcher can read the plan either, and none continues
                if (plan := files.read(theirs)) and not plan["stop"]:
                    files.write(theirs, plan | {"stop": STOPPED})
        except OSError as error:
            why = f"its plan is gone, and the shared folder cannot be written: {error.strerror or error}"
            return Status(UNKNOWN, detail=why[:200])
        if self._keys is not None:
            self._keys.discard(handle.key)
        return Status(ENDED, ended_at=self.clock(), end=LOST, detail="its plan is gone")

    def _has_ended(self, handle: Handle) -> bool:
        state = files.read(Folder(self.root, handle.home, handle.key).state)
        return bool(state and state["state"] == ENDED)

    # Cancelling what must not run, and forgetting what is over.

    def _fence(self, handles: Sequence[Handle]) -> None:
        """Cancel in Slurm what still runs after its end, and what waits though it is not wanted any more."""
        if not self.jobs.listing.good:
            return
        now = self.clock()
        for handle in handles:
            key = handle.key
            if (plan := self.plans.of_key(key)) is None:
                continue
            over = time.monotonic() - self._over_at.get(key, math.inf) > FENCE_SECONDS
            for phase in plan["phases"]:
                late = now > end_of(plan, phase) + FENCE_SECONDS
                unwanted = bool(plan["stop"]) and self.jobs.waits(plan, phase)
                is_due = (late or unwanted or over) and self.jobs.lives(plan, phase)
                if is_due and not self.jobs.cancel(key, phase["number"], self.settings.user_of(plan["tenant"])):
                    return

    def _end(self, plan: Plan, status: Status) -> Status:
        """Write down how a gang ended, and then order what is left of it to stop. In the other order an engine that
        died between the two would leave a gang of which the next one knows only that it was taken back. Where our disk
        is full the market hears of the end all the same, and what is left of the gang is cancelled."""
        document = asdict(status) | {"delivered": [list(asdict(each).values()) for each in status.delivered]}
        try:
            files.write(Folder(self.root, plan["home"], plan["key"]).state, document, durable=True)
            if not plan["stop"]:
                self.plans.change(plan, stop=STOPPED)
        except OSError as error:
            log.warning("the end of %s could not be written down: %s", plan["key"], error)
        return self._note_end(plan["key"], status)

    def _note_end(self, key: str, status: Status) -> Status:
        self._over[key] = status
        self._over_at.setdefault(key, time.monotonic())
        return status

    def _forget(self, keys_asked: set[str]) -> None:
        """Forget gangs that ended and are not observed any more. If parts of them still run, they are cancelled as jobs
        of unknown gangs."""
        old = {key for key, at in self._over_at.items() if time.monotonic() - at > FORGET_SECONDS} - keys_asked
        for key in old:
            self._over.pop(key)
            self._over_at.pop(key)
        if old:
            self._uncopied -= old
            self.plans.forget(old)
            self.jobs.forget(old)
            self.statuses.forget(old)
