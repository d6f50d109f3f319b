"""The log of a run that a reader chose stays while the page moves, and that of the newest comes by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.engines.launcher.files import Folder
from scheduling.feed.notify import tenant_tell
from scheduling.jobs.read_run import MOST_RUNS, home_of, records
from scheduling.models import Award, Run
from tenants.models import User
from tenants.roles import VIEWER
from tenants.scoping import scope
from tests.browser.test_keyboard import live
from tests.scheduling.builders import make_tenant
from tests.scheduling.live import SPEC, make_award, make_live_pool
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
NEWEST, LOG = "#log-live[data-live]", "#log-live pre"


def trained() -> tuple[Award, User]:
    pool, tenant = make_live_pool(epoch_at=timezone.now() - timedelta(hours=1)), make_tenant("lumen")
    program = {"program": {"name": "trainer", "parameters": {}}}
    award: Award = make_award(pool, tenant, spec=SPEC | program, state="running")
    return award, make_member(tenant, VIEWER).user


def begin(award: Award, number: int) -> None:
    """The run before is lost, and this one has written of itself."""
    now = timezone.now()
    with scope(award.tenant):
        lost = {"state": "lost", "ended_at": now, "detail": "server s1 is gone"}
        Run.objects.filter(job=award.job).exclude(state="lost").update(**lost)
        run = Run.objects.create(
            tenant=award.tenant, job=award.job, award=award, number=number, engine="local", program="trainer",
            key=f"{award.pk:016x}{number:016x}", state="running", started_at=now, ends_at=now, due_at=now, seen_at=now,
        )  # fmt: skip
    folder = Folder(records().root, home_of(run), run.key)
    folder.make()
    folder.log.write_text(f"{now.timestamp():.3f} engine 0 Started: attempt {number}.\n")
    tenant_tell(award.tenant_id, f"job-run:{award.job_id}")


def more(award: Award, number: int, words: str) -> None:
    """The run writes another line."""
    with scope(award.tenant):
        run = Run.objects.get(key=f"{award.pk:016x}{number:016x}")
    with Folder(records().root, home_of(run), run.key).log.open("a") as file:
        file.write(f"{timezone.now().timestamp():.3f} worker 0 {words}\n")
    tenant_tell(award.tenant_id, f"job-run:{award.job_id}")


def test_page_follows_the_newest_run_and_keeps_the_one_that_was_chosen(visit: Act, act: Act) -> None:
    award, user = act(trained)
    act(begin, award, 1)
    one = visit(user)
    live(one, f"/t/lumen/jobs/{award.job_id}/")
    assert one.page.locator("#id_run").count() == 0
    act(begin, award, 2)
    one.page.wait_for_selector(f"{LOG}:has-text('attempt 2')")
    one.page.click("#log-live a:has-text('The run before')")
    one.page.wait_for_selector(f"{LOG}:has-text('attempt 1')")
    assert one.page.input_value("#id_run") == "1"
    assert "server s1 is gone" in one.page.inner_text("#log-live")
    assert one.axe(colours_of=("#log-live",)) == []

    one.page.select_option("#id_run", "2")
    one.page.click("#h-log >> xpath=ancestor::section >> button[type=submit]")
    one.page.wait_for_selector(f"{NEWEST}:has-text('attempt 2')")
    one.page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")
    act(more, award, 2, "epoch 1")
    one.page.wait_for_selector(f"{NEWEST}:has-text('epoch 1')")
    act(begin, award, 3)
    one.page.wait_for_selector("#log-live:not([data-live]):has-text('attempt 2'):has-text('Run 2 of 3')")
    assert one.page.input_value("#id_run") == "2"


def test_without_scripts_a_run_is_chosen_on_a_phone(visit: Act, act: Act) -> None:
    award, user = act(trained)
    for number in (1, 2, 3):
        act(begin, award, number)
    one = visit(user, scripts=False, width=390)
    one.open(f"/t/lumen/jobs/{award.job_id}/")
    one.page.select_option("#id_run", "1")
    one.page.click("#h-log >> xpath=ancestor::section >> button[type=submit]")
    one.page.wait_for_selector(f"{LOG}:has-text('attempt 1')")
    one.page.click("#log-live a:has-text('The run after')")
    one.page.wait_for_selector(f"{LOG}:has-text('attempt 2')")
    assert one.sideways() == 0


def test_run_that_the_list_does_not_reach_is_chosen_by_its_number(visit: Act, act: Act) -> None:
    award, user = act(trained)
    for number in range(1, MOST_RUNS + 3):
        act(begin, award, number)
    one = visit(user, width=390)
    one.open(f"/t/lumen/jobs/{award.job_id}/")
    one.page.get_by_label(f"Run, 1 to {MOST_RUNS + 2}").fill("1")
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector(f"{LOG}:has-text('attempt 1')")
    assert one.page.input_value("#id_run") == "1"
    assert f"Run 1 of {MOST_RUNS + 2}" in one.page.inner_text("#log-live")
    assert (one.sideways(), one.axe(colours_of=("#log-live",))) == (0, [])
