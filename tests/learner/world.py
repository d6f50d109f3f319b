"""An elastic pool that a small network decides, with a past to learn from, and networks whose liking is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from scheduling.core.policies.dl2 import networks
from scheduling.core.policies.dl2.files import Network, encode
from scheduling.core.policies.dl2.shape import ACTIONS, BOTH, NetworkShape
from scheduling.learner.promotion import learner_set, weights_take
from scheduling.learner.read_learner import LearnerSettings
from scheduling.market.elastic import weights_stored
from scheduling.models import CandidateState, Interval, PolicyWeights, Pool, PoolLearner, WeightsCandidate
from scheduling.operator.weights import weights_add
from tenants.access import access_of_system
from tenants.models import Tenant
from tests.scheduling.builders import NOON, make_pool
from tests.scheduling.clocks import moment
from tests.scheduling.elastic_world import make_elastic, make_elastic_job, run

SHAPE = NetworkShape(jobs=4, columns=3, hidden=8, first_bundle=False)
BY, WHY = access_of_system("the test"), "a test"
POLICY = {"name": "dl2", "weights": "narrow", "guard": False}
PAST = 55  # slots: five windows and a half


def network(*liked: int, seed: int = 1) -> Network:
    """It takes the actions named, as long as they are allowed, before all others."""
    dice = np.random.default_rng(seed)
    weights = dict(networks.start(dice, SHAPE.inputs, SHAPE.actions, SHAPE.hidden, np.float32))
    weights["b3"] = weights["b3"].copy()
    weights["b3"][[*liked, SHAPE.void]] += [100.0] * len(liked) + [50.0]
    return Network(SHAPE, weights, {"seed": seed})


NARROW = encode(network(BOTH))  # serves the earliest job alone
WIDE = encode(network(*(ACTIONS * row + BOTH for row in range(SHAPE.jobs))))  # and then the others


def stored(name: str, content: bytes) -> PolicyWeights:
    row = weights_add(name=name, content=content, by=BY, reason=WHY, at=NOON)
    assert isinstance(row, PolicyWeights), row
    return row


def learnt_pool(until: int = PAST, **learner: Any) -> tuple[Pool, Tenant]:
    """Two jobs come every ten slots, each of four workers; the network in use serves one after the other."""
    stored("narrow", NARROW)
    pool, _, renter = make_elastic(POLICY, credits=100_000)
    for first in range(0, PAST, 10):
        for arrival in (first, first + 1):
            make_elastic_job(pool, renter, float(arrival), slots=4, max_ps=4)
    if until:
        run(pool, 0, until)
    if learner:
        switched(pool, **learner)
    return pool, renter


def switched(pool: Pool, **settings: Any) -> None:
    outcome = learner_set(pool=pool, settings=LearnerSettings(**settings), by=BY, reason=WHY, at=NOON)
    assert outcome is True, outcome


def candidate_of(pool: Pool, state: CandidateState = CandidateState.SHADOW, *, from_slot: int = 0) -> WeightsCandidate:
    """The wide network."""
    row = PolicyWeights.objects.filter(name="wide").first() or stored("wide", WIDE)
    against = PolicyWeights.objects.get(name="narrow").digest
    return WeightsCandidate.objects.create(
        pool=pool, weights=row, against=against, from_slot=from_slot, state=state, made_at=NOON
    )


def take_weights(pool: Pool, weights: str, slot: float, **changes: Any) -> Any:
    fields = {"by": BY, "reason": WHY, "at": moment(pool, slot)} | changes
    return weights_take(pool=pool, weights=weights, **fields)


def decided_with(pool: Pool) -> dict[int, tuple[str | None, str]]:
    """Slot -> name and digest of the weights that its interval names."""
    rows = Interval.objects.filter(pool=pool).order_by("slot")
    inner = {row.slot: json.loads(bytes(row.policy))["policy"] for row in rows}
    return {slot: (rule["weights"], rule["digest"]) for slot, rule in inner.items()}


def learner_of(pool: Pool) -> PoolLearner:
    return PoolLearner.objects.get(pool=pool)


def learnt_pool_made() -> Pool:
    """For the tables of addresses: a pool with something to go back from."""
    pool = Pool.objects.filter(slug="learnt").first()
    if pool is None:
        if not PolicyWeights.objects.filter(name="narrow").exists():
            stored("narrow", NARROW)
        pool = make_pool("learnt", batch_policy={"name": "dl2", "guard": False})
        candidate_of(pool, CandidateState.OFFERED)
        take_weights(pool, "wide", 0.5)
    weights_stored("wide")  # a process reads a file of weights once: it has, whichever test was first
    return pool
