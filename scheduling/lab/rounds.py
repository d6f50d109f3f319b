"""Working at studies, oldest first. Only one process does it at a time, so that another one is always free for the
market.

A study is done in pieces: its history is read, then replay after replay is made and kept, then the figures are worked
out. A process that begins after a restart or a kill continues after the last piece that was kept. Within a piece there
is a pause every other second, in which other questions about the past have their turn, and in which a study that was
called off ends.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from django.db import DatabaseError

from scheduling.common import AUDIT_LOCK, alone
from scheduling.core.scenario import BadScenario, to_json, write
from scheduling.lab.histories.history import History
from scheduling.lab.requests import (
    FIGURES,
    MOST_MINUTES,
    REPORT,
    SCENARIO,
    TAKES_LONGER,
    UNTITLED,
    file_bytes,
    file_keep,
    page_of,
)
from scheduling.lab.studies.figures import ALL, TOGETHER, HistoryFigures, Key, figures_of
from scheduling.lab.studies.replays import Replay, replay_bytes, replay_read, rules_check
from scheduling.lab.studies.report import ReportPage, answer_line, body_of, report
from scheduling.lab.studies.study import BACKFILL, MARKETS, Study, StudyRule, files_named, history_read, study_of
from scheduling.market.view import arrival_of, pool_scenario
from scheduling.models import STUDY_AT_WORK, LabFile, LabStudy, Pool, StudyState
from tenants.access import Refused
from tenants.scoping import scope_disabled

ROUND = timedelta(minutes=10)  # no piece begins after it, as the broker hands on much longer tasks
PAUSE = timedelta(seconds=2)
MOST_TRIES = 3  # tries of one piece
PROBE = 400  # jobs that are replayed to learn how long all will take
NOTHING: Mapping[str, Any] = {"name": "fifo", "workers": 1}  # a policy, which a history does not read
BROKE_OFF = Refused("failed", "It broke off three times: it took too long, or too much memory. Use `manage.py lab`.")

Clock = Callable[[], datetime]


class _CalledOff(Exception):
    """The study's row was changed or removed meanwhile, as happens when somebody calls it off."""


@dataclass
class _StudyWork:
    """A study that a process works at. `pause` is called between two slots of a replay."""

    row: LabStudy
    clock: Clock
    others: Callable[[], None]
    looked: datetime

    def keep(self, **columns: Any) -> None:
        """Change the row, if this process still has it."""
        mine = LabStudy.objects.filter(pk=self.row.pk, state=self.row.state, tries=self.row.tries)
        if not mine.update(**columns):
            raise _CalledOff
        for name, value in columns.items():
            setattr(self.row, name, value)

    def pause(self, settled: int, jobs: int) -> None:
        """Every other second, write how far the replay is, and give other work its turn."""
        now = self.clock()
        if now - self.looked < PAUSE:
            return
        self.keep(part=settled / jobs if jobs else 1.0)
        self.others()
        self.looked = self.clock()


def studies_round(*, clock: Clock, others: Callable[[], None]) -> int:
    """Work at the studies that wait, oldest first. Return how many it worked at: none where another process is at it.

    `others` answers the other questions about the past. It is called by this process, under the same lock.
    """
    ends, worked = clock() + ROUND, 0
    with alone(AUDIT_LOCK) as ours:
        while ours and clock() < ends:
            row = LabStudy.objects.filter(state__in=STUDY_AT_WORK).order_by("pk").first()
            if row is None:
                break
            _work(row, clock, others, ends)
            worked += 1
    return worked


def _work(row: LabStudy, clock: Clock, others: Callable[[], None], ends: datetime) -> None:
    """Do one study, as far as it gets until `ends`. A row that is already running was left by a process that ended."""
    state = StudyState.READING if row.state == StudyState.READING else StudyState.RUNNING
    claimed = {"state": state, "tries": row.tries + 1, "began_at": row.began_at or clock()}
    if not LabStudy.objects.filter(pk=row.pk, state=row.state, tries=row.tries).update(**claimed):
        return
    row.state, row.tries = state, row.tries + 1
    work = _StudyWork(row, clock, others, clock())
    try:
        if row.tries > MOST_TRIES:
            _end(work, StudyState.FAILED, BROKE_OFF.sentence)
            return
        with TemporaryDirectory(prefix="bourse-lab-") as name:
            study, history = _history(work, Path(name))
            if row.state == StudyState.READING:
                _reading(work, study, history)
            else:
                _replays(work, study, history, Path(name), ends)
    except _CalledOff:
        return
    except DatabaseError:  # the next tick tries again
        raise
    except BadScenario as error:
        _end(work, StudyState.FAILED, f"{error}."[:2000])
    except Exception as error:  # whatever breaks, the study ends and says so
        _end(work, StudyState.FAILED, f"It broke off: {type(error).__name__}: {error}."[:2000])


def _end(work: _StudyWork, state: StudyState, sentence: str) -> None:
    row = work.row
    mine = LabStudy.objects.filter(pk=row.pk, state=row.state, tries=row.tries)
    mine.update(state=state, sentence=sentence, ended_at=work.clock(), part=0.0)


def _history(work: _StudyWork, folder: Path) -> tuple[Study, History]:
    """Write the study's files into the folder, and read its history from them."""
    row = work.row
    if row.pool is not None and not LabFile.objects.filter(study=row, name=SCENARIO).exists():
        file_keep(row, SCENARIO, _past_of_pool(row.pool, row.first_at, row.last_at))
    for name in files_named(row.document["history"]):
        (folder / name).write_bytes(file_bytes(row.pk, name) or b"")
    study = study_of(row.document, UNTITLED, lambda name: hashlib.sha256((folder / name).read_bytes()).hexdigest())
    return study, history_read(study, folder)


