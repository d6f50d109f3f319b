"""Replays: a history decided under one rule and one assumption of worth. Each is kept under its digest when it is done,
so that a study which was killed continues where it stopped."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from scheduling.core.metrics import alone_scenario
from scheduling.core.scenario import BadScenario, Scenario
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import AWARDED, BATCH, Policy
from scheduling.lab.files import save
from scheduling.lab.histories.history import History
from scheduling.lab.running import policies_build
from scheduling.lab.studies.backfill import Backfill
from scheduling.lab.studies.study import ALONE, BACKFILL, Study, StudyRule
from scheduling.lab.studies.worlds import by_night, is_night, jobs_of, world

Numbers = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
NEVER = -1
OnSlot = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Replay:
    """The outcome of every job. Amounts are credits; the last owner is the operator, who owns what nobody else does."""

    start: Whole  # (jobs,) slot; NEVER where it never started
    end: Whole  # (jobs,) slot; NEVER where it was never done
    spent: Numbers  # (owners + 1, days) paid to others, by the day on which the job that pays was submitted
    earned: Numbers  # (owners + 1, days) received from others, by the same day
    use: Whole  # (owners, slots) units that the owner's jobs hold
    owned: Whole  # (owners + 1,) units
    lends: npt.NDArray[np.bool_]  # (owners + 1, slots) whether others may begin to use what the owner leaves idle


@dataclass(frozen=True)
class ReplayTask:
    """One replay to make, and the file that keeps it."""

    history: History
    study: Study
    rule: StudyRule
    worth: str
    path: Path


def replay_make(task: ReplayTask) -> None:
    """Make a replay and keep it in its file."""
    save(task.path, replay_bytes(task.history, task.study, task.rule, task.worth))


def replay_bytes(history: History, study: Study, rule: StudyRule, worth: str, on_slot: OnSlot | None = None) -> bytes:
    """Return a replay as it is kept. `on_slot(jobs settled, jobs)` is called with the progress, and may end the replay
    by an exception."""
    with _flaws_of(rule):
        scenario = world(history, study, rule, worth)
        outcomes = _outcomes(history, scenario, rule, on_slot)
    return _bytes_of(replay_of(history, rule, scenario, outcomes))


def rules_check(history: History, study: Study) -> None:
    """Refuse a study of which a rule cannot be replayed, before the first replay, as each may take long."""
    few = replace(history, jobs=history.jobs[:1])
    for rule in study.rules:
        with _flaws_of(rule):
            policies_build(world(few, study, rule, study.worths[0]))


@contextmanager
def _flaws_of(rule: StudyRule) -> Iterator[None]:
    """Add the rule's name to the place of a flaw."""
    try:
        yield
    except BadScenario as error:
        raise BadScenario(f"rules: {rule.name}: {error.place}", error.message) from None


def _outcomes(history: History, scenario: Scenario, rule: StudyRule, on_slot: OnSlot | None) -> list[Outcome]:
    """Return one run of all owners together, or one run of each owner."""
    if rule.kind == ALONE:
        homes = [alone_scenario(scenario, owner) for owner in range(len(scenario.cluster.tenants))]
        return [simulate(home, {BATCH: Backfill()}, on_slot) for home in homes if home.jobs]
    policies: dict[str, Policy] = {BATCH: Backfill()} if rule.kind == BACKFILL else dict(policies_build(scenario))
    if rule.nights:
        policies = {lane: by_night(policy, scenario, history, rule) for lane, policy in policies.items()}
    return [simulate(scenario, policies, on_slot)]


def replay_of(history: History, rule: StudyRule, scenario: Scenario, outcomes: list[Outcome]) -> Replay:
    """Gather the runs into arrays by job, owner, day and slot. Of a job that comes twice, start and end are those of
    the first copy; its payments and the units that it holds count for both."""
    jobs, owners = len(history.jobs), len(scenario.cluster.tenants)
    start, end = np.full(jobs, NEVER), np.full(jobs, NEVER)
    spent, earned = np.zeros((owners + 1, history.days)), np.zeros((owners + 1, history.days))
    days = history.day_of([history.jobs[place].submitted for place in jobs_of(history, rule)]).tolist()
    begins: list[tuple[int, int, int, int]] = []  # owner, first slot, slot after the last, units
    for track in (track for outcome in outcomes for track in outcome.tracks):
        number, owner = track.job.number, track.job.tenant
        if not track.bookings:
            continue
        if number < jobs:
            start[number] = min(booking.start for booking in track.bookings)
            if track.state == AWARDED:
                end[number] = max(booking.end for booking in track.bookings)
        received = np.zeros(owners + 1)
        for booking in track.bookings:
            begins += [(owner, row.start, row.end, row.workers) for row in booking.allocation]
            if booking.payouts is not None:
                received += booking.payouts
        if track.settlement is not None:
            received -= track.settlement.reversal
        received[owner] = 0.0  # what a payer gets back as one of the owners is neither spent nor earned
        spent[owner, days[number]] += received.sum()
        earned[:, days[number]] += received
    use = _use(begins, owners)
    return Replay(start, end, spent, earned, use, _owned(scenario), _lends(history, rule, scenario, use.shape[1]))


def _use(held: list[tuple[int, int, int, int]], owners: int) -> Whole:
    """Return (owners, slots) units in use."""
    slots = max((row[2] for row in held), default=0)
    changes = np.zeros((owners, slots + 1), dtype=np.int64)
    if held:
        owner, first, behind, units = np.array(held, dtype=np.int64).T
        np.add.at(changes, (owner, first), units)
        np.add.at(changes, (owner, behind), -units)
    return changes.cumsum(axis=1)[:, :slots]


def _lends(history: History, rule: StudyRule, scenario: Scenario, slots: int) -> npt.NDArray[np.bool_]:
    """Return (owners + 1, slots) whether each lends; the operator does."""
    tenants = scenario.cluster.tenants
    always = np.array([*(tenant.lend == "lend" for tenant in tenants), True])
    at_night = np.array([*(owner in rule.nights for owner in history.owners), False])
    return always[:, None] & (~at_night[:, None] | is_night(history, slots))


def _owned(scenario: Scenario) -> Whole:
    return np.rint(scenario.cluster.shares[0]).astype(np.int64)


def _bytes_of(replay: Replay) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **{field.name: getattr(replay, field.name) for field in fields(Replay)})
    return stream.getvalue()


def replay_read(path: Path) -> Replay:
    """Read a replay that was kept."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return Replay(**{field.name: arrays[field.name] for field in fields(Replay)})
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
        raise BadScenario(str(path), "is no replay; remove it, and it is made again") from None
