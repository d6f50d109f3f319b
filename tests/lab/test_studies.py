"""Studies from end to end: a log whose truth is known, the same bytes again, and what may make no difference."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import NormalDist
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from scheduling.core.scenario import BadScenario, read
from scheduling.core.simulation import Outcome, simulate
from scheduling.core.types import AWARDED, BATCH
from scheduling.lab.histories.history import HOUR, History, LoggedJob
from scheduling.lab.histories.sacct import sacct
from scheduling.lab.running import policies_build
from scheduling.lab.studies.backfill import Backfill
from scheduling.lab.studies.draws import day_weights, ratio_of_days, sum_of_days
from scheduling.lab.studies.figures import HistoryFigures, figures_of
from scheduling.lab.studies.measures import measured, waits
from scheduling.lab.studies.replays import NEVER, Replay, ReplayTask, replay_make, replay_of, replay_read
from scheduling.lab.studies.study import Study, history_read, study_read
from scheduling.lab.studies.worlds import world
from scheduling.lab.studies.worth import WORTHS, value_rows
from scheduling.management.commands import lab
from tenants.ledger.amounts import THOUSANDS
from tests.lab import simulated
from tests.lab.logs import (
    STUDY,
    history_of,
    is_close,
    made_jobs,
    sacct_text,
    shared_world,
    simulated_log,
    study_of,
    swf_text,
    write_study,
)
from tests.management.files import output_of, refused

RULES = """rules:
  - alone
  - backfill
  - fair_share
  - market
  - {name: two more nodes, rule: market, add_nodes: {speech: 2}}
  - {name: lends nothing, rule: market, keep: [vision]}
  - {name: lends by night, rule: market, nights: [vision, speech]}
  - {name: leaves, rule: market, leave: [climate]}
  - {name: twice, rule: market, double: [climate]}
  - {name: another split, rule: market, quotas: {vision: 2, speech: 2, climate: 8}}
  - {name: in pieces, rule: market, pieces: 5}
  - {name: theta 4, rule: market, policy: {theta: {worker: 4}, clock: {first: 2, cap: 2, restart: false}}}
against: alone
answer: market
worth: [by_hour, deadline]
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that has run, in one process."""
    folder = tmp_path_factory.mktemp("study")
    path = write_study(folder, simulated_log(folder, made_jobs()), STUDY + RULES)
    output_of("lab", path, "--output", folder / "out", "--processes", 1)
    return folder


def table(folder: Path) -> dict[tuple[str, ...], tuple[float, float, float]]:
    """`figures.csv` by key."""
    rows = list(csv.reader(io.StringIO((folder / "out" / "figures.csv").read_text(encoding="utf-8"))))
    assert rows[0] == ["section", "rule", "against", "worth", "owner", "day", "measure", "value", "low", "high"]
    keys = [tuple(row[:7]) for row in rows[1:]]
    assert len(set(keys)) == len(keys)
    numbers = [[float(cell) if cell else math.nan for cell in row[7:]] for row in rows[1:]]
    return {key: (value, low, high) for key, (value, low, high) in zip(keys, numbers, strict=True)}


# ---- the log of a known simulation gives it back ----


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_log_of_a_known_simulation_gives_it_back(tmp_path: Path, zone: str) -> None:
    jobs = simulated_log(tmp_path, made_jobs())
    log = sacct(sacct_text(jobs, ZoneInfo(zone)).splitlines(), zone=ZoneInfo(zone), place="log.txt")
    assert list(log.jobs) == jobs
    history = history_of(log.jobs)
    outcome = simulate(shared_world(history, study_of(tmp_path)), {BATCH: Backfill()})
    waited = 0
    for job, track in zip(history.jobs, outcome.tracks, strict=True):
        began = history.midnights[0] + track.bookings[0].start * HOUR
        assert job.started is not None
        assert abs(began - job.started) <= HOUR
        waited += began - job.submitted > HOUR
    assert waited > 20  # there is something to be wrong about


def test_the_same_cluster_in_two_formats_is_the_same_history(tmp_path: Path) -> None:
    jobs = simulated_log(tmp_path, made_jobs())
    owners = ["climate", "speech", "vision"]
    write_study(tmp_path, jobs)
    (tmp_path / "log.swf").write_text(swf_text(jobs, jobs[0].submitted, owners), encoding="utf-8")
    text = STUDY.replace("sacct", "swf").replace("log.txt", "log.swf")
    output_of("lab", write_study(tmp_path, jobs, text), "--output", tmp_path / "swf", "--processes", 1)
    output_of("lab", write_study(tmp_path, jobs), "--output", tmp_path / "sacct", "--processes", 1)
    one, other = (tmp_path / name / "figures.csv" for name in ("swf", "sacct"))
    renamed = re.sub(r"group (\d)", lambda match: owners[int(match[1])], one.read_text(encoding="utf-8"))
    assert renamed == other.read_text(encoding="utf-8")


def test_scenario_file_is_a_history(tmp_path: Path) -> None:
    """Such as `pool_scenario` writes: machines, owners' units, and jobs with parameter servers and several workers."""
    options = ("--jobs", 30, "--servers", 6, "--tenants", 3, "--seed", 3, "--output", tmp_path / "S.json")
    output_of("scenario", "synthetic", *options)
    (tmp_path / "STUDY.yaml").write_text(
        "history: {format: scenario, file: S.json, days: 2, begins: '2026-10-03T00:00:00+00:00'}\n"
        "rules: [alone, backfill]\n"
    )
    history = history_read(study_read(tmp_path / "STUDY.yaml"), tmp_path)
    scenario = read((tmp_path / "S.json").read_text())
    assert sum(machine.units for machine in history.machines) == scenario.cluster.total[0]
    owned = dict(zip(history.owners, np.array(history.cells).sum(axis=0).tolist(), strict=True))
    quota = dict(zip([t.name for t in scenario.cluster.tenants], scenario.cluster.quota[0].tolist(), strict=True))
    assert owned == {name: units for name, units in quota.items() if name in owned}
    jobs = {job.name: job for job in scenario.jobs}
    assert history.jobs
    for job in history.jobs:
        job_row = jobs[job.name]
        alone = job_row.work * job_row.worker_types[0].seconds / job_row.max_workers  # and the exchange of gradients
        assert (job.units, job.started) == (job_row.max_workers, None)
        assert job.seconds >= alone
        assert job.submitted == 1_790_985_600 + int(job_row.arrival * scenario.cluster.slot_seconds)
    assert not history.has_starts


