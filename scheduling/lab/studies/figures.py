"""All figures of a study, each with its interval: the one source of the report and of `figures.csv`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduling.core.results import plain
from scheduling.lab.histories.history import HOUR, History, hours_by_day
from scheduling.lab.studies.draws import Sure, day_weights, points, ratio_of_days, sum_of_days, widest
from scheduling.lab.studies.measures import MEASURES, Numbers, logged_waits, measured, use_by_day, waits
from scheduling.lab.studies.replays import Replay
from scheduling.lab.studies.study import Study, StudyRule
from tenants.common import csv_files

ALL = "all"  # the name of all assumptions
TOGETHER = LOG = ""  # no owner means all together; no rule means as the log has it
POINTS = {"wait_50": 0.5, "wait_90": 0.9, "wait_99": 0.99}
SHARES = {"in_time_part": ("in_time", "asked"), "in_time_against_part": ("in_time_against", "asked")}


class Key(NamedTuple):
    """The subject of a figure. A part is empty where it does not matter."""

    section: str  # owner: an owner's days; day: one day; log: the log beside its replay; count: the history
    rule: str
    against: str
    worth: str
    owner: str
    day: str
    measure: str


@dataclass(frozen=True)
class HistoryFigures:
    """The figures of a study by their keys, in the order in which they are written."""

    by_key: Mapping[Key, Sure]
    days: Mapping[Key, float]  # the parts of the figures, day by day

    def csv(self) -> str:
        """Return all figures as a table. The interval is empty for a figure that is counted and not drawn."""
        heads = [*Key._fields, "value", "low", "high"]
        rows = [[*key, figure.value, figure.low, figure.high] for key, figure in self.by_key.items()]
        rows += [[*key, value, None, None] for key, value in self.days.items()]
        return csv_files.csv_text([heads, *([_cell(cell) for cell in row] for row in rows)], ends="\n")


def _cell(value: object) -> object:
    """Return a number as result files have it, and None, an empty cell, for one that is not finite."""
    if isinstance(value, float):
        return plain(value) if np.isfinite(value) else None
    return value


def figures_of(study: Study, history: History, replays: Mapping[tuple[str, str], Replay]) -> HistoryFigures:
    """Return all figures. `replays` are by the name of their rule and the assumption of worth."""
    weights = day_weights(history.days, study.draws, study.seed)
    by_key: dict[Key, Sure] = dict(_counts(history))
    days: dict[Key, float] = {}
    by_key |= _log(study, history, replays, weights)
    for rule in study.rules:
        if rule.name == study.against:
            continue
        tables = {worth: _measured(study, history, replays, rule, worth) for worth in _worths(study, rule)}
        for worth, table in tables.items():
            days |= _days(study, history, rule, worth, table)
        owners = {worth: dict(_owners(study, history, rule, worth, table, weights)) for worth, table in tables.items()}
        for worth in owners:
            by_key |= owners[worth]
        for key in owners[study.worths[0]]:
            by_key[key._replace(worth=ALL)] = widest([owners[w][key._replace(worth=w)] for w in owners])
        for worth in (*owners, ALL):
            by_key |= _verdicts(by_key, study, history, rule, worth)
    return HistoryFigures(by_key, days)


def _worths(study: Study, rule: StudyRule) -> tuple[str, ...]:
    """Return the assumptions of worth under which a rule and the one that it is compared with may give different
    figures."""
    return study.worths if rule.has_worth or study.rule(study.against).has_worth else study.worths[:1]


def _measured(
    study: Study, history: History, replays: Mapping[tuple[str, str], Replay], rule: StudyRule, worth: str
) -> Mapping[str, Numbers]:
    def replay(named: StudyRule) -> Replay:
        return replays[named.name, worth if named.has_worth else study.worths[0]]

    return measured(history, replay(rule), replay(study.rule(study.against)))


def _days(
    study: Study, history: History, rule: StudyRule, worth: str, table: Mapping[str, Numbers]
) -> Iterator[tuple[Key, float]]:
    """Return the parts of each owner's figures by day; days on which nothing happened are left out."""
    for measure, amounts in table.items():
        for number, owner in enumerate((*history.owners, history.operator)):
            for day, amount in zip(history.dates, amounts[number].tolist(), strict=True):
                if amount:
                    yield Key("day", rule.name, study.against, worth, owner, day, measure), amount


def _owners(
    study: Study, history: History, rule: StudyRule, worth: str, table: Mapping[str, Numbers], weights: Numbers
) -> Iterator[tuple[Key, Sure]]:
    """Return the figures of each owner, and of all together."""
    rows: list[tuple[str, int | None]] = [(owner, k) for k, owner in enumerate((*history.owners, history.operator))]
    for owner, number in [(TOGETHER, None), *rows]:
        key = Key("owner", rule.name, study.against, worth, owner, "", "")
        days = {name: amounts.sum(axis=0) if number is None else amounts[number] for name, amounts in table.items()}
        for measure in MEASURES:
            yield key._replace(measure=measure), sum_of_days(days[measure], weights)
        for measure, (part, whole) in SHARES.items():
            yield key._replace(measure=measure), ratio_of_days(days[part], days[whole], weights, most=1.0)


