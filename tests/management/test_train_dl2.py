"""`manage.py train_dl2`: the files, the same bytes, an interruption, federated clusters, and refusals."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from scheduling.core.policies.dl2.files import Network, decode
from scheduling.core.scenario import Scenario, read
from scheduling.core.simulation import simulate
from scheduling.core.training import course as courses
from scheduling.core.training.judging import judge
from scheduling.core.types import Plan, Policy, View
from scheduling.core.workload import synthetic
from scheduling.lab import training
from scheduling.lab.comparison import redraw
from scheduling.lab.files import scenario_load
from scheduling.lab.reproduction.measured import as_measured, uncapped
from scheduling.lab.reproduction.other_speeds import SPEEDS, AtAnotherSpeed, OfOneRound
from scheduling.lab.running import policies_build
from scheduling.lab.weights import weights_read
from scheduling.lab.worlds import WORLDS
from tests.core.scenario_documents import make_document
from tests.management.files import manage, output_of, put, refused, result_of

QUICK = ("--jobs", 4, "--lessons", 2, "--passes", 2, "--every", 1, "--validation", 1, "--held-out", 2, "--replay", 512)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "S.json"
    size = ("--servers", 4, "--jobs", 4, "--span", 3, "--slots", 30, "--tenants", 1, "--no-cells")
    output_of("scenario", "synthetic", "--preset", "dl2", *size, "--output", path)
    return path


def train(scenario: Path, folder: Path, *arguments: object) -> str:
    return output_of("train_dl2", "--scenario", scenario, "--out", folder, *QUICK, *arguments)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_writes_weights_schema_and_curve_and_says_by_how_much(scenario: Path, tmp_path: Path) -> None:
    text = train(scenario, tmp_path / "out", "--rounds", 2)
    assert "judged on 2 held-out draws" in text
    assert "teacher ±" in text
    files = content(tmp_path / "out")
    assert sorted(files) == ["checkpoint.npz", "curve.csv", "curve.png", "curve.svg", "weights.json", "weights.npz"]
    document = json.loads(files["weights.json"])
    assert document["shape"]["jobs"] == 4
    facts = document["training"]
    assert (facts["seed"], facts["teacher"], facts["rounds"]) == (1, "dominant_resource_fairness", 2)
    assert facts["held_out"]["draws"] == 2
    network = decode(files["weights.npz"])
    assert isinstance(network, Network)
    assert network.facts == facts
    with (tmp_path / "out" / "curve.csv").open(newline="") as file:
        assert [row["round"] for row in csv.DictReader(file)] == ["0", "1", "2"]


def test_the_same_command_gives_the_same_bytes_interrupted_or_not(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(scenario, tmp_path / "straight", "--rounds", 2)
    real, calls = courses.learn, []

    def interrupted(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(courses, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(scenario, tmp_path / "broken", "--rounds", 2)
    assert sorted(content(tmp_path / "broken")) == ["checkpoint.npz"]
    assert "goes on after 2 passes and 1 rounds" in train(scenario, tmp_path / "broken", "--rounds", 2)
    assert len(calls) == 3, "a round was played twice"
    assert content(tmp_path / "broken") == content(tmp_path / "straight")
    train(scenario, tmp_path / "broken", "--rounds", 1)
    assert content(tmp_path / "broken") == content(tmp_path / "straight"), "fewer rounds than there were change nothing"


def test_what_is_trained_can_be_run(scenario: Path, tmp_path: Path) -> None:
    train(scenario, tmp_path / "out", "--rounds", 1, "--clusters", 2, "--offline")
    weights, result = tmp_path / "out" / "weights.npz", tmp_path / "R.json"
    output_of("simulate", scenario, "--policy", "offline_rl", "--set", f"weights={weights}", "--output", result)
    policy = result_of(result)["policy"]
    assert (policy["name"], policy["weights"], len(policy["digest"])) == ("offline_rl", str(weights), 64)
    missing = refused("simulate", scenario, "--policy", "dl2", "--set", "weights=nowhere.npz")
    assert missing == f"{scenario}: policy.weights: nowhere.npz cannot be read (no such file or directory)"


def test_jobs_may_train_as_fast_as_was_measured(scenario: Path, tmp_path: Path) -> None:
    train(scenario, tmp_path / "one", "--rounds", 1)
    text = train(scenario, tmp_path / "out", "--rounds", 1, "--speed", "measured")
    assert weights_of(tmp_path / "out") != weights_of(tmp_path / "one")
    facts = json.loads((tmp_path / "out" / "weights.json").read_text())["training"]
    assert facts["speed"] == "measured"
    # The teacher's figure is that of the same draws in the measured world, which the reproduced figures have.
    draws = [redraw(scenario_load(scenario), training.HELD_OUT + step) for step in range(2)]
    teacher = [measured_run(each) for each in draws]
    assert facts["held_out"]["teacher_completion_slots"] == round(fmean(teacher), 6)
    assert f"dominant_resource_fairness {fmean(teacher):.2f}" in text
    said_no = refused("train_dl2", "--scenario", scenario, "--out", tmp_path / "out", *QUICK, "--rounds", 2)
    assert "is a training with other settings" in said_no


def weights_of(folder: Path) -> dict[str, bytes]:
    arrays = training.courses.unpack((folder / "weights.npz").read_bytes())
    return {name: array.tobytes() for name, array in arrays.items() if name != "schema"}


def measured_run(scenario: Scenario) -> float:
    """Mean completion under DRF, by the reproduction's own parts."""
    settings = {"name": "dominant_resource_fairness"}
    scenario, _ = as_measured(uncapped(scenario, settings, 2.0)[0], settings, 1.0)
    scenario = replace(scenario, policy=settings)
    policy = AtAnotherSpeed(policies_build(scenario)["batch"], SPEEDS["measured"])
    return judge(policy, scenario).completion