# ---- backfill ----


def row(start: int, units: int, hours: int) -> LoggedJob:
    return LoggedJob(str(start), "vision", 1_790_640_000 + start, None, None, hours * HOUR, units)


def test_backfill_overtakes_only_who_does_not_wait_for_it(tmp_path: Path) -> None:
    """12 units, 6 of them in use until slot 5. The second job needs 10 and is promised that slot. Behind it one would
    be in its way, one ends in time, and one takes the two units that it leaves."""
    jobs = [row(0, 6, 5), row(1, 10, 2), row(2, 4, 5), row(3, 4, 4), row(4, 2, 20), row(90_000, 1, 1)]
    history = history_of(jobs)
    outcome = simulate(shared_world(history, study_of(tmp_path)), {BATCH: Backfill()})
    starts = [track.bookings[0].start for track in outcome.tracks]
    assert starts[:5] == [0, 5, 7, 1, 1]


# ---- what is measured ----


def replay_under(history: History, study: Study, name: str) -> tuple[Replay, Outcome]:
    """A replay under a rule of all owners together, and the run that it was made of."""
    rule = study.rule(name)
    scenario = world(history, study, rule, study.worths[0])
    outcome = simulate(scenario, policies_build(scenario))
    return replay_of(history, rule, scenario, [outcome]), outcome


def test_a_job_waits_while_it_is_paused(tmp_path: Path) -> None:
    """12 units, 8 in use. The second job needs all of them; until they are free the third one runs, which then stands
    still for it."""
    history = history_of([row(0, 8, 2), row(1800, 12, 3), row(3600, 4, 10), row(90_000, 1, 1)])
    study = study_of(tmp_path, STUDY + "rules: [fair_share]\n")
    replay, _ = replay_under(history, study, "fair_share")
    assert (replay.start.tolist()[:3], replay.end.tolist()[:3]) == ([0, 2, 1], [2, 5, 14])
    assert waits(history, replay).tolist() == [0.0, 1.0, 3.0, 0.0]


