"""Whole jobs of real processes: one loss curve however many train, resumed or resized; async; slow workers."""

import math
from pathlib import Path

import numpy as np
import pytest

from scheduling.engines.trainer import checkpoint, models
from scheduling.engines.trainer.data import Data
from scheduling.engines.trainer.settings import TrainerSettings
from tests.engines.gang import QUICK, Gang


def alone(**parameters: object) -> list[float]:
    """The loss curve of one process without servers: every step the mean gradient of all chunks' mini-batches."""
    settings = TrainerSettings(**{**QUICK, **parameters})  # type: ignore[arg-type]
    model, data = models.make(settings), Data(settings)
    weights, losses = models.initial(model, settings.seed), []
    for step in range(settings.rounds):
        results = [model.loss_and_gradient(weights, *data.minibatch(chunk, step)) for chunk in range(settings.chunks)]
        losses += [loss for loss, _ in results]
        weights = weights - settings.learning_rate * np.mean([gradient for _, gradient in results], axis=0)
    return list(np.reshape(losses, (settings.epochs, -1)).mean(axis=1))


@pytest.mark.one_case
@pytest.mark.parametrize(
    ("workers", "ps", "model"), [(1, 1, "logistic"), (2, 2, "multilayer"), (4, 1, "convolutional")]
)
def test_losses_do_not_depend_on_how_many_train(tmp_path: Path, workers: int, ps: int, model: str) -> None:
    with Gang(tmp_path, workers, ps, model=model) as gang:
        assert set(gang.end_all().values()) == {0}, gang.story()
        assert gang.losses() == pytest.approx(alone(model=model), rel=1e-12)
        assert gang.losses()[-1] < gang.losses()[0]
        epoch = gang.events("epoch")[-1]
        assert (epoch["workers"], epoch["servers"]) == (workers, ps)
        assert epoch["steps_per_second"] > 0


def test_members_come_and_go_without_a_restart_and_the_curve_stays(tmp_path: Path) -> None:
    """A worker and a server more, then the first of each less; parameters are the same bytes before and after."""
    parameters = {"model": "multilayer", "minibatch_ms": 2.0, "learning_rate": 0.05}
    with Gang(tmp_path, 1, 1, ("--digests",), epochs=5000, **parameters) as gang:
        gang.wait("started")
        gang.start("ps", 1)
        gang.start("worker", 1)
        gang.until(lambda: any(change["workers"] == change["servers"] == 2 for change in gang.events("scaled")))
        assert gang.control.remove("ps", 0)["sentence"] == ""
        assert gang.control.remove("worker", 0)["sentence"] == ""
        assert [gang.end("ps 0"), gang.end("worker 0")] == [0, 0]
        gang.until(lambda: gang.events("scaled")[-1]["workers"] == gang.events("scaled")[-1]["servers"] == 1)
        gang.wait("epoch", len(gang.losses()) + 2)
        gang.control.stop()
        assert set(gang.end_all().values()) == {0}, gang.story()
        changes = gang.events("scaled")
        assert all(change["identical"] for change in changes), changes
        assert all(change["clock"] == change["version"] and change["pause_ms"] > 0 for change in changes), changes
        moved = [change["moved_numbers"] for change in changes if "moved_numbers" in change]
        total = gang.wait("started")["parameters"]
        assert len(moved) == 2
        assert moved[0] == pytest.approx(total / 2, rel=0.02)  # half goes to the new one, and nothing else moves
        assert moved[1] == total - moved[0]  # all that the old one kept goes to the only one left
        assert gang.losses() == pytest.approx(alone(epochs=len(gang.losses()), **parameters), rel=1e-12)


@pytest.mark.wide
def test_stopped_and_started_with_other_counts_gives_the_same_curve(tmp_path: Path) -> None:
    parameters = {"epochs": 40, "minibatch_ms": 2.0}
    with Gang(tmp_path, 2, 1, **parameters) as gang:
        gang.wait("epoch", 5)
        gang.signal("coordinator 0")
        assert set(gang.end_all().values()) == {0}, gang.story()
        stopped, first = gang.wait("stopped"), gang.losses()
        assert stopped["checkpoint"]
        saved = gang.events("checkpoint")[-1]["digest"]
    with Gang(tmp_path, 1, 2, ("--digests",), **parameters) as gang:
        assert set(gang.end_all().values()) == {0}, gang.story()
        started = gang.wait("started")
        assert (started["resumed"], started["version"]) == (True, stopped["version"])
        assert first + gang.losses() == pytest.approx(alone(**parameters), rel=1e-12)
        assert gang.events("checkpoint")[-1]["digest"] != saved


