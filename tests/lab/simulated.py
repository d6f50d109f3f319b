"""How often the interval of a figure holds its truth: over whole histories, simulated, replayed and measured."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from scheduling.lab.histories.assembling import Wishes, assemble
from scheduling.lab.histories.history import DAY, HOUR, History, Log, LoggedJob
from scheduling.lab.histories.machines import alike
from scheduling.lab.studies.draws import Sure
from scheduling.lab.studies.figures import ALL, TOGETHER, Key, figures_of
from scheduling.lab.studies.replays import Replay, ReplayTask, replay_make, replay_read
from tests.lab.logs import BEGIN, STUDY, study_of

DAYS, JOBS_A_DAY = 30, 20
OWNED = {"vision": 4, "speech": 4, "climate": 4}  # as the truth, so the same in every history
MEASURES = ("saved", "in_time_part", "in_time_more", "borrowed")
TEXT = STUDY.replace("draws: 40", "draws: 200") + "rules: [alone, backfill]\nworth: [by_hour]\n"


def history_drawn(seed: int) -> list[LoggedJob]:
    """Days drawn alike, one apart from the other: whatever is the truth of one is that of all."""
    dice, jobs = random.Random(seed), []
    for day in range(DAYS):
        busy = {owner: dice.choice([0.3, 1.0, 1.7]) for owner in OWNED}
        for _ in range(JOBS_A_DAY):
            owner = dice.choices(list(busy), list(busy.values()))[0]
            submitted = BEGIN + day * DAY + round(min(0.7, max(0.05, dice.gauss(0.35, 0.12))) * DAY)
            jobs.append(
                LoggedJob("", owner, submitted, None, None, dice.randint(1, 5) * HOUR, dice.choice([1, 1, 2, 4]))
            )
    return sorted(jobs, key=lambda job: job.submitted)


def _history(jobs: list[LoggedJob]) -> History:
    log = Log(tuple(jobs), len(jobs), {}, (), {})
    return assemble(log, alike(3, 4), Wishes("UTC", "gpu", slot_seconds=HOUR, days=DAYS, quotas=OWNED))


def figures_drawn(folder: Path, seed: int) -> Mapping[str, Sure]:
    """Of one history: what sharing brings all owners together, with intervals."""
    study, history = study_of(folder, f"{TEXT}seed: {seed}\n"), _history(history_drawn(seed))
    replays: dict[tuple[str, str], Replay] = {}
    for rule in study.rules:
        replay_make(ReplayTask(history, study, rule, "by_hour", folder / "replay.npz"))
        replays[rule.name, "by_hour"] = replay_read(folder / "replay.npz")
    figures = figures_of(study, history, replays).by_key
    key = Key("owner", "backfill", "alone", ALL, TOGETHER, "", "")
    return {measure: figures[key._replace(measure=measure)] for measure in MEASURES}


def held(folder: Path, histories: int) -> Mapping[str, float]:
    """The part of the histories whose interval holds the truth. The truth is the mean over as many other histories:
    its own error is a seventh of the interval's width where there are 200."""
    others = [figures_drawn(folder, 10_000 + seed) for seed in range(histories)]
    truth = {measure: np.mean([figures[measure].value for figures in others]) for measure in MEASURES}
    draws = [figures_drawn(folder, seed) for seed in range(histories)]
    return {
        measure: float(np.mean([f[measure].low <= truth[measure] <= f[measure].high for f in draws]))
        for measure in MEASURES
    }