@pytest.mark.parametrize("name", ["fair_share", "market", "in pieces"])
def test_waits_and_work_in_time_are_those_of_the_jobs_one_by_one(tmp_path: Path, name: str) -> None:
    history = history_of(made_jobs(days=3))
    replay, outcome = replay_under(history, study_of(tmp_path, STUDY + RULES), name)
    waited, in_time = dict.fromkeys(history.owners, 0), dict.fromkeys(history.owners, 0)
    apart = 0  # jobs that did not run through
    for job, track in zip(history.jobs, outcome.tracks, strict=True):
        if track.state != AWARDED:
            continue
        first, run = math.ceil((job.submitted - history.midnights[0]) / HOUR), math.ceil(job.seconds / HOUR)
        end = max(booking.end for booking in track.bookings)
        waited[job.owner] += end - first - run
        in_time[job.owner] += run * job.units * (end <= first + 2 * run)
        apart += end - min(booking.start for booking in track.bookings) > run
    assert (apart > 0) == (name != "market")
    table = measured(history, replay, replay)
    for number, owner in enumerate(history.owners):
        assert is_close(table["waited"][number].sum(), waited[owner])
        assert is_close(table["in_time"][number].sum(), in_time[owner])


# ---- the same bytes ----


def test_killed_and_run_again_on_two_cores_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_study(tmp_path, simulated_log(tmp_path, made_jobs(days=3)), STUDY + "worth: [by_hour]\n")
    output_of("lab", path, "--output", tmp_path / "whole", "--processes", 1)
    files: list[Path] = []

    def until_killed(task: ReplayTask) -> None:
        if files:
            raise KeyboardInterrupt
        replay_make(task)
        files.append(task.path)

    with monkeypatch.context() as patch:
        patch.setattr(lab, "replay_make", until_killed)
        with pytest.raises(KeyboardInterrupt):
            output_of("lab", path, "--output", tmp_path / "killed", "--processes", 1)
    assert not (tmp_path / "killed" / "report.html").exists()
    [file] = files
    change_time = file.stat().st_mtime_ns
    text = output_of("lab", path, "--output", tmp_path / "killed", "--processes", 2)
    assert text.index("2 of 3 replays to make;") < text.index("3 replays, 2 of them made now")
    assert file.stat().st_mtime_ns == change_time  # what was finished is not made again
    for name in ("report.html", "figures.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_damaged_replay_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 not a replay")
    with pytest.raises(BadScenario, match=r"x\.npz: is no replay"):
        replay_read(tmp_path / "x.npz")


def test_a_rule_that_cannot_be_is_named_before_the_first_replay(tmp_path: Path) -> None:
    rules = "rules: [alone, market, {name: theta 4, rule: market, policy: {thetta: 4}}]\n"
    path = write_study(tmp_path, simulated_log(tmp_path, made_jobs(days=2, each=4)), STUDY + rules)
    assert "rules: theta 4: policy.thetta: unknown field" in refused("lab", path, "--output", tmp_path / "out")
    assert not list(tmp_path.glob("out/replays/*"))


# ---- what may make no difference ----


def worked_out(
    folder: Path, jobs: list[LoggedJob], rules: str = "rules: [alone, backfill, market]\n"
) -> HistoryFigures:
    """The figures of a small study, without files."""
    study = study_of(folder, f"{STUDY}{rules}worth: [heavy_tail, deadline]\n")
    history = history_of(jobs)
    replays: dict[tuple[str, str], Replay] = {}
    for rule in study.rules:
        for worth in study.worths_of(rule):
            replay_make(ReplayTask(history, study, rule, worth, folder / "replay.npz"))
            replays[rule.name, worth] = replay_read(folder / "replay.npz")
    return figures_of(study, history, replays)


def test_permuted_names_change_names_alone(tmp_path: Path) -> None:
    jobs = simulated_log(tmp_path, made_jobs(days=3))
    names = {"vision": "speech", "speech": "climate", "climate": "vision"}
    plain, permuted = (
        worked_out(tmp_path, [replace(job, owner=rename(job.owner)) for job in jobs])
        for rename in (str, names.__getitem__)
    )
    same = {key._replace(owner=names.get(key.owner, key.owner)): figure for key, figure in plain.by_key.items()}
    assert repr(same) == repr(dict(permuted.by_key))
    parts = {key._replace(owner=names.get(key.owner, key.owner)): figure for key, figure in plain.days.items()}
    assert parts == permuted.days


def test_a_log_may_have_an_owner_called_operator(tmp_path: Path) -> None:
    """Such as a user of that name. Its figures are not those of the operator, who has no jobs."""
    jobs = simulated_log(tmp_path, made_jobs(days=3))
    more = "  - {name: nights, rule: market, nights: [%s], add_nodes: {%s: 1}}\n"
    plain, renamed = (
        worked_out(
            tmp_path,
            [replace(job, owner=name if job.owner == "vision" else job.owner) for job in jobs],
            rules=f"rules:\n  - alone\n  - backfill\n{more % (name, name)}",
        )
        for name in ("vision", "operator")
    )
    names = {"vision": "operator", "operator": "the operator"}
    same = {key._replace(owner=names.get(key.owner, key.owner)): figure for key, figure in plain.by_key.items()}
    assert repr(same) == repr(dict(renamed.by_key))