def test_asynchronous_job_does_all_its_work(tmp_path: Path) -> None:
    with Gang(tmp_path, 2, 2, mode="async", epochs=20) as gang:
        assert set(gang.end_all().values()) == {0}, gang.story()
        assert len(gang.losses()) == 20
        assert gang.losses()[-1] < 0.8 * gang.losses()[0]
        version, curve, _ = checkpoint.load(
            tmp_path, TrainerSettings(**{**QUICK, "mode": "async", "epochs": 20}), 7
        ) or (
            0,
            None,
            0,
        )
        assert version == 20 * 4 * 4  # every mini-batch was applied once
        assert curve is not None
        assert curve.positions == [80] * 4


def test_asynchronous_job_goes_on_when_a_server_comes_and_a_worker_goes(
    tmp_path: Path,
) -> None:
    with Gang(tmp_path, 2, 1, mode="async", epochs=5000, minibatch_ms=2.0, learning_rate=0.02) as gang:
        gang.wait("started")
        gang.start("ps", 1)
        assert gang.wait("scaled")["servers_joined"] == [1]
        gang.control.remove("worker", 0)
        assert gang.wait("scaled", 2)["workers_left"] == [0]
        gang.wait("epoch", len(gang.losses()) + 2)
        gang.control.stop()
        assert set(gang.end_all().values()) == {0}, gang.story()
        assert gang.losses()[-1] < 0.9 * gang.losses()[0]
    with Gang(tmp_path, 1, 1, mode="async", epochs=5000, minibatch_ms=2.0, learning_rate=0.03) as gang:
        assert gang.end() == 2
        assert gang.wait("failed")["sentence"] == "The checkpoint was made with another learning_rate."


@pytest.mark.wide
@pytest.mark.parametrize("reply", ["drop", "replace"])
def test_slow_worker_is_found_and_its_place_taken(tmp_path: Path, reply: str) -> None:
    parameters = {"epochs": 30, "minibatch_ms": 1.0, "stragglers": reply}
    with Gang(tmp_path, 2, 1, slow={1: 60}, **parameters) as gang:
        straggler = gang.wait("straggler")
        assert straggler["rank"] == 1
        assert straggler["seconds"] > 2 * straggler["median_seconds"]
        if reply == "replace":
            gang.start("worker", 2)
            assert gang.wait("scaled")["replaced"] == [1]
        assert gang.end("worker 1") == 0
        assert set(gang.end_all().values()) == {0}, gang.story()
        assert gang.losses() == pytest.approx(alone(**parameters), rel=1e-12)


def test_learning_rate_that_makes_losses_infinite_fails_with_a_sentence(tmp_path: Path) -> None:
    with Gang(tmp_path, model="multilayer", learning_rate=1e308) as gang:
        assert gang.end() == 3
        assert "learning rate is too high" in gang.wait("failed")["sentence"]


def test_checkpoint_is_whole_and_fits_its_job(tmp_path: Path) -> None:
    settings = TrainerSettings(model="logistic", features=2, chunks=2, minibatches=2, epochs=3)
    parameters = np.array([1.0, math.pi, -0.0])
    curve = checkpoint.Curve(settings)
    for chunk, round_ in [(0, 0), (1, 0), (0, 1)]:
        curve.report(chunk, round_, 0.1 * (chunk + 1))
    path = checkpoint.save(tmp_path, settings, 1, curve, parameters)
    loaded = checkpoint.load(tmp_path, settings, 3)
    assert loaded is not None
    assert (loaded[0], loaded[1].positions, sorted(loaded[1].open_losses())) == (1, [2, 1], sorted(curve.open_losses()))
    assert loaded[2].tobytes() == parameters.tobytes()
    assert checkpoint.load(tmp_path / "elsewhere", settings, 3) is None
    with pytest.raises(checkpoint.BadCheckpoint, match="another seed"):
        checkpoint.load(
            tmp_path, TrainerSettings(model="logistic", features=2, chunks=2, minibatches=2, epochs=3, seed=2), 3
        )
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(checkpoint.BadCheckpoint, match="damaged"):
        checkpoint.load(tmp_path, settings, 3)
