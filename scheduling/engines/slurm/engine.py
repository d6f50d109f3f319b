"""The `Engine` for Slurm. Launchers record in the shared folder what runs and how it ended. Slurm only says whether a
part exists at all, and ends it at the latest when its time limit is over.

The engine keeps a gang's plan in its own folder; that one decides what the gang has to do. Launchers read a copy in the
shared folder. Each step is derived anew from plans and records, so an engine may die between any two steps.
"""

from __future__ import annotations

import contextlib
import logging
import math
import pwd
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from scheduling.engines.base import (
    ACCEPTED,
    BY_OPERATOR,
    DOWN,
    DRAINING,
    ENDED,
    FAILED,
    LOST,
    NOT_ALL_CAME,
    NOT_HEARD,
    PAUSED,
    RUNNING,
    STOPPED,
    STOPPING,
    UNKNOWN,
    UP,
    WAITING,
    ClusterFinding,
    Counts,
    Delivered,
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
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.limits import ProcessLimits
from scheduling.engines.launcher.one_file import launcher_file
from scheduling.engines.launcher.parts import part_name
from scheduling.engines.local.surroundings import code_for
from scheduling.engines.plans import (
    Phase,
    continued,
    limits_of,
    own_part,
    processor_seconds,
    room_alerts,
    status_of,
    write_program,
)
from scheduling.engines.programs import RegisteredProgram
from scheduling.engines.slurm.commands import (
    CommandAnswer,
    Commands,
    SlurmJob,
    comment,
    job_name,
    queue,
    round_up,
    sinfo,
    submission,
)  # fmt: skip
from scheduling.engines.slurm.parts import PartsHeard, clock_sentence
from scheduling.engines.slurm.settings import SlurmSettings

GPU = "gres:gpu"
QUEUE_SECONDS, SERVERS_SECONDS = 2.0, 5.0
THREADS = 4  # submissions at once: 380 a second, and more threads do not help
FENCE_SECONDS = 2.0  # what still runs of a generation so long after its end is cancelled
FENCE_MINUTES = 2  # Slurm's own time limit is this much later than the end
OPEN_MINUTES = 24 * 60  # the time limit of a gang whose end is moved later again and again
FORGET_SECONDS = ALERTS_SECONDS = 60.0
SILENT_SECONDS = 10.0  # a launcher without a beat for longer, by our own clock, is lost
LAST_WORD_SECONDS = 3.0  # the coordinator's part has so long to record its end after another part has ended
NODE_FAILED = "NODE_FAIL"
Due = tuple[str, Phase, str]  # a part to be submitted: its gang's key, its generation, its server
log = logging.getLogger(__name__)


@dataclass
class QueueListing:
    """Slurm's last list of our jobs, by comment. `at` is when it was requested, 0 if Slurm has not answered yet."""

    at: float = 0.0
    jobs: dict[str, SlurmJob] = field(default_factory=dict)
    good: bool = False  # Slurm answered the newest request


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
        self.commands = Commands(settings)
        self.listing = QueueListing()
        self._plans: dict[str, dict[str, Any]] = {}  # by key, the same as in our folder
        self._behind: set[str] = set()  # keys whose plan could not be copied into the shared folder
        self._submissions: dict[
            str, float
        ] = {}  # comments of parts that were submitted, and when; negative where Slurm did not confirm it
        self._parts = PartsHeard()
        self._folders: dict[tuple[str, str], Folder] = {}  # the parts' folders in the shared folder
        self._over: dict[str, Status] = {}  # gangs that have ended, by key
        self._over_at: dict[str, float] = {}  # when we saw that a gang had ended, by our own clock
        self._states: dict[str, ServerHealth] = {}
        self._addresses: dict[str, str] = {}
        self._servers_at, self._began = 0.0, time.monotonic()
        self._keys: set[str] | None = None  # keys that the market knows; other jobs of ours are to be ended
        self._cancelled: dict[str, float] = {}
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
            if isinstance(answer, Handle) and gang.key not in self._over:
                due += [(gang.key, phase, server) for phase, server in self._due(self._plans[gang.key])]
        for (key, _, _), outcome in zip(due, self._send(due), strict=True):
            if outcome.came and outcome.sentence and isinstance(answers[key], Handle):
                self._give_up(key, fault := Fault(f"Slurm refused it: {outcome.sentence}."))
                answers[key] = fault
        return answers

    def observe(self, handles: Sequence[Handle]) -> dict[str, Status]:
        """Ask Slurm once for all gangs, at most every two seconds, then read what each launcher wrote."""
        self._list()
        self._copy_plans()
        ours = {handle.key for handle in handles} | {name.split(":")[1] for name in self._submissions}
        if self._keys is not None and self.listing.good:
            self._end_strangers(self._keys | ours)
        due = []
        for handle in handles:
            plan = self._plan(handle)
            if plan and handle.key not in self._over:
                due += [(handle.key, phase, server) for phase, server in self._due(plan)]
        refused = {}
        for (key, _, _), outcome in zip(due, self._send(due), strict=True):
            if outcome.came and outcome.sentence:
                refused[key] = outcome.sentence
        statuses = {}
        for handle in handles:
            sentence = refused.get(handle.key)
            statuses[handle.key] = self._observe(handle, sentence)
        self._fence(handles)
        self._forget({handle.key for handle in handles})
        return statuses

    def change(self, handle: Handle, end_at: float, generations: Sequence[Generation] = ()) -> None:
        """Change the plan. Launchers read it again; parts of new generations are submitted when they are due."""
        if (plan := self._plan(handle)) is None:
            return
        if generations:
            phases = continued(plan["phases"], generations, self.clock(), anew=bool(plan.get("own")))
            plan = plan | {"phases": phases}
        self._keep(handle, plan | {"end_at": end_at})

    def stop(self, handle: Handle, *, pause: bool = False) -> None:
        """Order the launchers to save and end. Parts that still wait in Slurm are cancelled by the next `observe`."""
        plan, word = self._plan(handle), "paused" if pause else "stopped"
        if plan and plan["stop"] != word and handle.key not in self._over:
            self._keep(handle, plan | {"stop": word})

    def find(self, home: str, key: str) -> Handle | None:
        """Find a gang by its plan in our folder: with one it was submitted, or is about to be."""
        if not Folder(self.root, home, key).plan.exists():
            return None
        return Handle(key, home, {"engine": self.name})

    def reconcile(self, handles: Sequence[Handle]) -> None:
        """End the jobs of ours in Slurm that belong to no known gang, at once or as soon as Slurm answers."""
        self._keys = {handle.key for handle in handles}
        self._list(at_once=True)
        if self.listing.good:
            self._end_strangers(self._keys)

    def pause_all(self) -> int:
        """Let all gangs save and end, and return how many there are. They are found by their plans, without the
        database."""
        count = 0
        for plan_file in self.root.glob("*/*/plan.json"):
            handle = Handle(plan_file.parent.name, plan_file.parent.parent.name, {})
            plan = files.read(plan_file)
            if plan and plan.get("engine") == self.name and not self._has_ended(handle):
                self.stop(handle, pause=True)
                count += 1
        return count

    def touch(self) -> None:
        """Renew the lease of all gangs; raises `OSError` where the shared folder cannot be written."""
        self.shared.mkdir(parents=True, exist_ok=True)
        (self.shared / "alive").touch()

    def servers(self) -> dict[str, ServerHealth]:
        """Return the health of the servers. Slurm is asked at most every five seconds; where it does not answer, all
        are unknown."""
        if time.monotonic() - self._servers_at > SERVERS_SECONDS:
            self._servers_at = time.monotonic()
            answer, rows = sinfo(self.commands)
            now = self.clock()
            states = {name: _server_state(state, reason, now) for name, state, reason, _ in rows}
            if not answer.is_good:
                states = {name: ServerHealth(UNKNOWN, now, answer.sentence) for name in self._states}
            for name, state in states.items():
                before = self._states.get(name)
                since = before.since if before and before.state == state.state else now
                if state.state == DOWN:
                    since = max(since, now - self._parts.silence_of(name))
                self._states[name] = replace(state, since=since)
            self._addresses |= {name: address for name, _, _, address in rows}
        return dict(self._states)

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

    # Plans.

    def _accept(self, gang: Gang, files_of: Callable[[str], tuple[Path, Path]]) -> Handle | Fault:
        if fault := self._cannot(gang):
            return fault
        handle = Handle(gang.key, gang.home, {"engine": self.name})
        if self._plan(handle):
            return handle  # it was submitted before, and stays the same gang
        try:
            Folder(self.root, gang.home, gang.key).make()
            plan = self._new_plan(gang, *files_of("" if gang.own else gang.program))
            user = self.settings.user_of(gang.tenant)
            Folder(self.shared, gang.home, gang.key).make(pwd.getpwnam(user).pw_gid if user else None)
            if gang.own:
                write_program(Folder(self.shared, gang.home, gang.key), gang.own)
            files.write(Folder(self.shared, gang.home, gang.key).plan, plan)
            files.write(Folder(self.root, gang.home, gang.key).plan, plan)
        except KeyError:
            return Fault(f"The gang could not be started: there is no user {user} here.")
        except OSError as error:
            return Fault(f"The gang could not be started: the shared folder says {error.strerror or error}.")
        self._plans[gang.key] = plan
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
        self.servers()
        phases = continued([], gang.generations, self.clock(), anew=gang.own is not None)
        seconds = OPEN_MINUTES * 60.0 if gang.open_ended else gang.end_at - gang.generations[0].at
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
            "hosts": {server: self._addresses.get(server, server) for server in servers},
            "phases": phases,
            "end_at": gang.end_at,
            "stop": "",
            "limits": asdict(limits),
            "cpu_seconds": cpu_seconds,
            "lease_seconds": self.timings.lease,
            "gather_seconds": self.settings.gather_seconds,
        }

    def _gpus(self, amounts: Mapping[str, float]) -> int:
        """Return how many GPUs one member needs that takes these amounts."""
        resources = self.settings.resources
        return round_up(sum(each for name, each in amounts.items() if resources.get(name, "").startswith(GPU)))

    def _plan(self, handle: Handle) -> dict[str, Any] | None:
        if handle.key not in self._plans and (plan := files.read(Folder(self.root, handle.home, handle.key).plan)):
            self._plans[handle.key] = plan
            self._behind.add(handle.key)  # we may have died before it was copied
        return self._plans.get(handle.key)

    def _keep(self, handle: Handle, plan: dict[str, Any]) -> None:
        """Write a plan: ours first; the copy follows as soon as the shared folder can be written."""
        files.write(Folder(self.root, handle.home, handle.key).plan, plan)
        self._plans[handle.key] = plan
        self._behind.add(handle.key)
        self._copy_plans()

    def _copy_plans(self) -> None:
        for key in list(self._behind):
            plan = self._plans[key]
            try:
                files.write(Folder(self.shared, plan["home"], key).plan, plan)
            except OSError as error:
                log.warning("the plan of %s is not in the shared folder yet: %s", key, error)
                continue
            self._behind.discard(key)

    # Submitting.

    def _due(self, plan: Mapping[str, Any]) -> Iterator[tuple[Phase, str]]:
        """Yield the parts that are to be submitted: their slot is near, they may still run, and Slurm does not have
        them."""
        now = self.clock()
        if plan["stop"]:
            return
        for phase in plan["phases"]:
            if not phase["at"] - self.timings.lead <= now < min(self._end(plan, phase), plan["end_at"]) - 1.0:
                continue
            for server in sorted({server for _, _, server in phase["members"]}):
                if self._is_to_be_sent(plan, phase, server):
                    yield phase, server

    def _is_to_be_sent(self, plan: Mapping[str, Any], phase: Phase, server: str) -> bool:
        """Return whether a part must be submitted. None is submitted twice: where Slurm did not confirm a submission,
        the part waits for a list of Slurm's that is younger than the submission."""
        name = comment(self.settings, plan["key"], phase["number"], server)
        try:
            record = self._record(plan, phase, server)
        except OSError:
            return False  # it may be running: nobody knows until the shared folder can be read
        if record or name in self.listing.jobs:
            return False
        moment = self._submissions.get(name)
        if moment is None:
            # No other process submits for this key; after a restart Slurm has to be asked first.
            return self._keys is None or plan["key"] not in self._keys or self.listing.good
        in_doubt = moment < 0
        return in_doubt and self.listing.good and self.listing.at > -moment + QUEUE_SECONDS

    def _send(self, due: Sequence[Due]) -> list[CommandAnswer]:
        """Submit parts, four at a time, slot by slot: the first part in Slurm's queue takes the server, so one that
        waits there for a later slot would keep out one of an earlier slot."""
        answers: dict[int, CommandAnswer] = {}
        with ThreadPoolExecutor(THREADS) as pool:
            for second in sorted({int(phase["at"]) for _, phase, _ in due}):
                places = [place for place, (_, phase, _) in enumerate(due) if int(phase["at"]) == second]
                answers |= zip(places, pool.map(lambda place: self._send_one(*due[place]), places), strict=True)
        return [answers[place] for place in range(len(due))]

    def _send_one(self, key: str, phase: Phase, server: str) -> CommandAnswer:
        plan, now = self._plans[key], self.clock()
        counts: dict[str, int] = {}
        for role, _, where in phase["members"]:
            if where == server:
                counts[role] = counts.get(role, 0) + 1
        folder = Folder(self.shared, plan["home"], key, part_name(phase["number"], server))
        last = OPEN_MINUTES if plan["open_ended"] else math.ceil((self._end(plan, phase) - now) / 60) + FENCE_MINUTES
        words = submission(
            self.settings, key, phase["number"], server, counts=counts, amounts=plan["amounts"], minutes=last,
            tenant=plan["tenant"], output=str(folder.ours / f"{folder.part}.out"),
        )  # fmt: skip
        part = ["part", str(self.shared), plan["home"], key, str(phase["number"]), server]
        script = f"#!/bin/sh\nexec {shlex.join([plan['python'], '-S', plan['launcher'], *part])}\n"
        answer = self.commands.run(*words, script=script, user=self.settings.user_of(plan["tenant"]) or "")
        moment = time.monotonic()
        self._submissions[comment(self.settings, key, phase["number"], server)] = moment if answer.came else -moment
        if not answer.came:
            log.warning("nobody knows whether %s was submitted: %s", folder.part, answer.sentence)
        return answer

    def _end(self, plan: Mapping[str, Any], phase: Phase) -> float:
        """Return the end of a generation. The last one continues for as long as its gang may run."""
        end_at = float(plan["end_at"])
        return end_at if phase is plan["phases"][-1] else min(end_at, float(phase["end"]))

    def _give_up(self, key: str, fault: Fault) -> None:
        """End a gang that Slurm accepted in part only, for gangs run whole or not at all. Parts that were accepted read
        the order to stop, and are cancelled."""
        plan = self._plans[key]
        self._keep(Handle(key, plan["home"], {}), plan | {"stop": "stopped"})
        self._note_end(key, Status(ENDED, end=LOST, detail=fault.sentence))
        for phase in plan["phases"]:
            self._cancel(key, phase["number"], self.settings.user_of(plan["tenant"]))

    # Observing.

    def _list(self, *, at_once: bool = False) -> None:
        if not at_once and self.listing.good and time.monotonic() - self.listing.at < QUEUE_SECONDS:
            return
        began = time.monotonic()
        answer, jobs = queue(self.commands)
        if not answer.is_good:
            if self.listing.good:
                log.warning("Slurm does not answer: %s", answer.sentence)
            self.listing.good = False
            return
        jobs_by_name: dict[str, SlurmJob] = {}
        for job in jobs:  # where a part was submitted twice, the job that still runs counts
            if job.comment not in jobs_by_name or jobs_by_name[job.comment].is_over:
                jobs_by_name[job.comment] = job
        self.listing = QueueListing(began, jobs_by_name, True)

    def _part(self, plan: Mapping[str, Any], phase: Phase, server: str) -> Folder:
        """Return the folder in which a part's launcher writes."""
        place = plan["key"], part_name(phase["number"], server)
        if place not in self._folders:
            self._folders[place] = Folder(self.shared, plan["home"], *place)
        return self._folders[place]

    def _record(self, plan: Mapping[str, Any], phase: Phase, server: str) -> dict[str, Any] | None:
        """Return the launcher's newest record; raises `OSError` where the shared folder cannot be read."""
        return self._parts.record_of(self._part(plan, phase, server), self.clock)

    def _observe(self, handle: Handle, refused: str | None) -> Status:
        if handle.key in self._over:
            return self._over[handle.key]
        own = Folder(self.root, handle.home, handle.key)
        if (state := files.read(own.state)) and state["state"] == ENDED:
            return self._note_end(handle.key, status_of(state))
        plan = self._plan(handle)
        if plan is None:
            return self._end_without_plan(handle)
        try:
            places = [(phase, server) for phase in self._near(plan) for server in _servers(phase)]
            parts = [self._part(plan, phase, server) for phase, server in places]
            self._parts.collect(own, parts, int(plan["limits"]["log_mb"]) * MEGABYTE)
            status = self._status(plan)
        except OSError as error:
            return Status(UNKNOWN, detail=f"the shared folder cannot be read: {error.strerror or error}")
        if refused and status.state != ENDED:
            detail = f"Slurm refused a part of it: {refused}"
            status = replace(status, state=ENDED, end=LOST, ended_at=self.clock(), detail=detail)
        if status.state == ENDED:
            document = asdict(status) | {"delivered": [list(asdict(each).values()) for each in status.delivered]}
            files.write(own.state, document, durable=True)
            self._note_end(handle.key, status)
            if not plan["stop"]:
                self._keep(handle, plan | {"stop": "stopped"})
        return status

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

    def _status(self, plan: Mapping[str, Any]) -> Status:
        """Return a gang's status from the records of all parts. The gang's end is the first one that counts, in the
        order of generations."""
        now = self.clock()
        states = [
            (phase, {server: self._record(plan, phase, server) for server in _servers(phase)})
            for phase in self._near(plan)
        ]
        records = [record for _, jobs in states for record in jobs.values() if record]
        starts = [record["started_at"] for record in records if record["started_at"]]
        lead = [jobs[_first(phase)] for phase, jobs in states if phase["members"] and jobs.get(_first(phase))]
        newest = lead[-1] if lead and lead[-1] else {}
        status = Status(
            state=RUNNING if starts else WAITING if records else ACCEPTED,
            started_at=min(starts, default=None),
            exit_code=newest.get("exit_code"),
            progress=next((record["progress"] for record in reversed(lead) if record and record["progress"]), {}),
            restarts=sum(record["restarts"] for record in records),
            delivered=tuple(Delivered(*span) for record in records for span in record["delivered"]),
        )
        for phase, jobs in states:
            if not phase["members"]:
                continue
            if over := self._end_of(plan, phase, jobs, now):
                how, why, ended_at = over
                return replace(status, state=ENDED, end=how, detail=why[:200], ended_at=ended_at)
        if any(record["state"] == STOPPING for record in records):
            status = replace(status, state=STOPPING)
        waits = [phase for phase, jobs in states if phase["at"] <= now and not all(jobs.values())]
        if waits and not self.listing.good and not starts:
            return replace(status, state=UNKNOWN, detail="Slurm does not answer")
        return status

    def _near(self, plan: Mapping[str, Any]) -> list[Phase]:
        """Return the generations that may have parts by now: those that began or soon will, or else the first one."""
        phases: list[Phase] = plan["phases"]
        return [phase for phase in phases if phase["at"] - self.timings.lead <= self.clock()] or phases[:1]

    def _end_of(
        self, plan: Mapping[str, Any], phase: Phase, records: Mapping[str, dict[str, Any] | None], now: float
    ) -> tuple[str, str, float] | None:
        """Return how this generation ended the gang, why and when, or None where it did not end it."""
        over = {server: record for server, record in records.items() if record and record["state"] == ENDED}
        first = over.get(_first(phase))
        asked_at = self._end(plan, phase) - ((plan.get("own") or {}).get("grace_seconds", 0.0))
        early = first is not None and first["ended_at"] < asked_at - LAST_WORD_SECONDS  # it ended by itself
        if first and (first["end"] != STOPPED or plan["stop"] or early or self._is_last(plan, phase, now)):
            return first["end"], first["detail"], first["ended_at"]
        for server, record in sorted(over.items()):
            beat = self._parts.beat_of(self._part(plan, phase, server))
            late = time.monotonic() - beat.moved > LAST_WORD_SECONDS
            if first is None and record["end"] in (LOST, FAILED) and late:
                return record["end"], f"{server}: {record['detail']}", record["ended_at"]
        for server in sorted(records.keys() - over.keys()):
            if end := self._missing(plan, phase, server, records[server], now):
                return end
        if plan["stop"] and not any(records.values()) and not self._lives(plan, phase) and self.listing.good:
            return (PAUSED if plan["stop"] == PAUSED else STOPPED), "it was taken back before it began", now
        return None

    def _missing(
        self, plan: Mapping[str, Any], phase: Phase, server: str, record: Mapping[str, Any] | None, now: float
    ) -> tuple[str, str, float] | None:
        """Return how, why and when a part was lost whose launcher has recorded no end and will record none any more.
        Return None while its record may still arrive."""
        name = comment(self.settings, plan["key"], phase["number"], server)
        job = self.listing.jobs.get(name) if self.listing.good else None
        if record:
            beat = self._parts.beat_of(self._part(plan, phase, server))
            if record["state"] == WAITING and (by := beat.clock_differs) is not None:
                return LOST, clock_sentence(server, by), now
            silent = time.monotonic() - beat.moved
            if job and (job.state == NODE_FAILED or (job.is_over and silent > LAST_WORD_SECONDS)):
                return LOST, _by_slurm(job, server), record["beat"]
            if silent > SILENT_SECONDS:
                return LOST, f"{NOT_HEARD} on {server} any more", record["beat"]
            return None
        if job and job.is_over and time.monotonic() - self.listing.at < QUEUE_SECONDS and self._old(name):
            return LOST, _by_slurm(job, server), now
        patience = self.settings.gather_seconds + LAST_WORD_SECONDS
        late = now > max(phase["at"], self._submitted_at(name, now)) + patience
        if late and self.listing.good and not plan["stop"]:
            why = f" (Slurm says {job.reason})" if job and job.reason not in ("None", "") else ""
            return LOST, f"{NOT_ALL_CAME}: {server}{why}", now
        return None

    def _submitted_at(self, name: str, now: float) -> float:
        """Return when a part was submitted to Slurm, or else when this engine was started."""
        return now - (time.monotonic() - abs(self._submissions.get(name, self._began)))

    def _old(self, name: str) -> bool:
        """Return whether a part was submitted so long ago that its launcher's first record would be here."""
        return time.monotonic() - abs(self._submissions.get(name, 0.0)) > LAST_WORD_SECONDS

    def _is_last(self, plan: Mapping[str, Any], phase: Phase, now: float) -> bool:
        return phase is plan["phases"][-1] or now >= plan["end_at"]

    def _lives(self, plan: Mapping[str, Any], phase: Phase) -> bool:
        names = (comment(self.settings, plan["key"], phase["number"], server) for server in _servers(phase))
        return any(name in self.listing.jobs and not self.listing.jobs[name].is_over for name in names)

    def _has_ended(self, handle: Handle) -> bool:
        state = files.read(Folder(self.root, handle.home, handle.key).state)
        return bool(state and state["state"] == ENDED)

    # Cancelling what must not run, and forgetting what is over.

    def _fence(self, handles: Sequence[Handle]) -> None:
        """Cancel in Slurm what still runs after its end, and what waits though it is not wanted any more."""
        if not self.listing.good:
            return
        now = self.clock()
        for handle in handles:
            plan = self._plans.get(handle.key)
            for phase in plan["phases"] if plan else ():
                unwanted = bool(plan and plan["stop"]) and self._waits(plan or {}, phase)
                late = plan is not None and now > self._end(plan, phase) + FENCE_SECONDS
                over = time.monotonic() - self._over_at.get(handle.key, math.inf) > FENCE_SECONDS
                if plan and (late or unwanted or over) and self._lives(plan, phase):
                    self._cancel(handle.key, phase["number"], self.settings.user_of(plan["tenant"]))

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
            self._plans.pop(key, None)
            self._behind.discard(key)
        if old:
            self._submissions = {name: at for name, at in self._submissions.items() if name.split(":")[1] not in old}
            self._parts.forget(old)
            self._folders = {place: folder for place, folder in self._folders.items() if place[0] not in old}
            keys = {name.split(":")[1] for name in self._submissions}
            self._cancelled = {name: at for name, at in self._cancelled.items() if name.split("-")[1] in keys}

    def _waits(self, plan: Mapping[str, Any], phase: Phase) -> bool:
        names = (comment(self.settings, plan["key"], phase["number"], server) for server in _servers(phase))
        return any(name in self.listing.jobs and self.listing.jobs[name].state == "PENDING" for name in names)

    def _cancel(self, key: str, generation: int, user: str | None) -> None:
        """Cancel the jobs of a generation by their name, never by an id, and again after a while if that did not help.
        `user` is the account they run under; None or empty stands for the service account."""
        name = job_name(self.settings, key, generation)
        if time.monotonic() - self._cancelled.get(name, -60.0) > 2 * QUEUE_SECONDS:
            self._cancelled[name] = time.monotonic()
            whose = user or self.settings.service_account
            answer = self.commands.run("scancel", f"--name={name}", "-u", whose, user=user or "")
            if not answer.is_good:
                log.warning("%s could not be cancelled: %s", name, answer.sentence)

    def _end_strangers(self, keys: set[str]) -> None:
        for job in self.listing.jobs.values():
            _, key, generation, _ = job.comment.split(":", 3)
            if key not in keys and not job.is_over:
                self._cancel(key, int(generation), "" if job.user == self.settings.service_account else job.user)


def _servers(phase: Phase) -> list[str]:
    return sorted({server for _, _, server in phase["members"]})


def _first(phase: Phase) -> str:
    """Return the server that has the coordinator: the one of the first member."""
    return str(phase["members"][0][2])


def _by_slurm(job: SlurmJob, server: str) -> str:
    if job.state == NODE_FAILED:
        return f"server {server} failed"
    return f"its part on {server} was ended by Slurm {BY_OPERATOR} ({job.state})"


def _server_state(state: str, reason: str, now: float) -> ServerHealth:
    """Return the health that Slurm's word for a server's state stands for; Slurm has many such words."""
    word = state.rstrip("*~#!%$@^-+").lower()
    words = "" if reason == "none" else reason
    if state.endswith("*"):
        return ServerHealth(DOWN, now, words or "it does not answer")
    if word in ("idle", "mixed", "allocated", "completing", "reserved", "planned"):
        return ServerHealth(UP, now, words)
    if word in ("draining", "drained", "drain", "maint"):
        return ServerHealth(DRAINING, now, words or word)
    if word == "unknown":
        return ServerHealth(UNKNOWN, now, words)
    return ServerHealth(DOWN, now, words or word)