def test_owner_without_jobs_and_nodes_changes_nothing(tmp_path: Path) -> None:
    jobs = simulated_log(tmp_path, made_jobs(days=3))
    quotas = "  quotas: {vision: 5, speech: 4, climate: 3%s}\n"
    answers = []
    for ghost in ("", ", ghost: 0"):
        text = STUDY.replace("draws", quotas % ghost + "draws") + "rules: [alone, market]\nworth: [heavy_tail]\n"
        output_of("lab", write_study(tmp_path, jobs, text), "--output", tmp_path / f"out{ghost}", "--processes", 1)
        answers.append((tmp_path / f"out{ghost}" / "figures.csv").read_bytes())
    assert answers[0] == answers[1]


def test_worth_is_assumed_as_it_says(tmp_path: Path) -> None:
    history = history_of(made_jobs())
    slots = [history.run_slots(job) for job in history.jobs]
    rows = {worth: value_rows(history, worth, 2.0, 1) for worth in WORTHS}
    for number, job in enumerate(history.jobs):
        value = rows["by_hour"][number]
        assert math.isclose(
            value["base"] + value["slope"] * slots[number], 2.0 * job.units * slots[number], rel_tol=1e-6
        )
        assert math.isclose(value["base"] + value["slope"] * (slots[number] + 14 * 24), 0.0, abs_tol=1e-5)
    factors = {
        job.owner: value["base"] / plain["base"]
        for job, value, plain in zip(history.jobs, rows["heavy_tail"], rows["by_hour"], strict=True)
    }
    assert len(set(map(round, factors.values(), itertools.repeat(6)))) == 3  # one for each owner


# ---- how sure ----


@pytest.mark.parametrize("figure", ["sum", "ratio"])
def test_intervals_hold_the_truth_nine_times_of_ten(figure: str) -> None:
    """Two hundred made-up months whose truth is known: days are skewed, as waits are."""
    dice, days, held = np.random.default_rng(7), 30, 0
    for history in range(200):
        weights = day_weights(days, 200, history)
        jobs = dice.poisson(40, days).astype(float)
        hours = dice.gamma(2.0, 50.0, days) - 30.0
        if figure == "sum":
            sure, truth = sum_of_days(hours, weights), 70.0 * days
        else:
            sure, truth = ratio_of_days(hours, jobs, weights), 70.0 / 40.0
        held += sure.low <= truth <= sure.high
    assert 170 <= held <= 190, held


@pytest.mark.parametrize("carried", [0.3, 0.6])
def test_intervals_hold_the_truth_where_days_hang_together(carried: float) -> None:
    """What waits at midnight is waited for on the next day. Days taken as apart from each other hold the truth of
    these 155 and 112 times of 200."""
    dice, days, held = np.random.default_rng(11), 60, 0
    for history in range(200):
        fresh = dice.gamma(2.0, 50.0, days + 20)
        hours = fresh.copy()
        for day in range(1, len(hours)):
            hours[day] = carried * hours[day - 1] + (1 - carried) * fresh[day]
        sure = sum_of_days(hours[20:], day_weights(days, 200, history))
        held += sure.low <= 100.0 * days <= sure.high
    assert 170 <= held <= 190, held


@pytest.mark.wide
def test_intervals_of_whole_histories_hold_the_truth(tmp_path: Path) -> None:
    """Two hundred simulated logs, each replayed and measured: the truth is the mean of two hundred others."""
    parts = simulated.held(tmp_path, 200)
    assert all(0.85 <= part <= 0.95 for part in parts.values()), parts


def test_no_interval_leaves_what_a_figure_can_be() -> None:
    weights = day_weights(9, 50, 3)
    rare = np.array([0.0, 0, 0, 7, 9, 0, 0, 0, 0])
    assert sum_of_days(rare, weights).low == 0.0
    share = ratio_of_days(np.full(9, 10.0) - rare, np.full(9, 10.0), weights, most=1.0)
    assert share.low < share.value < share.high == 1.0


def test_draws_take_whole_days() -> None:
    weights = day_weights(9, 50, 3)
    assert (weights.sum(axis=1) == 9).all()
    assert (weights == day_weights(9, 50, 3)).all()
    assert not sum_of_days(np.zeros(9), weights).is_seen
    assert sum_of_days(np.ones(9), weights).is_seen


