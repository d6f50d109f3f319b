"""The status of a gang, from what the launchers of its parts recorded and what Slurm lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scheduling.engines.base import (
    ACCEPTED,
    BY_OPERATOR,
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
    WAITING,
    Delivered,
    Status,
)  # fmt: skip
from scheduling.engines.launcher.confine import MEGABYTE
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.parts import part_name
from scheduling.engines.plans import Phase
from scheduling.engines.slurm.cluster_jobs import QUEUE_SECONDS, ClusterJobs
from scheduling.engines.slurm.commands import SlurmJob
from scheduling.engines.slurm.gang_plans import Plan, end_of, first_server, servers_of
from scheduling.engines.slurm.parts import PartsHeard, clock_sentence
from scheduling.engines.slurm.records import MOST_RESTARTS

SILENT_SECONDS = 10.0  # a launcher without a beat for longer, by our own clock, is lost
LAST_WORD_SECONDS = 3.0  # the coordinator's part has so long to record its end after another part has ended
NODE_FAILED = "NODE_FAIL"
Records = Mapping[str, dict[str, Any] | None]  # of one generation, by server
End = tuple[str, str, float]  # how, why and when


class GangStatuses:
    """Derives the status of gangs. `shared` is the folder in which launchers write; `clock` returns the time of
    slots."""

    def __init__(self, jobs: ClusterJobs, parts: PartsHeard, shared: Path, clock: Callable[[], float]) -> None:
        self._jobs, self._parts, self._shared, self._clock = jobs, parts, shared, clock
        self._folders: dict[tuple[str, str], Folder] = {}  # the parts' folders in the shared folder

    def folder_of(self, plan: Plan, phase: Phase, server: str) -> Folder:
        """Return the folder in which a part's launcher writes."""
        place = plan["key"], part_name(phase["number"], server)
        if place not in self._folders:
            self._folders[place] = Folder(self._shared, plan["home"], *place)
        return self._folders[place]

    def record_of(self, plan: Plan, phase: Phase, server: str) -> dict[str, Any] | None:
        """Return the launcher's newest record; raises `OSError` where the shared folder cannot be read."""
        return self._parts.record_of(self.folder_of(plan, phase, server), self._clock)

    def collect(self, own: Folder, plan: Plan) -> bool:
        """Append what is new in the logs and the progress of the parts to our own. Return whether anything was."""
        places = [(phase, server) for phase in self._near(plan) for server in servers_of(phase)]
        parts = [self.folder_of(plan, phase, server) for phase, server in places]
        return self._parts.collect(own, parts, int(plan["limits"]["log_mb"]) * MEGABYTE)

    def status_of(self, plan: Plan) -> Status:
        """Return a gang's status from the records of all parts. The gang's end is the first one that counts, in the
        order of generations."""
        now = self._clock()
        states = [
            (phase, {server: self.record_of(plan, phase, server) for server in servers_of(phase)})
            for phase in self._near(plan)
        ]
        records = [record for _, jobs in states for record in jobs.values() if record]
        starts = [record["started_at"] for record in records if record["started_at"]]
        lead = [
            jobs[first_server(phase)] for phase, jobs in states if phase["members"] and jobs.get(first_server(phase))
        ]
        newest = lead[-1] if lead and lead[-1] else {}
        status = Status(
            state=RUNNING if starts else WAITING if records else ACCEPTED,
            started_at=min(starts, default=None),
            exit_code=newest.get("exit_code"),
            progress=next((record["progress"] for record in reversed(lead) if record and record["progress"]), {}),
            restarts=min(sum(record["restarts"] for record in records), MOST_RESTARTS),
            delivered=tuple(Delivered(*span) for record in records for span in record["delivered"]),
        )
        for phase, jobs in states:
            if not phase["members"]:
                continue
            if over := self._end_by(plan, phase, jobs, now):
                how, why, ended_at = over
                return replace(status, state=ENDED, end=how, detail=why[:200], ended_at=ended_at)
        if any(record["state"] == STOPPING for record in records):
            status = replace(status, state=STOPPING)
        waits = [phase for phase, jobs in states if phase["at"] <= now and not all(jobs.values())]
        if waits and not self._jobs.listing.good and not starts:
            return replace(status, state=UNKNOWN, detail="Slurm does not answer")
        return status

    def forget(self, keys: Collection[str]) -> None:
        self._parts.forget(keys)
        self._folders = {place: folder for place, folder in self._folders.items() if place[0] not in keys}

    def _near(self, plan: Plan) -> list[Phase]:
        """Return the generations that may have parts by now: those that began or soon will, or else the first one."""
        phases: list[Phase] = plan["phases"]
        lead = self._jobs.settings.timings.lead
        return [phase for phase in phases if phase["at"] - lead <= self._clock()] or phases[:1]

    def _end_by(self, plan: Plan, phase: Phase, records: Records, now: float) -> End | None:
        """Return how this generation ended the gang, why and when, or None where it did not end it."""
        over = {server: record for server, record in records.items() if record and record["state"] == ENDED}
        first = over.get(first_server(phase))
        asked_at = end_of(plan, phase) - ((plan.get("own") or {}).get("grace_seconds", 0.0))
        early = first is not None and first["ended_at"] < asked_at - LAST_WORD_SECONDS  # it ended by itself
        is_last = phase is plan["phases"][-1] or now >= plan["end_at"]
        if first and (first["end"] != STOPPED or plan["stop"] or early or is_last):
            return first["end"], first["detail"], first["ended_at"]
        for server, record in sorted(over.items()):
            beat = self._parts.beat_of(self.folder_of(plan, phase, server))
            late = time.monotonic() - beat.moved > LAST_WORD_SECONDS
            if first is None and record["end"] in (LOST, FAILED) and late:
                return record["end"], f"{server}: {record['detail']}", record["ended_at"]
        no_records, listing = not any(records.values()), self._jobs.listing
        if plan["stop"] and no_records and listing.good and not self._jobs.lives(plan, phase):
            return (PAUSED if plan["stop"] == PAUSED else STOPPED), "it was taken back before it began", now
        for server in sorted(records.keys() - over.keys()):
            if end := self._lost(plan, phase, server, records[server], now):
                return end
        return None

    def _lost(self, plan: Plan, phase: Phase, server: str, record: Mapping[str, Any] | None, now: float) -> End | None:
        """Return how, why and when a part was lost whose launcher has recorded no end and will record none any more.
        Return None while its record may still arrive."""
        if record is None:
            return self._absent(plan, phase, server, now)
        return self._silent(plan, phase, server, record, now)

    def _silent(self, plan: Plan, phase: Phase, server: str, record: Mapping[str, Any], now: float) -> End | None:
        """Return how a part was lost whose launcher has recorded that it waits or runs, or None."""
        beat = self._parts.beat_of(self.folder_of(plan, phase, server))
        job = self._jobs.job_of(plan, phase, server)
        if record["state"] == WAITING and (by := beat.clock_differs) is not None:
            return LOST, clock_sentence(server, by), now
        if job and (job.state == NODE_FAILED or (job.is_over and beat.silent > LAST_WORD_SECONDS)):
            return LOST, _by_slurm(job, server), record["beat"]
        if beat.silent > SILENT_SECONDS:
            return LOST, f"{NOT_HEARD} on {server} any more", record["beat"]
        return None

    def _absent(self, plan: Plan, phase: Phase, server: str, now: float) -> End | None:
        """Return how a part was lost whose launcher has recorded nothing, or None."""
        moment, key = time.monotonic(), plan["key"]
        job, listing = self._jobs.job_of(plan, phase, server), self._jobs.listing
        is_new = moment - listing.at < QUEUE_SECONDS
        # So long after its submission its launcher's first record would be here.
        is_old = self._jobs.was_submitted_before(key, phase, server, moment - LAST_WORD_SECONDS)
        if job and job.is_over and is_new and is_old:
            return LOST, _by_slurm(job, server), now
        submitted_at = now - (moment - self._jobs.submitted_at(key, phase, server))
        late = now > max(phase["at"], submitted_at) + self._jobs.settings.gather_seconds + LAST_WORD_SECONDS
        if late and listing.good and not plan["stop"]:
            why = f" (Slurm says {job.reason})" if job and job.reason not in ("None", "") else ""
            return LOST, f"{NOT_ALL_CAME}: {server}{why}", now
        return None


def _by_slurm(job: SlurmJob, server: str) -> str:
    if job.state == NODE_FAILED:
        return f"server {server} failed"
    return f"its part on {server} was ended by Slurm {BY_OPERATOR} ({job.state})"
