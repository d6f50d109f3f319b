"""Trained weights in live pools: stored once under a name, decided with, and decided with again when verified."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from django.db import DatabaseError, transaction

from scheduling.audit.verification import intervals_verify
from scheduling.core.policies.dl2 import networks
from scheduling.core.policies.dl2.files import Network, encode
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.market.view.policy import unusable
from scheduling.models import Interval, PolicyWeights, Pool
from scheduling.operator.weights import weights_add
from tenants.access import Access, Refused, access_of_system
from tenants.models import AuditEntry
from tests.database import as_superuser, overrule
from tests.ledger.builders import tamper
from tests.management.files import output_of, refused
from tests.scheduling.builders import make_pool
from tests.scheduling.elastic_world import all_is_sound, make_elastic, make_elastic_job, run, slots_of

pytestmark = pytest.mark.django_db

SHAPE = NetworkShape(jobs=6, columns=4, hidden=8, first_bundle=False)
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
OPERATOR = access_of_system("the test")
MINE = {"name": "dl2", "weights": "mine", "guard": False}


def trained(most_liked: int = 2, seed: int = 1) -> bytes:
    """Weights of a network that gives the first job one of each as long as it may, or likes another action most."""
    weights = networks.start(np.random.default_rng(seed), SHAPE.inputs, SHAPE.actions, SHAPE.hidden, np.float32)
    weights["b3"][most_liked] += 100.0
    return encode(Network(SHAPE, weights, {}))


def stored(content: bytes | None = None, name: str = "mine", by: Access = OPERATOR) -> PolicyWeights | Refused:
    return weights_add(name=name, content=trained() if content is None else content, by=by, reason="a test", at=AT)


def put(folder: Path, content: bytes) -> Path:
    path = folder / "weights.npz"
    path.write_bytes(content)
    return path


def test_a_pool_decides_with_its_own_weights_and_is_verified_with_them() -> None:
    stored()
    pool, _, renter = make_elastic(MINE)
    job = make_elastic_job(pool, renter, max_ps=4)
    run(pool, 0, 3)
    assert [(award.workers, award.ps) for award in slots_of(job)] == [(4, 4)] * 3
    said_of_it = json.loads(bytes(Interval.objects.filter(pool=pool)[0].policy))["policy"]
    assert (said_of_it["weights"], said_of_it["digest"]) == ("mine", hashlib.sha256(trained()).hexdigest())
    all_is_sound(pool)


def test_other_weights_decide_otherwise() -> None:
    stored(trained(most_liked=SHAPE.void), name="idle")
    pool, _, renter = make_elastic(MINE | {"weights": "idle"})
    job = make_elastic_job(pool, renter, max_ps=4)
    run(pool, 0, 3)
    assert slots_of(job) == []


def test_an_interval_is_not_verified_with_weights_of_another_digest() -> None:
    stored()
    pool, _, renter = make_elastic(MINE | {"digest": "0" * 64})
    assert unusable(pool, ["worker", "ps"]) == "policy.digest: is that of other weights"
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(batch_policy=MINE)
    pool.refresh_from_db()
    make_elastic_job(pool, renter, max_ps=4)
    run(pool, 0, 1)
    tamper("UPDATE scheduling_policyweights SET content = %s, digest = 'else'", [trained(seed=2)])
    (finding, *_) = intervals_verify(pool_ids=[pool.pk]).findings
    assert "policy.digest: is that of other weights" in str(finding)


def test_a_pool_cannot_name_weights_that_are_not_there() -> None:
    stored(name="other")
    pool = make_pool(batch_policy=MINE)
    assert unusable(pool, ["worker", "ps"]) == "policy.weights: no weights are stored as mine; there are: other"


def test_the_same_file_is_added_once_and_a_name_never_changes_its_meaning() -> None:
    first = stored()
    assert isinstance(first, PolicyWeights)
    assert stored() == first
    other = stored(trained(seed=2))
    assert isinstance(other, Refused)
    assert (other.code, PolicyWeights.objects.count()) == ("name_taken", 1)
    entry = AuditEntry.objects.get(action="weights_add")
    assert (entry.subject, entry.after) == ("weights mine", {"name": "mine", "digest": first.digest})
    for statement in (
        "UPDATE scheduling_policyweights SET name = 'x'",
        "DELETE FROM scheduling_policyweights",
        "TRUNCATE scheduling_policyweights CASCADE",  # candidates and promotions name them
    ):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            overrule(statement)


def test_only_operators_add_weights() -> None:
    answer = stored(by=Access(user=None, tenant=None, roles=frozenset({"owner"})))
    assert isinstance(answer, Refused)
    assert not PolicyWeights.objects.exists()


def nan() -> bytes:
    weights = networks.start(np.random.default_rng(1), SHAPE.inputs, SHAPE.actions, SHAPE.hidden, np.float32)
    weights["b1"][0] = np.nan
    return encode(Network(SHAPE, weights, {}))


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        (b"PK", "mine", "The file is no .npz of weights."),
        (nan(), "mine", "The weights are not all numbers."),
        (trained(), "my weights", "valid"),
    ],
)
def test_says_why_a_file_is_not_taken(tmp_path: Path, content: bytes, name: str, sentence: str) -> None:
    path = put(tmp_path, content)
    text = refused("dl2_weights", "--add", path, "--name", name)
    assert text.startswith(f"{path}: ")
    assert sentence in text
    assert not PolicyWeights.objects.exists()


def test_command_adds_and_lists(tmp_path: Path) -> None:
    assert output_of("dl2_weights").strip() == "no weights but those shipped"
    digest = hashlib.sha256(trained()).hexdigest()
    text = output_of("dl2_weights", "--add", put(tmp_path, trained()), "--name", "mine")
    assert text.splitlines() == [
        f"mine: {digest}",
        'The policy of a new elastic pool that uses them: {"name": "dl2", "weights": "mine"}',
    ]
    assert [word for line in output_of("dl2_weights").splitlines()[2:] for word in line.split()][0::4] == ["mine"]
    assert digest in output_of("dl2_weights")
    assert refused("dl2_weights", "--name", "mine") == "--add: a file and its --name go together"
    assert refused("dl2_weights", "--add", tmp_path / "none.npz", "--name", "x").endswith(
        "cannot be read (no such file or directory)"
    )


def test_a_scenario_of_the_pool_comes_with_its_weights(tmp_path: Path) -> None:
    stored()
    pool, _, renter = make_elastic(MINE)
    job = make_elastic_job(pool, renter, max_ps=4)
    run(pool, 0, 3)
    output_of("pool_scenario", "--pool", "main", "--from", "2026-03-02T12:00", "--to", "2026-03-02T12:01", "--output",
         tmp_path / "S.json")  # fmt: skip
    assert (tmp_path / "S.json.npz").read_bytes() == trained()
    output_of("simulate", tmp_path / "S.json", "--output", tmp_path / "R.json")
    (row,) = json.loads((tmp_path / "R.json").read_text())["jobs"]
    assert (row["name"], row["workers"], row["ps"], row["end"]) == (f"job {job.pk}", 4, 4, 3)