# ---- the report and its figures ----


@functools.cache
def student(freedom: float) -> float:
    """The point below which 95 of 100 of Student's distribution lie: its density, summed up to there."""
    steps = 4000

    def above_the_middle(point: float) -> float:
        heights = [(1 + (point * k / steps) ** 2 / freedom) ** (-(freedom + 1) / 2) for k in range(steps + 1)]
        area = (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])) * point / steps / 3
        return area * math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(math.pi * freedom)

    low, high = 0.0, 8.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if above_the_middle(middle) < 0.45 else (low, middle)
    return high


def interval_by_hand(
    value: float, draws: list[float], left_out: list[float], least: float = -math.inf, most: float = math.inf
) -> tuple[float, float, float]:
    """A figure with its interval as `draws.py` says it is made, with Python's own arithmetic."""
    ordered = sorted(number for number in draws if not math.isnan(number))
    if not ordered:
        return math.nan, math.nan, math.nan
    days, numbers = len(left_out), [number for number in left_out if not math.isnan(number)]
    effects = [0.0 if math.isnan(number) else math.fsum(numbers) / len(numbers) - number for number in left_out]
    squares = math.fsum(effect**2 for effect in effects)
    lean = carried = 0.0
    if squares > 1e-12 * value**2:
        lean = math.fsum(effect**3 for effect in effects) / squares**1.5 / 6
        carried = math.fsum(one * other for one, other in itertools.pairwise(effects)) / squares
        carried = min(max(carried + (1 + 3 * carried) / days, -0.5), 0.9)
    z = math.sqrt(days / (days - 1)) * student(days - 1)
    longer = (1 + carried) / (1 - carried)
    stretch = math.sqrt(longer) * student(max((days - 1) / (1 + 2 * longer), 2.0)) / student(days - 1)

    def end(side: float) -> float:
        level = NormalDist().cdf(lean + (lean + side) / (1 - lean * (lean + side)))
        place = level * (len(ordered) - 1)
        below = min(int(place), len(ordered) - 2)
        return value + stretch * (ordered[below] + (ordered[below + 1] - ordered[below]) * (place - below) - value)

    return value, max(end(-z), least), min(end(z), most)


@pytest.mark.wide
def test_sums_and_intervals_are_recomputed_from_the_days(finished: Path) -> None:
    """By other code: every sum, share and interval of an owner from the parts by day, with Python's own arithmetic."""
    figures = table(finished)
    dates = sorted({key[5] for key in figures if key[5]})
    assert len(dates) == 6
    parts: defaultdict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for key, (value, _, _) in figures.items():
        if key[0] == "day":
            parts[(*key[1:5], key[6])][key[5]] = value
    picks = np.random.default_rng(1).integers(6, size=(40, 6)).tolist()
    owners = ["vision", "speech", "climate", "operator"]

    def days_of(rule: str, worth: str, owner: str, measure: str) -> list[float]:
        rows = [parts[rule, "alone", worth, name, measure] for name in (owners if owner == "" else [owner])]
        return [sum(row.get(date, 0.0) for row in rows) for date in dates]

    def expected(of: Callable[[list[int]], float], least: float, most: float) -> tuple[float, float, float]:
        every = list(range(6))
        return interval_by_hand(
            of(every), [of(pick) for pick in picks], [of(every[:day] + every[day + 1 :]) for day in every], least, most
        )

    checked = 0
    for key, values in figures.items():
        section, rule, _, worth, owner, _, measure = key
        if section != "owner" or worth == "all":
            continue
        if measure.endswith("_part"):
            inside, whole = (days_of(rule, worth, owner, m) for m in (measure.removesuffix("_part"), "asked"))

            def share(pick: list[int], inside: list[float] = inside, whole: list[float] = whole) -> float:
                below = sum(whole[day] for day in pick)
                return sum(inside[day] for day in pick) / below if below else math.nan

            wanted = expected(share, 0.0, 1.0)
        else:
            amounts = days_of(rule, worth, owner, measure)
            least = 0.0 if min(amounts) >= 0 else -math.inf
            wanted = expected(lambda pick, amounts=amounts: sum(amounts[day] for day in pick), least, math.inf)
        assert np.allclose(values, wanted, rtol=1e-6, atol=1e-6, equal_nan=True), (key, values, wanted)
        checked += 1
    assert checked > 500
    for key, (value, low, high) in figures.items():  # of all assumptions: the first one's value, the widest interval
        if key[0] == "owner" and key[3] == "all":
            each = [
                figures[(*key[:3], worth, *key[4:])]
                for worth in ("by_hour", "deadline")
                if (*key[:3], worth, *key[4:]) in figures
            ]
            wanted = (each[0][0], min(low for _, low, _ in each), max(high for *_, high in each))
            assert np.allclose((value, low, high), wanted, equal_nan=True)


