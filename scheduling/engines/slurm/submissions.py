"""Submit the parts of gangs to Slurm as jobs: each once, when its slot is near."""

from __future__ import annotations

import logging
import math
import shlex
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.parts import part_name
from scheduling.engines.plans import Phase
from scheduling.engines.slurm.cluster_jobs import ClusterJobs
from scheduling.engines.slurm.commands import CommandAnswer, submission
from scheduling.engines.slurm.gang_plans import Plan, end_of, servers_of
from scheduling.engines.slurm.gang_status import GangStatuses

THREADS = 4  # submissions at once: 380 a second, and more threads do not help
FENCE_MINUTES = 2  # Slurm's own time limit is this much later than the end
NOT_ASKED = CommandAnswer(False, sentence="it is submitted once Slurm answers")
Due = tuple[Plan, Phase, str]  # a part to be submitted: its gang's plan, its generation, its server
log = logging.getLogger(__name__)


class Submissions:
    """Submits parts. `shared` is the folder that all servers see; `clock` returns the time of slots."""

    def __init__(self, jobs: ClusterJobs, statuses: GangStatuses, shared: Path, clock: Callable[[], float]) -> None:
        self._jobs, self._statuses, self._shared, self._clock = jobs, statuses, shared, clock

    def due(self, plan: Plan, market_keys: Collection[str] | None) -> Iterator[Due]:
        """Yield the parts that are to be submitted: their slot is near, they may still run, and Slurm does not have
        them. `market_keys` are those that the market knows, None before it has said so."""
        now = self._clock()
        if plan["stop"]:
            return
        for phase in plan["phases"]:
            begins = phase["at"] - self._jobs.settings.timings.lead
            if not begins <= now < min(end_of(plan, phase), plan["end_at"]) - 1.0:
                continue
            for server in servers_of(phase):
                if self._may_run(plan, phase, server):
                    continue
                if self._jobs.may_submit(plan, phase, server, market_keys):
                    yield plan, phase, server

    def send(self, due: Sequence[Due]) -> list[CommandAnswer]:
        """Submit parts, four at a time, slot by slot: the first part in Slurm's queue takes the server, so one that
        waits there for a later slot would keep out one of an earlier slot.

        Once Slurm does not answer, the rest is left for the next call. Each would wait for it as long; and while an
        engine waits for hundreds of them, it does not look at its gangs, whose lease ends."""
        answers: dict[int, CommandAnswer] = {}
        is_silent = threading.Event()

        def submitted(place: int) -> CommandAnswer:
            answer = NOT_ASKED if is_silent.is_set() else self.send_one(*due[place])
            if not answer.came:
                is_silent.set()
            return answer

        with ThreadPoolExecutor(THREADS) as pool:
            for second in sorted({int(phase["at"]) for _, phase, _ in due}):
                places = [place for place, (_, phase, _) in enumerate(due) if int(phase["at"]) == second]
                answers |= zip(places, pool.map(submitted, places), strict=True)
        return [answers[place] for place in range(len(due))]

    def send_one(self, plan: Plan, phase: Phase, server: str) -> CommandAnswer:
        settings, key = self._jobs.settings, plan["key"]
        counts: dict[str, int] = {}
        for role, _, where in phase["members"]:
            if where == server:
                counts[role] = counts.get(role, 0) + 1
        folder = Folder(self._shared, plan["home"], key, part_name(phase["number"], server))
        minutes = math.ceil((end_of(plan, phase) - self._clock()) / 60) + FENCE_MINUTES
        if plan["open_ended"]:
            minutes = math.ceil(settings.longest_seconds / 60)
        words = submission(
            settings, key, phase["number"], server, counts=counts, amounts=plan["amounts"],
            minutes=minutes, tenant=plan["tenant"],
            output=str(folder.ours / f"{folder.part}.out"),
        )  # fmt: skip
        part = ["part", str(self._shared), plan["home"], key, str(phase["number"]), server]
        script = f"#!/bin/sh\nexec {shlex.join([plan['python'], '-S', plan['launcher'], *part])}\n"
        answer = self._jobs.commands.run(*words, script=script, user=settings.user_of(plan["tenant"]) or "")
        self._jobs.note(key, phase, server, answer)
        if not answer.came:
            log.warning("nobody knows whether %s was submitted: %s", folder.part, answer.sentence)
        return answer

    def _may_run(self, plan: Plan, phase: Phase, server: str) -> bool:
        """Return whether a part has a record, or may have one: nobody knows until the shared folder can be read."""
        try:
            return self._statuses.record_of(plan, phase, server) is not None
        except OSError:
            return True
