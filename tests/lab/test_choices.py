"""A pool's last thirty days under each choice of plan, price and dividend: a button on the pool's page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from scheduling.core.scenario import BadScenario
from scheduling.lab.choices import CHOICES, NOTHING_TO_CHOOSE, NOW, choices_study, windows_study
from scheduling.lab.histories.assembling import Wishes, assemble
from scheduling.lab.histories.history import History, Log, LoggedJob, Machine
from scheduling.lab.rounds import studies_round
from scheduling.lab.studies.study import Study, study_of
from scheduling.lab.studies.worlds import world
from scheduling.models import LabStudy, StudyState
from scheduling.operator.read_choices import MEASURED, choices_of
from tenants.access import Access, Refused
from tenants.roles import AUDITOR, OPERATOR, OWNER
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.markets import make_waiting
from tests.scheduling.pages import client_as, text_of

STAFF = Access(user=None, tenant=None, roles=frozenset({AUDITOR}))
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "reproduce.md"
HISTORY = {"format": "jobs", "file": "jobs.csv"}


def study(rules: list[object]) -> Study:
    return study_of({"history": HISTORY, "rules": rules, "worth": ["by_hour"]}, "a study", lambda name: name)


def test_a_rule_may_have_all_owners_plan_anew_and_says_so_in_its_digest() -> None:
    names = [{"rule": "market", "name": plan, "plan": plan} for plan in ("keep", "renew")]
    words = study(["market", *names])
    history = small_history()
    plans = [{t.plan for t in world(history, words, rule, "by_hour").cluster.tenants} for rule in words.rules]
    assert plans == [{"keep"}, {"keep"}, {"renew"}]
    unsaid, keep, renew = (words.replay_digest(rule, "by_hour") for rule in words.rules)
    assert unsaid == keep
    assert renew != keep
    with pytest.raises(BadScenario, match="makes no plans at home"):
        study([{"rule": "backfill", "plan": "renew"}])


def small_history() -> History:
    jobs = tuple(LoggedJob(str(n), f"o{n % 2}", 18_000 * n, None, None, 7200, 1) for n in range(6))
    wishes = Wishes("UTC", "gpu", None, None, None, 12, None, {"o0": 1, "o1": 1})
    return assemble(Log(jobs, len(jobs), {}, (), {}), (Machine("m", 2),), wishes)


def test_the_table_beside_the_button_is_that_of_the_guide() -> None:
    lines = [line.strip("| ").split(" | ") for line in GUIDE.read_text(encoding="utf-8").splitlines()]
    names = ("kept, posted", "renewed, posted", "renewed, searched", "renewed, searched, dividend 1/2")
    rows = {line[0].split(":")[0]: line for line in lines if line[0].split(":")[0] in (*names, *CHOICES)}
    assert tuple(CHOICES.values()) == tuple(row[1:4] for row in MEASURED)
    for name, measured in zip(CHOICES, MEASURED, strict=True):
        _, _, even, _, crowded = rows[name]
        for cell, more, owners in ((even, measured[4], measured[6]), (crowded, measured[5], measured[7])):
            value, share = cell.split("; ")
            assert f"{float(share):.2f}" == f"{owners / 100:.2f}", name
            assert more == ("–" if name == "kept, posted" else f"{value.split(' ±')[0]} %"), name


@pytest.mark.django_db
def test_the_pools_page_shows_what_holds_now_and_the_button_makes_the_study() -> None:
    pool = make_pool("main", usual_plan="renew")
    assert [choice.is_now for choice in choices_of(pool)] == [False, True, False, False, False]
    client = client_as(OPERATOR, None)
    page = text_of(client.get("/operator/pools/main/", secure=True).content.decode())
    assert "Planned anew, price posted as here now" in page
    assert "Work out the last thirty days" in page
    answer = client.post("/lab/choices/main/", secure=True)
    row = LabStudy.objects.get()
    assert answer.headers["Location"].endswith(f"/lab/{row.pk}/")
    assert (row.pool, row.document["against"], row.document["answer"]) == (
        pool,
        "renewed, posted",
        "renewed, searched",
    )
    assert [rule["name"] for rule in row.document["rules"]] == list(CHOICES)
    assert row.last_at is not None
    assert timezone.now() - row.last_at < timedelta(minutes=5)


@pytest.mark.django_db
def test_a_pool_of_other_settings_is_compared_with_itself_and_one_without_floors_not_at_all() -> None:
    mixed = make_pool("mixed", batch_policy={"name": "astraea", "mode": "guarantee", "dividend": 0.25})
    row = choices_study(pool=mixed, by=STAFF, at=timezone.now())
    assert isinstance(row, LabStudy), row
    assert (row.document["against"], row.document["rules"][-1]["policy"]["dividend"]) == (NOW, 0.25)
    paper = make_pool("paper", batch_policy={"name": "astraea", "mode": "paper"})
    assert choices_study(pool=paper, by=STAFF, at=timezone.now()) == NOTHING_TO_CHOOSE
    assert choices_of(paper) == ()
    member = Access(user=None, tenant=None, roles=frozenset({OWNER}))
    refused = choices_study(pool=mixed, by=member, at=timezone.now())
    assert isinstance(refused, Refused)
    assert refused.code == "not_allowed"


@pytest.mark.django_db
def test_windows_are_compared_with_and_without_pieces() -> None:
    pool = make_pool(batch_policy={"name": "astraea", "mode": "guarantee"})
    row = windows_study(pool=pool, by=STAFF, at=timezone.now())
    assert isinstance(row, LabStudy), row
    rules = {rule["name"]: rule for rule in row.document["rules"]}
    assert {name: rule["policy"]["clock"]["cap"] for name, rule in rules.items()} == {
        f"{kind}, windows of {window}": window for window in (8, 16, 32) for kind in ("whole jobs", "pieces")
    }
    assert {name for name, rule in rules.items() if "pieces" in rule} == {name for name in rules if "pieces" in name}
    assert (row.document["against"], row.document["answer"]) == ("whole jobs, windows of 32", "pieces, windows of 16")
    paper = make_pool("paper", batch_policy={"name": "astraea", "mode": "paper"})
    assert windows_study(pool=paper, by=STAFF, at=timezone.now()) == NOTHING_TO_CHOOSE


@pytest.mark.django_db
@pytest.mark.parametrize("study", [choices_study, windows_study])
def test_the_study_is_worked_at_to_its_end(study: Callable[..., LabStudy | Refused]) -> None:
    pool = make_pool(epoch_at=datetime(2026, 10, 1, tzinfo=UTC), slot_seconds=3600)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, worker=8, ps=2)
    for tenant in (lumen, castor):
        make_cells(server, tenant, {"worker": 4, "ps": 1})
    for arrival in (0.5, 1.2, 2.1, 26.0, 26.5, 50.0):
        make_waiting(pool, lumen if arrival < 26 else castor, arrival)
    row = study(pool=pool, by=STAFF, at=datetime(2026, 10, 20, tzinfo=UTC))
    assert isinstance(row, LabStudy), row
    for _ in range(3):
        studies_round(clock=timezone.now, others=lambda: None)
    row.refresh_from_db()
    assert row.state == StudyState.DONE, row.sentence
    assert row.sentence.startswith(f"{row.document['answer']} beside {row.document['against']}:")
