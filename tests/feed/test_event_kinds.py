"""The one list of kinds of events, and that everything which must agree with it does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from scheduling.audit.verification.lives import _STEPS
from scheduling.common.written import EVENT_MONEY
from scheduling.feed.kinds import OWN_KINDS, Audience, EventKind
from scheduling.feed.notify import EVERYBODY
from scheduling.models import Event
from tests.sources import trees

ROOT = Path(__file__).resolve().parent.parent.parent
# Data that a message may need.
DATA = {"paid": 3, "available": 5, "slots_left": 2, "title": "Gini", "days": 7, "policy": "dl2", "server": "s1"}
DATA |= {"webhook": 7, "refunded": 3, "awards": 2, "per_slot": 4, "slot_seconds": 10}
DATA |= {"period": "month", "spent": 3, "limit": 2, "member": None, "percent": 80, "hard": True}
DATA |= {"numbers": {"price": 2.5, "value": 1.0}}


@pytest.mark.parametrize("kind", EventKind)
def test_kind_can_be_stored_shown_and_told(kind: EventKind) -> None:
    assert len(kind) <= Event._meta.get_field("kind").max_length
    assert set(kind.topics) <= EVERYBODY
    if kind.message is not None:
        text = kind.message.text("Train", DATA | {"state": "lost", "cause": "server_lost"})
        assert re.fullmatch(r"[^<>{}]+\.", text)
        assert kind.message.title.endswith(".")


@pytest.mark.parametrize("kind", [kind for kind in EventKind if kind.heading])
def test_what_a_jobs_story_tells_is_of_its_tenant(kind: EventKind) -> None:
    assert kind in OWN_KINDS


def test_verification_knows_what_each_kind_that_moves_a_job_does_to_it() -> None:
    """A kind that moves nothing says so in the list. A life begins with the submission."""
    assert {kind for kind in EventKind if kind.moves_job} == {*_STEPS, EventKind.JOB_SUBMITTED}


def test_whoever_may_not_see_jobs_sees_no_kind_that_begins_with_job() -> None:
    assert {kind for kind in EventKind if kind.startswith("job_")} == {
        kind for kind in EventKind if kind.audience == Audience.TENANT_JOBS
    }


def kinds_in(tree: ast.Module) -> set[str]:
    """The names of kinds that a file mentions."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "EventKind"
    }


@pytest.fixture(scope="module")
def naming_kinds() -> list[ast.Module]:
    """Return the modules that mention a kind, without the list of them."""
    modules = trees("scheduling", naming=["EventKind"])
    return [tree for path, tree in modules if not path.endswith("/kinds.py") and "/migrations/" not in path]


def test_every_kind_is_written_somewhere(naming_kinds: list[ast.Module]) -> None:
    """Not on the list alone: a kind that nobody writes is a promise to webhooks that nobody keeps."""
    assert set.union(*map(kinds_in, naming_kinds)) == {kind.name for kind in EventKind}


# Kinds with amounts that more people read than those who may see the tenant's money, and why they may. What a job pays
# is the job's (tests/jobs/test_story_words.py), so kinds for readers of jobs are not listed.
AMOUNTS_FOR_OTHERS = {
    "AWARD_GIVEN_UP": "what came back of a job of one's own tenant, as its page and the book say it",
    "AWARD_CUT": "the same",
    "AWARD_ADJUSTED": "the same",
    "SLOT_SETTLED": "sums of a pool, over all tenants",
    "INTERVAL_CLOSED": "the same",
    "SERVER_LOST": "the same",
    "MARKET_STOPPED": "the same",
    "POOL_HELD": "no amount: `held` is a value of the history, in the same file",
    "POOL_DRAINING": "the same",
    "POOL_RESUMED": "the same",
    "POLICY_TAKEN_OVER": "no amount: `paid` is of an award, in the same file",
}


def test_amounts_of_a_tenant_are_for_those_who_may_see_its_money(naming_kinds: list[ast.Module]) -> None:
    """A kind has amounts here if a file that makes events mentions the kind, and names an amount anywhere in it."""
    with_amounts = set[str]()
    for tree in naming_kinds:
        nodes = list(ast.walk(tree))
        makes = any(isinstance(node, ast.Name) and node.id in ("event", "job_event") for node in nodes)
        names = {
            key.value
            for node in nodes
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant)
        }
        if makes and names & EVENT_MONEY:
            with_amounts |= kinds_in(tree)
    limited = (Audience.TENANT_MONEY, Audience.TENANT_JOBS)
    assert {name for name in with_amounts if EventKind[name].audience not in limited} == set(AMOUNTS_FOR_OTHERS)
    assert {"BUDGET_CHANGED", "CREDITS_WITHDRAWN", "LOW_BALANCE"} <= with_amounts
