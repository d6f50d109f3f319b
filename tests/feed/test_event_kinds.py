"""The one list of kinds of events, and that everything which must agree with it does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from scheduling.audit.verification.lives import _STEPS
from scheduling.feed.kinds import OWN_KINDS, Audience, EventKind
from scheduling.feed.notify import EVERYBODY
from scheduling.models import Event

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = [file for file in (ROOT / "scheduling").rglob("*.py") if "migrations" not in file.parts]
# Data that a message may need.
DATA = {"paid": 3, "available": 5, "slots_left": 2, "title": "Gini", "days": 7, "policy": "dl2", "server": "s1"}
DATA |= {"refunded": 3, "awards": 2, "per_slot": 4, "slot_seconds": 10}
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


def test_every_kind_is_written_somewhere() -> None:
    """Not on the list alone: a kind that nobody writes is a promise to webhooks that nobody keeps."""
    named = {
        node.attr
        for file in PRODUCT
        if file.name != "kinds.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "EventKind"
    }
    assert named == {kind.name for kind in EventKind}