@pytest.mark.wide
def test_no_interval_of_use_is_above_the_whole_cluster(finished: Path) -> None:
    figures = table(finished)
    uses = [figures["log", rule, "", "", "", "", "use_part"] for rule in ("", "backfill")]
    assert all(0 <= low < value < high <= 1 for value, low, high in uses), uses


def test_figures_fit_together(finished: Path) -> None:
    figures = {key: value for key, (value, _, _) in table(finished).items()}
    for key, value in figures.items():
        if key[0] != "owner":
            continue

        def other(measure: str, key: tuple[str, ...] = key) -> float:
            return figures[(*key[:6], measure)]

        if key[6] == "saved":
            assert is_close(value, other("waited_against") - other("waited"))
        elif key[6] == "net":
            assert is_close(value, other("earned") - other("spent"))
        elif key[6] in ("earned", "lent") and key[4] == "":  # what one gives another gets
            assert is_close(value, other({"earned": "spent", "lent": "borrowed"}[key[6]]))
        elif key[1] in ("backfill", "fair_share") and key[6] in ("earned", "spent"):
            assert value == 0
    saved = [figures["owner", rule, "alone", "all", "", "", "saved"] for rule in ("backfill", "market")]
    assert saved[0] > 0
    assert figures["owner", "lends nothing", "alone", "by_hour", "vision", "", "lent"] == 0
    assert figures["owner", "market", "alone", "by_hour", "vision", "", "lent"] > 0
    for measure in ("lent", "borrowed", "spent", "earned"):
        assert figures["owner", "leaves", "alone", "by_hour", "climate", "", measure] == 0
    assert figures["owner", "lends by night", "alone", "by_hour", "vision", "", "lent"] > 0
    twice, once = (figures["owner", rule, "alone", "by_hour", "climate", "", "waited"] for rule in ("twice", "market"))
    assert twice > once  # its own second jobs stand in the way of the first
    counts = {figures["owner", rule, "alone", "by_hour", "", "", "asked"] for rule in ("twice", "market")}
    assert len(counts) == 1  # what is beside each other are the jobs of the log
    borrowed = [
        figures["owner", rule, "alone", "by_hour", "climate", "", "borrowed"] for rule in ("market", "another split")
    ]
    assert borrowed[1] < borrowed[0]
    changed = {
        rule: figures["owner", rule, "alone", "by_hour", "speech", "", "saved"] for rule in ("market", "two more nodes")
    }
    assert changed["two more nodes"] > changed["market"]