def _verdicts(
    figures: Mapping[Key, Sure], study: Study, history: History, rule: StudyRule, worth: str
) -> dict[Key, Sure]:
    """Return how many owners gain, lose, and show no difference. An owner that surely waits longer, or surely has less
    work done in time, loses, whatever else it gains."""
    counts = {"owners_gain": 0, "owners_lose": 0, "owners_unsure": 0}
    for owner in history.owners:
        key = Key("owner", rule.name, study.against, worth, owner, "", "")
        changes = [figures[key._replace(measure=measure)] for measure in ("saved", "in_time_more")]
        differences = [change for change in changes if change.is_seen]
        loses = any(change.value < 0 for change in differences)
        counts["owners_lose" if loses else "owners_gain" if differences else "owners_unsure"] += 1
    key = Key("verdict", rule.name, study.against, worth, "", "", "")
    return {key._replace(measure=name): Sure(float(count), np.nan, np.nan) for name, count in counts.items()}


def _log(
    study: Study, history: History, replays: Mapping[tuple[str, str], Replay], weights: Numbers
) -> Iterator[tuple[Key, Sure]]:
    """Return waits and use as the log has them, those of the replay of the log's own rule, and replay less log.

    The waits are those of the jobs whose waits both know.
    """
    rule = study.rule(study.log_rule)
    replay = replays[rule.name, study.worths[0]]
    of_day = history.day_of([job.submitted for job in history.jobs])
    hours = {LOG: logged_waits(history), rule.name: waits(history, replay)}
    uses = {LOG: hours_by_day(history), rule.name: use_by_day(history, replay)}
    if not history.has_starts:
        del hours[LOG], uses[LOG]
    both = ~np.isnan(np.stack(list(hours.values()))).any(axis=0)
    counted = _per_day(np.ones(int(both.sum())), of_day[both], history.days)
    capacity = np.array([late - early for early, late in pairwise(history.midnights)]) * history.units / HOUR
    sums = {name: _per_day(waited[both], of_day[both], history.days) for name, waited in hours.items()}
    of_points = {
        name: points(waited[both], of_day[both], weights, tuple(POINTS.values())) for name, waited in hours.items()
    }
    for name in hours:
        key = Key("log", name, "", "", TOGETHER, "", "")
        yield key._replace(measure="wait_sum"), sum_of_days(sums[name], weights)
        yield key._replace(measure="wait_mean"), ratio_of_days(sums[name], counted, weights)
        for level, measure in enumerate(POINTS):
            yield key._replace(measure=measure), of_points[name].sure(level)
        most = 1.0 if (uses[name] <= capacity).all() else np.inf  # a log may exceed it where not all machines are known
        yield key._replace(measure="use_part"), ratio_of_days(uses[name], capacity, weights, most=most)
        for day, part in zip(history.dates, (uses[name] / capacity).tolist(), strict=True):
            yield Key("log", name, "", "", TOGETHER, day, "use_part"), Sure(part, np.nan, np.nan)
    if history.has_starts:
        key = Key("log", rule.name, "log", "", TOGETHER, "", "")
        more = sums[rule.name] - sums[LOG]
        yield key._replace(measure="wait_sum"), sum_of_days(more, weights)
        yield key._replace(measure="wait_mean"), ratio_of_days(more, counted, weights)
        for level, measure in enumerate(POINTS):
            yield key._replace(measure=measure), of_points[rule.name].less(of_points[LOG], level)
        yield key._replace(measure="use_part"), ratio_of_days(uses[rule.name] - uses[LOG], capacity, weights)


def _per_day(amounts: Numbers, of_day: npt.NDArray[np.intp], days: int) -> Numbers:
    """Return (days,) sums of amounts (jobs,) on their days (jobs,)."""
    sums: Numbers = np.bincount(of_day, amounts, minlength=days).astype(np.float64)
    return sums


def _counts(history: History) -> Iterator[tuple[Key, Sure]]:
    """Return what was counted. It is exact, so it has no interval."""
    counts = {
        "rows": history.rows,
        "jobs": len(history.jobs),
        "bad_lines": len(history.bad),
        "owners": len(history.owners),
        "machines": len(history.machines),
        "units": history.units,
        "days": history.days,
        "slot_minutes": history.slot_seconds / 60,
        **{f"left out: {why}": count for why, count in (history.left_out or {}).items()},
    }
    for name, count in counts.items():
        yield Key("count", "", "", "", "", "", name), Sure(float(count), np.nan, np.nan)


def owners_by_loss(figures: HistoryFigures, study: Study, history: History, rule: str) -> Sequence[str]:
    """Return the owners, with the largest loser of waiting first; of two equal ones the one that came first in the
    log."""

    def saved(owner: str) -> float:
        return figures.by_key[Key("owner", rule, study.against, ALL, owner, "", "saved")].value

    return sorted(history.owners, key=saved)