def test_weights_of_the_measured_world_are_shipped_with_a_verdict_that_can_be_seen_again() -> None:
    network = decode(weights_read("shipped:measured", "here"))
    assert isinstance(network, Network)
    facts = network.facts
    assert (facts["speed"], facts["held_out"]["draws"]) == ("measured", 20)
    assert facts["held_out"]["shorter_by"] >= 0.3
    assert facts["held_out"]["draws_won"] >= 18
    generator = facts["scenario"]
    settings = {"name": "dominant_resource_fairness"}
    draws = [
        replace(
            read(synthetic(**generator["args"], seed=generator["seed"] + training.HELD_OUT + step)), policy=settings
        )
        for step in range(2)
    ]
    scenarios = [WORLDS["measured"].changed(each) for each in draws]
    ours = [score.completion for score in training.judge_network(network, scenarios, WORLDS["measured"])]
    theirs = [score.completion for score in training.judge_teacher(scenarios, WORLDS["measured"])]
    assert fmean(ours) < 0.8 * fmean(theirs)


def test_what_a_learner_is_told_of_a_slot_is_what_is_done_in_it(scenario: Path) -> None:
    class Corrector:
        name = "told"

        def __init__(self, policy: Policy) -> None:
            self.policy, self.speeds = policy, OfOneRound(SPEEDS["measured"])

        def decide(self, view: View) -> Plan:
            return self.speeds.corrected(self.policy.decide(view), view)

    world = WORLDS["measured"]
    draw = world.changed(replace(scenario_load(scenario), policy={"name": "dominant_resource_fairness"}))
    policy = policies_build(draw)["batch"]
    outcomes = [simulate(draw, {"batch": each}) for each in (Corrector(policy), world.around(policy))]
    works = [[[b.work for b in track.bookings] for track in outcome.tracks] for outcome in outcomes]
    assert works[0] == works[1]
    assert works[0] != [[b.work for b in t.bookings] for t in simulate(draw, {"batch": policy}).tracks]


def test_a_network_that_lost_its_post_is_named_in_the_report(scenario: Path, tmp_path: Path) -> None:
    train(scenario, tmp_path / "out", "--rounds", 0)
    arrays = training.courses.unpack((tmp_path / "out" / "weights.npz").read_bytes())
    outdated = arrays["schema"].tobytes().replace(b"dl2/1", b"dl2/0")
    (tmp_path / "old.npz").write_bytes(training.courses.pack(arrays | {"schema": np.frombuffer(outdated, np.uint8)}))
    text = output_of("simulate", scenario, "--policy", "dl2", "--set", f"weights={tmp_path / 'old.npz'}")
    assert "dominant_resource_fairness decided in place of the network from slot" in text
    assert "made for another version of the program" in text


def test_a_scenario_that_cannot_be_drawn_anew_is_judged_on_itself(tmp_path: Path) -> None:
    path = put(tmp_path, make_document())
    text = train(path, tmp_path / "out", "--rounds", 1)
    assert "judged on the scenario of the training: it has no other draws" in text
    said_no = refused("train_dl2", "--scenario", path, "--out", tmp_path / "no", *QUICK, "--speed", "measured")
    assert "nobody measured jobs of the model that has no name" in said_no


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("--teacher", "nobody"), "--teacher: unknown policy"),
        (("--teacher", "dl2"), "--teacher: dl2 is what is taught"),
        (("--gamma", 1.5), "--gamma: must be at most 1"),
        (("--rate", -1), "--rate: must be 0 or more"),
        (("--held-out", 1), "--held-out: must be 2 or more"),
        (("--rounds", -1), "--rounds: must be 0 or more"),
        (("--offline", "--speed", "measured"), "--offline: has fitted speeds of its own"),
    ],
)
def test_options_that_nobody_can_use_are_refused(
    scenario: Path, tmp_path: Path, arguments: tuple[object, ...], place: str
) -> None:
    said_no = refused("train_dl2", "--scenario", scenario, "--out", tmp_path / "out", *arguments)
    assert said_no.startswith(place)
    assert not (tmp_path / "out").exists()


def test_another_training_in_the_folder_is_not_overwritten(scenario: Path, tmp_path: Path) -> None:
    train(scenario, tmp_path / "out", "--rounds", 0)
    before = content(tmp_path / "out")
    said_no = refused("train_dl2", "--scenario", scenario, "--out", tmp_path / "out", *QUICK, "--seed", 2)
    assert "is a training with other settings" in said_no
    assert content(tmp_path / "out") == before
    (tmp_path / "out" / "checkpoint.npz").write_bytes(b"nothing")
    assert "is no training" in refused("train_dl2", "--scenario", scenario, "--out", tmp_path / "out", *QUICK)


def test_needs_no_database_and_ends_with_one_line(tmp_path: Path) -> None:
    done = manage("train_dl2", "--scenario", tmp_path / "none.json", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"{tmp_path / 'none.json'}: cannot be read (no such file or directory)"]