def _past_of_pool(pool: Pool, first_at: datetime | None, last_at: datetime | None) -> bytes:
    """Return the pool's jobs of the period as a scenario file, as `pool_scenario` writes it, without its policy."""
    if first_at is None or last_at is None:
        raise AssertionError("a study of a pool has a period")
    first, last = (max(0, math.floor(arrival_of(pool, moment))) for moment in (first_at, last_at))
    if last <= first:
        raise BadScenario("history", f"{pool.slug} had not opened by then")
    with scope_disabled("the past of all tenants is decided again"):
        scenario = pool_scenario(pool, first, last, 0)
    if not scenario.jobs:
        raise BadScenario("history", f"nobody submitted a job to {pool.slug} in these days")
    document = write(replace(scenario, policy=dict(NOTHING), instant=None))
    return to_json(document).encode()


def _reading(work: _StudyWork, study: Study, history: History) -> None:
    """Store what was read, and how long the replays will take: the first jobs are replayed to find out."""
    row, tasks = work.row, _tasks(study)
    rules_check(history, study)
    few = replace(history, jobs=history.jobs[:PROBE])
    seconds: dict[bool, float] = {}
    for has_worth in {rule.has_worth for rule, _ in tasks}:
        rules = [rule for rule, _ in tasks if rule.has_worth == has_worth]
        rule = next((rule for rule in rules if rule.kind in (BACKFILL, *MARKETS)), rules[0])
        began = work.clock()
        replay_bytes(few, study, rule, study.worths[0], work.pause)
        seconds[has_worth] = (work.clock() - began).total_seconds()
    minutes = sum(seconds[rule.has_worth] for rule, _ in tasks) * len(history.jobs) / len(few.jobs) / 60.0
    at_once = row.starts_at_once and minutes <= MOST_MINUTES
    work.keep(
        digest=study.digest,
        owners=list(history.owners),
        history=_read(history),
        minutes=minutes,
        total=len(tasks),
        done=len(tasks) - len(_missing(row, study, tasks)),
        sentence=TAKES_LONGER.sentence if row.starts_at_once and not at_once else "",
    )
    work.keep(state=StudyState.WAITING if at_once else StudyState.READY, tries=0)


def _read(history: History) -> dict[str, Any]:
    return {
        "jobs": len(history.jobs),
        "owners": len(history.owners),
        "machines": len(history.machines),
        "units": history.units,
        "unit": history.unit,
        "days": history.days,
        "first": history.dates[0],
        "last": history.dates[-1],
        "slot_minutes": history.slot_seconds / 60,
        "rows": history.rows,
        "left_out": dict(history.left_out or {}),
        "bad": [[line.number, line.why] for line in history.bad[:20]],
        "bad_lines": len(history.bad),
        "notes": list(history.notes),
    }


def _tasks(study: Study) -> list[tuple[StudyRule, str]]:
    """Return the replays: each rule under each assumption of worth that makes a difference to it."""
    return [(rule, worth) for rule in study.rules for worth in study.worths_of(rule)]


def _missing(row: LabStudy, study: Study, tasks: list[tuple[StudyRule, str]]) -> list[tuple[StudyRule, str]]:
    names = set(LabFile.objects.filter(study=row, name__endswith=".npz").values_list("name", flat=True))
    return [task for task in tasks if _name(study, task) not in names]


def _name(study: Study, task: tuple[StudyRule, str]) -> str:
    return f"{study.replay_digest(*task)}.npz"


def _replays(work: _StudyWork, study: Study, history: History, folder: Path, ends: datetime) -> None:
    """Make the missing replays, one after the other; once none is missing, write the results."""
    row, tasks = work.row, _tasks(study)
    while missing := _missing(row, study, tasks):
        if work.clock() >= ends:
            work.keep(state=StudyState.WAITING, tries=0)
            return
        content = replay_bytes(history, study, *missing[0], work.pause)
        work.keep(part=0.0)  # raises, so that nothing is kept of a study that was called off meanwhile
        file_keep(row, _name(study, missing[0]), content)
        work.keep(done=len(tasks) - len(_missing(row, study, tasks)), tries=1)
    work.keep(done=len(tasks), part=0.0)
    replays: dict[tuple[str, str], Replay] = {}
    for rule, worth in tasks:
        path = folder / _name(study, (rule, worth))
        path.write_bytes(file_bytes(row.pk, path.name) or b"")
        replays[rule.name, worth] = replay_read(path)
    figures = figures_of(study, history, replays)
    file_keep(row, FIGURES, figures.csv().encode())
    file_keep(row, REPORT, report(study, history, figures).encode())
    for owner in (None, *history.owners):
        file_keep(row, page_of(owner), body_of(ReportPage(study, history, figures, owner)).encode())
    work.keep(answer=_answer(study, figures))
    _end(work, StudyState.DONE, f"{answer_line(study, history, figures)}.")


def _answer(study: Study, figures: HistoryFigures) -> dict[str, Any]:
    """Return the one number with its interval and counts, or nothing where the study compares nothing."""
    key = Key("owner", study.answer, study.against, ALL, TOGETHER, "", "saved")
    if key not in figures.by_key:
        return {}
    saved, waited = figures.by_key[key], figures.by_key[key._replace(measure="waited_against")]
    numbers = {"saved": saved.value, "low": saved.low, "high": saved.high, "waited": waited.value}
    counts = {
        name: int(figures.by_key[Key("verdict", study.answer, study.against, ALL, "", "", name)].value)
        for name in ("owners_gain", "owners_lose", "owners_unsure")
    }
    values = {name: float(number) if np.isfinite(number) else None for name, number in numbers.items()}
    return {"rule": study.answer, "against": study.against, "seen": saved.is_seen, **values, **counts}
