"""Our jobs in Slurm, one for each part of a gang: those that Slurm lists, that we submitted, and that we cancelled."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from scheduling.engines.plans import Phase
from scheduling.engines.slurm.commands import CommandAnswer, Commands, SlurmJob, comment, job_name, queue
from scheduling.engines.slurm.gang_plans import Plan, servers_of

QUEUE_SECONDS = 2.0
Place = tuple[str, str, int, str]  # of a part: the user whose job it is, its gang's key, its generation, its server
log = logging.getLogger(__name__)


@dataclass
class QueueListing:
    """Slurm's last list of our jobs, by place. `at` is when it was requested, 0 if Slurm has not answered yet."""

    at: float = 0.0
    jobs: dict[Place, SlurmJob] = field(default_factory=dict)
    good: bool = False  # Slurm answered the newest request


class ClusterJobs:
    """The jobs of one engine in Slurm. Moments are by our own clock (`time.monotonic`)."""

    def __init__(self, commands: Commands) -> None:
        self.commands, self.settings = commands, commands.settings
        self.listing = QueueListing()
        self.submissions: dict[str, float] = {}  # comments, and when; negative where Slurm did not confirm it
        self._cancelled: dict[tuple[str, str], float] = {}  # names and users, and when
        self._began = time.monotonic()

    def refresh(self, *, at_once: bool = False) -> None:
        """Ask Slurm for its list, at most every two seconds unless `at_once`."""
        if not at_once and self.listing.good and time.monotonic() - self.listing.at < QUEUE_SECONDS:
            return
        began = time.monotonic()
        answer, jobs = queue(self.commands)
        if not answer.is_good:
            if self.listing.good:
                log.warning("Slurm does not answer: %s", answer.sentence)
            self.listing.good = False
            return
        by_place: dict[Place, SlurmJob] = {}
        for job in jobs:  # where a part was submitted twice, the job that still runs counts
            place = job.user, job.key, job.generation, job.server
            if place not in by_place or by_place[place].is_over:
                by_place[place] = job
        self.listing = QueueListing(began, by_place, True)

    def keys(self) -> set[str]:
        """Return the keys of the gangs of which we submitted a part."""
        return {name.split(":")[1] for name in self.submissions}

    def note(self, key: str, phase: Phase, server: str, answer: CommandAnswer) -> None:
        """Note that a part was submitted, and whether Slurm confirmed it."""
        moment = time.monotonic()
        self.submissions[comment(self.settings, key, phase["number"], server)] = moment if answer.came else -moment

    def may_submit(self, plan: Plan, phase: Phase, server: str, market_keys: Collection[str] | None) -> bool:
        """Return whether a part that has no record may be submitted: none is submitted twice. Where Slurm did not
        confirm a submission, the part waits for a list that is younger than that. `market_keys` are those that the
        market knows, None before it has said so."""
        key = plan["key"]
        if self._place(plan, phase, server) in self.listing.jobs:
            return False
        moment = self.submissions.get(comment(self.settings, key, phase["number"], server))
        if moment is None:
            # No other process submits for this key; after a restart Slurm has to be asked first.
            return market_keys is None or key not in market_keys or self.listing.good
        in_doubt = moment < 0
        return in_doubt and self.listing.good and self.listing.at > -moment + QUEUE_SECONDS

    def job_of(self, plan: Plan, phase: Phase, server: str) -> SlurmJob | None:
        """Return the job of a part, None where Slurm does not answer or knows none."""
        return self.listing.jobs.get(self._place(plan, phase, server)) if self.listing.good else None

    def submitted_at(self, key: str, phase: Phase, server: str) -> float:
        """Return when a part was submitted to Slurm, or else when this engine was started."""
        return abs(self.submissions.get(comment(self.settings, key, phase["number"], server), self._began))

    def was_submitted_before(self, key: str, phase: Phase, server: str, moment: float) -> bool:
        """Return whether a part was submitted before the moment. One that we did not submit ourselves was."""
        return abs(self.submissions.get(comment(self.settings, key, phase["number"], server), 0.0)) < moment

    def of_generation(self, plan: Plan, phase: Phase) -> list[SlurmJob]:
        """Return the jobs of a generation that Slurm listed last."""
        places = (self._place(plan, phase, server) for server in servers_of(phase))
        return [self.listing.jobs[place] for place in places if place in self.listing.jobs]

    def lives(self, plan: Plan, phase: Phase) -> bool:
        return any(not job.is_over for job in self.of_generation(plan, phase))

    def waits(self, plan: Plan, phase: Phase) -> bool:
        return any(job.state == "PENDING" for job in self.of_generation(plan, phase))

    def cancel(self, key: str, generation: int, user: str | None) -> bool:
        """Cancel the jobs of a generation by their name, never by an id, and again after a while if that did not help.
        Return False where Slurm does not answer: others should wait for the next look, too. `user` is the account they
        run under; None or empty stands for the service account."""
        name, whose = job_name(self.settings, key, generation), user or self.settings.service_account
        if time.monotonic() - self._cancelled.get((name, whose), -60.0) > 2 * QUEUE_SECONDS:
            self._cancelled[name, whose] = time.monotonic()
            answer = self.commands.run("scancel", f"--name={name}", "-u", whose, user=user or "")
            if not answer.is_good:
                log.warning("%s could not be cancelled: %s", name, answer.sentence)
            return answer.came
        return True

    def end_strangers(self, keys: Collection[str]) -> None:
        """Cancel the jobs of gangs that have none of these keys."""
        for job in self.listing.jobs.values():
            if job.key not in keys and not job.is_over:
                user = "" if job.user == self.settings.service_account else job.user
                if not self.cancel(job.key, job.generation, user):
                    break

    def forget(self, keys: Collection[str]) -> None:
        self.submissions = {name: at for name, at in self.submissions.items() if name.split(":")[1] not in keys}
        remaining = self.keys()
        self._cancelled = {name: at for name, at in self._cancelled.items() if name[0].split("-")[1] in remaining}

    def _place(self, plan: Plan, phase: Phase, server: str) -> Place:
        """Return by what a part's job is recognized: its user as well, since others may give their jobs its comment."""
        user = self.settings.user_of(plan["tenant"]) or self.settings.service_account
        return user, plan["key"], phase["number"], server
