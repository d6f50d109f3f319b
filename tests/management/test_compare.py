"""`manage.py compare`: the table, the files with the same numbers, and what varies with the seeds."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from xml.etree import ElementTree as ET

import pytest

from scheduling.lab.comparison import Figures, VariantColumn, every_policy, plan, trial_run
from scheduling.lab.settings import variants
from tests.core.scenario_documents import make_document, make_row
from tests.management.files import manage, output_of, put, refused


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def put_market(folder: Path, jobs: int = 12) -> Path:
    """A drawn market that can be drawn again."""
    path = folder / "market.json"
    output_of("scenario", "synthetic", "--jobs", jobs, "--servers", 4, "--tenants", 2, "--load", 1, "--output", path)
    return path


# --- table and files --------------------------------------------------------------------------------------------------


def test_shows_every_figure_of_every_policy(tmp_path: Path) -> None:
    text = output_of("compare", put(tmp_path, make_document()), "--policies", "fifo,dominant_resource_fairness")
    lines = text.splitlines()
    assert lines[0] == "S.json: one run each"
    assert lines[2].split() == ["fifo", "dominant_resource_fairness"]
    for figure in (
        *(
            "realised revenue, credits",
            "ideal revenue, credits",
            "jobs awarded",
            "jobs rejected",
            "jobs waiting",
            "jobs expired",
            "mean completion, slots",
            "makespan, slots",
        ),
        *("utilisation of worker", "variance of the fairness ratio", "jobs below their floor"),
        *("tenants worse off than alone", "owners' income, credits", "seconds of computing"),
    ):
        assert any(line.startswith(figure) for line in lines), figure


def test_writes_the_same_numbers_as_tables_and_as_plots(tmp_path: Path) -> None:
    path, folder = put_market(tmp_path), tmp_path / "out"
    output_of("compare", path, "--policies", "fifo[workers=1],fifo[workers=4]", "--seeds", 3, "--output", folder)
    assert sorted(file.name for file in folder.iterdir()) == ["compare.csv", "compare.png", "compare.svg", "runs.csv"]
    runs, means = rows_of(folder / "runs.csv"), rows_of(folder / "compare.csv")
    assert [row["policy"] for row in means] == ["fifo workers=1", "fifo workers=4"]
    assert [(row["policy"], row["seed_step"]) for row in runs[:4]] == [
        *(("fifo workers=1", str(step)) for step in range(3)),
        ("fifo workers=4", "0"),
    ]
    revenues = [float(row["revenue"]) for row in runs[:3]]
    assert len(set(revenues)) == 3
    assert float(means[0]["revenue"]) == pytest.approx(fmean(revenues))
    assert float(means[0]["revenue_spread"]) == pytest.approx(stdev(revenues))


@pytest.mark.wide
def test_draws_a_panel_for_every_figure_with_its_numbers(tmp_path: Path) -> None:
    output_of("compare", put(tmp_path, make_document()), "--policies", "fifo,oasis", "--output", tmp_path / "out")
    texts = [
        "".join(node.itertext()).strip()
        for node in ET.fromstring((tmp_path / "out" / "compare.svg").read_text()).iter()  # noqa: S314  our own file
        if node.tag.endswith("text")
    ]
    for words in ("fifo", "oasis", "realised revenue, credits", "utilisation of ps", "owners' income, credits"):
        assert words in texts
    means = rows_of(tmp_path / "out" / "compare.csv")
    assert f"{float(means[0]['revenue']):g}" in texts
    width, height = struct.unpack(">II", (tmp_path / "out" / "compare.png").read_bytes()[16:24])
    assert width > 1000
    assert height > 500


def test_the_same_figures_give_the_same_pictures() -> None:
    from scheduling.lab.plots import pictures

    columns = [VariantColumn("a", [{"revenue": 1.0}, {"revenue": 2.0}]), VariantColumn("b", [{"revenue": None}])]
    once, again = (pictures("title", columns, ["revenue"]) for _ in range(2))
    assert once == again
    assert b"not defined" in once["svg"]


# --- what runs --------------------------------------------------------------------------------------------------------


def figures_of(path: Path, policies: str, seeds: int = 1) -> list[Figures]:
    """The figures of every run, in this process and without pictures."""
    return [trial_run(trial) for trial in plan(path, variants(policies), {}, seeds)]


def steps(path: Path, policies: str, seeds: int) -> Sequence[tuple[str, int]]:
    return [(trial.variant.label, trial.step) for trial in plan(path, variants(policies), {}, seeds)]


def test_a_drawn_scenario_is_drawn_again_with_the_next_seeds(tmp_path: Path) -> None:
    path = put_market(tmp_path)
    assert steps(path, "astraea", 3) == [("astraea", 0), ("astraea", 1), ("astraea", 2)]
    assert all(trial.redrawn for trial in plan(path, variants("astraea"), {}, 3))


def test_a_scenario_changed_by_hand_is_not_drawn_again(tmp_path: Path) -> None:
    path = put_market(tmp_path)
    path.write_text(path.read_text().replace('"name": "j1"', '"name": "mine"'))
    assert not any(trial.redrawn for trial in plan(path, variants("astraea"), {}, 3))


def test_what_depends_on_no_seed_runs_once(tmp_path: Path) -> None:
    path = put(tmp_path, make_document())
    assert steps(path, "astraea,fifo", 3) == [("astraea", 0), ("fifo", 0), ("fifo", 1), ("fifo", 2)]


def test_seeds_change_what_a_policy_draws(tmp_path: Path) -> None:
    rows = [make_row(f"j{k}", chunks=4, epochs=3, ps_mbps=10) for k in range(8)]
    rows_of_figures = figures_of(put(tmp_path, make_document(jobs=rows)), "fifo[workers=[1,4]]", seeds=4)
    assert len({figures["mean_completion_slots"] for figures in rows_of_figures}) > 1


@pytest.mark.wide
def test_changes_reach_one_policy_or_all(tmp_path: Path) -> None:
    path = put(tmp_path, make_document(jobs=[make_row(chunks=4, epochs=4)]))
    options = ("--set", "fifo.workers=1", "--set", "policy.seed=4", "--output", tmp_path / "out")
    output_of("compare", path, "--policies", "fifo,fifo[workers=2]", *options)
    one, two = rows_of(tmp_path / "out" / "runs.csv")
    assert float(one["makespan_slots"]) == 2 * float(two["makespan_slots"])


def test_counts_jobs_that_got_less_than_they_would_alone(tmp_path: Path) -> None:
    hog = make_row("hog", tenant="u2", chunks=6, epochs=10, ps_mbps=10)  # takes the whole cluster for ten slots
    late = make_row("late", arrival=1, ps_mbps=10)
    path = put(tmp_path, make_document(jobs=[hog, late]))
    first_come, promised = figures_of(path, "fifo[workers=6],astraea[mode=guarantee]")
    assert (first_come["jobs_below_floor"], first_come["tenants_worse_off"]) == (1, 1)
    assert (promised["jobs_below_floor"], promised["tenants_worse_off"]) == (0, 0)


@pytest.mark.wide
def test_states_of_jobs_add_up_to_all_jobs(tmp_path: Path) -> None:
    path = put_market(tmp_path, jobs=30)
    for figures in figures_of(path, "astraea[mode=guarantee],oasis,fifo"):
        states = [figures[state] or 0 for state in ("awarded", "rejected", "waiting", "expired")]
        assert sum(states) == 30
    (oasis,) = figures_of(path, "oasis")
    assert oasis["rejected"]


def test_does_not_know_floors_without_cells(tmp_path: Path) -> None:
    document = make_document()
    for server in document["servers"]:
        del server["cells"]
    (figures,) = figures_of(put(tmp_path, document), "fifo")
    assert (figures["jobs_below_floor"], figures["tenants_worse_off"]) == (None, None)


def test_numbers_on_the_table_are_those_of_simulate(tmp_path: Path) -> None:
    path = put(tmp_path, make_document())
    (figures,) = figures_of(path, "fifo")
    assert f"revenue                  {figures['revenue']:g}\n" in output_of("simulate", path)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--policies", "fifo,nope"], '--policies: unknown policy "nope"; there are '),
        (["--policies", "fifo,fifo"], "--policies: fifo stands twice"),
        (["--policies", "fifo[workers=1"], "--policies fifo[workers=1: must be NAME or NAME[KEY=VALUE,...]"),
        (["--policies", ""], "--policies : must be NAME or NAME[KEY=VALUE,...]"),
        (["--policies", "fifo[workers]"], "--policies workers: must be KEY=VALUE"),
        (["--policies", "fifo[workers=0]"], "fifo workers=0: policy.workers: must be a positive integer, not 0"),
        (["--policies", "fifo", "--seeds", "0"], "--seeds: must be 1 to 1,000, not 0"),
        (["--policies", "fifo", "--set", "oasis.units=1"], "--set oasis.units=1: must begin with one of fifo, policy"),
        (["--policies", "fifo", "--set", "fifo=1"], "--set fifo=1: must begin with one of fifo, policy"),
    ],
)
def test_refuses_in_one_line_and_writes_nothing(tmp_path: Path, arguments: list[str], line: str) -> None:
    path = put(tmp_path, make_document())
    refusal = refused("compare", path, *arguments, "--output", tmp_path / "out")
    assert refusal.startswith(line)
    assert "\n" not in refusal
    assert not (tmp_path / "out").exists()


def test_a_wrong_scenario_gets_one_line(tmp_path: Path) -> None:
    path = put(tmp_path, "[]")
    assert refused("compare", path, "--policies", "fifo") == f"{path}: scenario: must be an object, not []"


def test_a_folder_that_takes_no_files_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[object] = []
    monkeypatch.setattr("scheduling.management.commands.compare.trial_run", ran.append)
    path = put(tmp_path, make_document())
    assert "is no folder to write to" in refused("compare", path, "--policies", "fifo", "--output", path)
    assert not ran


def test_names_what_a_variant_needs_beside_what_the_file_says(tmp_path: Path) -> None:
    path = put(tmp_path, make_document(policy={"name": "astraea", "mode": "paper", "rounds": 2}))
    line = refused("compare", path, "--policies", "astraea[mode=guarantee]")
    assert line == "astraea guarantee: policy.rounds: must be 1 where `clock` is not geometric, not 2"


@pytest.mark.wide
def test_runs_for_real_on_all_cores(tmp_path: Path) -> None:
    path = put_market(tmp_path)
    options = ("--policies", "fifo,astraea", "--seeds", 2, "--output", tmp_path / "out")
    done = manage("compare", path, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("market.json: 2 scenarios drawn with consecutive seeds, mean ± standard deviation\n")
    assert len(rows_of(tmp_path / "out" / "runs.csv")) == 4


def test_all_is_every_policy_the_scenario_can_do_with(tmp_path: Path) -> None:
    path = put_market(tmp_path, jobs=2)
    labels = {variant.name for variant in every_policy(path)[0]}
    assert {"astraea", "fifo", "optimus", "tetris"} <= labels
    assert "elastic" not in labels
    document = json.loads(path.read_text())
    document["jobs"][0]["speed"] = [1.0]  # nobody who reads speed functions takes one with a single coefficient
    path.write_text(json.dumps(document))
    possible, left_out = every_policy(path)
    assert "optimus" not in {variant.name for variant in possible}
    assert any(reason.startswith("optimus (") for reason in left_out)