class Numbers(HTMLParser):
    """The numbers of a report: those that say which figure they are, and the text of all that is none."""

    VOID = frozenset({"meta", "path", "line", "circle", "link", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[dict[str, str | None], str]] = []
        self.bare: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe")
        if tag not in self.VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attributes = self.open[-1] if self.open else ("", {})
        if "data-figure" in attributes:
            self.elements.append((attributes, data))
        elif tag != "style" and re.search(r"\d", data):
            words = (attributes.get("class") or "").split()
            axis = any("ch-axis" in (a.get("class") or "") for _, a in self.open)
            if not {"axis", "ch-x", "told", "date", "level", "mono"} & set(words) and not axis:
                self.bare.append(data)


def test_every_number_of_the_report_is_a_figure(finished: Path) -> None:
    figures = table(finished)
    text = (finished / "out" / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|src=|url\(", text)
    page = Numbers()
    page.feed(text)
    assert page.open == []
    assert [words for words in page.bare if "theta 4" not in words] == []  # the name of a rule
    assert len(page.elements) > 400
    for attributes, words in page.elements:
        key = tuple((attributes["data-figure"] or "").split("|"))
        number = figures[key][["value", "low", "high"].index(attributes["data-side"] or "")]
        if math.isnan(number):
            assert words == "–"
            continue
        form = attributes["data-form"] or ""
        number *= {"minutes": 60, "percent": 100}.get(form, 1)
        digits = {"minutes": 1, "percent": 1, "credits": 2, "count": 0}.get(form, 0 if abs(number) >= 100 else 1)
        plain = words.replace(THOUSANDS, "").replace("−", "-")
        assert abs(float(plain) - number) <= 0.5 * 10**-digits + 1e-6, (key, words, number)
        assert len(plain.partition(".")[2]) == digits
        assert plain.startswith("+") == ("data-signed" in attributes and float(plain) > 0)


def test_what_is_not_sure_is_grey_and_says_so(finished: Path) -> None:
    """Each difference: grey with the words if its interval holds zero, and not otherwise."""
    figures = table(finished)
    text = (finished / "out" / "report.html").read_text(encoding="utf-8")
    cells = re.findall(
        r'<td class="num( unsure)?" data-h="[^"]*"><span data-figure="([^"]*)" data-side="value"[^>]*data-signed>',
        text,
    )
    grey = 0
    for unsure, name in cells:
        _, low, high = figures[tuple(name.split("|"))]
        assert bool(unsure) == (not (low > 0 or high < 0)), name
        grey += bool(unsure)
    assert 0 < grey < len(cells)
    assert text.count('<span class="holds">no&nbsp;difference seen</span>') == grey


@pytest.mark.parametrize(("answer", "against"), [("alone", "backfill"), ("backfill", "alone")])
def test_hours_that_were_lost_are_not_said_to_be_saved(tmp_path: Path, answer: str, against: str) -> None:
    """The line and the report say who waits longer, and what the hours leave out."""
    rules = f"rules: [alone, backfill]\nagainst: {against}\nanswer: {answer}\n"
    path = write_study(tmp_path, simulated_log(tmp_path, made_jobs()), STUDY + rules)
    line, counts, _ = output_of("lab", path, "--output", tmp_path / "out", "--processes", 1).splitlines()[-3:]
    saved = table(tmp_path)[("owner", answer, against, "all", "", "", "saved")][0]
    assert (saved < 0) == (answer == "alone")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert ("hours of waiting saved</small>" in page) == (saved > 0)
    holds = line.partition(", ")[2].partition(":")[0]
    for text in (line, page):
        assert ("saved: jobs wait longer than the" in text.replace(f", {holds}", "")) == (saved < 0)
    assert re.search(rf"^{answer} beside {against}: −?\S+ (of \S+ )?hours of waiting saved, ", line)
    assert re.fullmatch(
        rf"owners that gain: \d+; that lose: \d+; no difference seen: \d+\. Jobs that never ended: \d+ under {answer}, "
        rf"\d+ under {against}; hours count those that ended under both",
        counts,
    )


def test_one_of_a_kind_is_told_as_one(tmp_path: Path) -> None:
    alone = [replace(job, owner="vision", units=1, seconds=HOUR) for job in made_jobs(days=2, each=1)]
    study = STUDY.replace("servers: 3, units: 4", "servers: 1, units: 1") + "rules: [alone]\nanswer: alone\n"
    path = write_study(tmp_path, simulated_log(tmp_path, alone), study)
    text = output_of("lab", path, "--output", tmp_path / "out", "--processes", 1)
    assert "2 jobs of 1 owner in 2 days, 1 unit on 1 machine\n" in text
    assert "1 of 1 replay to make; " in text
    assert text.endswith("report.html: 1 replay, 1 of it made now\n")


def test_no_run_at_all_is_no_number_of_runs(tmp_path: Path) -> None:
    path = write_study(tmp_path, simulated_log(tmp_path, made_jobs()))
    assert refused("lab", path, "--output", tmp_path / "out", "--processes", 0) == (
        "--processes: must be 1 or more, not 0"
    )
    assert not (tmp_path / "out").exists()


# ---- refusals ----


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sacct", "csv"), "history.format"),
        (("zone: UTC", "zone: Nowhere/Land"), "history.zone"),
        (("  zone: UTC\n", ""), "history.zone: is missing"),
        (("log.txt", "missing.txt"), "missing.txt: cannot be read"),
        (("draws: 40", "draws: 3"), "draws"),
        (("draws: 40", "drawz: 40"), "drawz: unknown field"),
        (("draws: 40", "rules: [alone, alone]"), "rules"),
        (("draws: 40", "rules: [{rule: alone, keep: [vision]}]"), "rules[0]"),
        (("draws: 40", "rules: [{rule: market, keep: [nobody]}]"), "none of the owners"),
        (("draws: 40", "rules: [{rule: market, double: [nobody]}]"), "none of the owners"),
        (("draws: 40", "rules: [{rule: backfill, nights: [vision]}]"), "rules[0]"),
        (("draws: 40", "rules: [{rule: market, nights: [vision], keep: [vision]}]"), "rules[0]"),
        (("draws: 40", "rules: [{rule: market, quotas: {vision: 13}}]"), "more than the cluster's 12 units"),
        (("draws: 40", "rules: [{rule: backfill, pieces: 5}]"), "rules[0].pieces: only a market with the guarantee"),
        (("draws: 40", "rules: [{rule: market, pieces: -1}]"), "rules[0].pieces"),
        (("slot_minutes: 60", "begins: 2026-10-01T00:00:00+00:00"), "history.begins"),
        (("draws: 40", "rules: [{rule: market, policy: {thetta: 1}}]"), "thetta"),
        (("draws: 40", "rules: [{rule: market, policy: {name: fifo}}]"), "rules[0].policy.name"),
        (("draws: 40", "worth: [gold]"), "worth"),
        (("draws: 40", "worth: [{a: b}]"), "worth"),
        (("draws: 40", "rules: [{rule: market, keep: [[a]]}]"), "rules[0].keep"),
        (("slot_minutes: 60", "first_day: 9999-12-31"), "first_day"),
        (("slot_minutes: 60", "strict: maybe"), "strict"),
        (("slot_minutes: 60", "nodes: log.txt"), "log.txt, line 1"),
        (("draws: 40", "draws: [40"), "is not YAML"),
        (("draws: 40", "draws: 40\ndraws: 41"), "STUDY.yaml, line 9: has 'draws' twice"),
        (("draws: 40", "draws: &a 40\nseed: *a"), "STUDY.yaml, line 9: has a reference"),
        (("draws: 40", "3: 40"), "3: unknown field"),
        (("servers: 3", "servers: 0"), "servers"),
        (("slot_minutes: 60", "first_day: yesterday"), "first_day"),
    ],
)
def test_study_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    jobs = [replace(job, started=job.submitted, ended=job.submitted + job.seconds) for job in made_jobs(2, 3)]
    path = write_study(tmp_path, jobs, STUDY.replace(*change))
    assert message in refused("lab", path, "--output", tmp_path / "out", "--processes", 1)
    assert not (tmp_path / "out" / "report.html").exists()


def test_digest_follows_the_files(tmp_path: Path) -> None:
    jobs = simulated_log(tmp_path, made_jobs(days=2, each=3))
    one = study_read(write_study(tmp_path, jobs))
    assert study_read(write_study(tmp_path, jobs)).digest == one.digest
    other = study_read(write_study(tmp_path, jobs[:-1]))
    assert other.digest != one.digest
    rule = one.rule("market")
    assert one.replay_digest(rule, "by_hour") != other.replay_digest(rule, "by_hour")
    assert one.replay_digest(rule, "by_hour") == one.replay_digest(replace(rule, name="another name"), "by_hour")


def test_replay_of_nobody(tmp_path: Path) -> None:
    """An owner with jobs and no units runs nothing alone, and nobody divides by that."""
    jobs = simulated_log(tmp_path, made_jobs(days=3))
    text = STUDY.replace("draws", "  quotas: {vision: 12}\ndraws") + "rules: [alone, market]\nworth: [by_hour]\n"
    output_of("lab", write_study(tmp_path, jobs, text), "--output", tmp_path / "out", "--processes", 1)
    [alone] = [r for p in (tmp_path / "out" / "replays").iterdir() if not (r := replay_read(p)).earned.any()][:1]
    speech = [number for number, job in enumerate(jobs) if job.owner == "speech"]
    assert (alone.end[speech] == NEVER).all()


def test_guest_whose_jobs_are_longer_than_an_interval_runs_where_they_rent_in_pieces(tmp_path: Path) -> None:
    jobs = simulated_log(tmp_path, made_jobs(days=3))
    rules = "rules: [alone, market, {name: pieces, rule: market, pieces: 5}]\nworth: [by_hour]\n"
    text = STUDY.replace("draws", "  quotas: {vision: 12}\ndraws") + rules
    path = write_study(tmp_path, jobs, text)
    output_of("lab", path, "--output", tmp_path / "out", "--processes", 1)
    study = study_read(path)
    ends = {
        rule.name: replay_read(tmp_path / "out" / "replays" / f"{study.replay_digest(rule, 'by_hour')}.npz").end
        for rule in study.rules
    }
    long = [number for number, job in enumerate(jobs) if job.owner != "vision" and job.seconds > 4 * HOUR]
    assert long
    assert (ends["market"][long] == NEVER).all()
    assert (ends["pieces"][long] != NEVER).mean() > 0.5
    assert study.rule("market").facts.keys() | {"pieces"} == study.rule("pieces").facts.keys()
