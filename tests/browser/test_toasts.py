"""Toasts in a browser: each comes, also where its event had to wait for an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduling.feed import notify
from scheduling.feed.kinds import EventKind
from scheduling.models import Pool
from scheduling.notices.choices import choices_set
from scheduling.notices.kinds import NoticeKind
from scheduling.notices.read_choices import Ways
from tenants.models import Tenant, User
from tenants.roles import OWNER
from tests.feed.test_events import Writer
from tests.notices.test_notices import tell
from tests.scheduling.markets import make_market
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]


def wanting() -> tuple[Pool, Tenant, Tenant, User]:
    """An owner of lumen who asked for toasts about its money."""
    pool, (lumen, castor) = make_market("lumen", "castor", slot_seconds=3_600)
    person = make_member(lumen, OWNER).user
    choices_set(person=person, ways={NoticeKind.LOW_BALANCE: Ways(bell=True, toast=True)}, all_jobs=False)
    return pool, lumen, castor, person


@pytest.mark.wide
def test_toast_of_an_event_that_waits_for_an_earlier_one_is_shown_after_it(
    visit: Act, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tenant's transaction took the earlier number and is not committed when the page asks. What moves the
    page's cursor after that is news of something else."""
    monkeypatch.setattr(notify, "CURSOR_SECONDS", 0.0)
    pool, lumen, castor, person = act(wanting)
    one = visit(person)
    one.open("/t/lumen/ledger/")
    one.page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")
    earlier = Writer(lambda: tell(castor, EventKind.BUDGET_CHANGED))
    try:
        with one.page.expect_response("**part=toasts**"):
            act(tell, lumen, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)
    finally:
        earlier.commit()
    act(notify.slot_tell, pool.pk)
    one.page.wait_for_selector("#toasts .toast >> text=Low balance.")
    one.page.wait_for_selector("#toasts .toast", state="detached")
    act(tell, lumen, EventKind.LOW_BALANCE, available=4_000_000, slots_left=1)
    one.page.wait_for_selector("#toasts .toast >> text=4.00 credits last 1 slot")
    assert one.page.locator("#toasts .toast").count() == 1
