"""Windows between those that every page is tried in: on a small laptop the navigation leaves less than a tablet has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.models import Pool, TrainingJob
from tenants.models import Tenant, User
from tenants.roles import OPERATOR, OWNER
from tenants.scoping import scope
from tests.browser.test_every_page import SPILT
from tests.database import as_superuser
from tests.scheduling.markets import make_market, make_waiting
from tests.tenants.builders import make_member, make_staff

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
PHONE, SCREEN = 390, 1280
WIDTHS = (641, 720, 820, 900, 961, 1030, 1100, 1201)
SLOT_SECONDS = 3 * 3_600
LONG = {"epochs": 2, "value": {"kind": "linear", "slope": -0.001, "base": 90.0}}
NAMES = {"castor": "Castor Vision", "tarn": "Tarn Climate"}


def long_names() -> User:
    """Of a pool whose intervals end on another day, with names as long as people give them. The operator sees it."""
    begin = timezone.now() - timedelta(seconds=2.3 * SLOT_SECONDS)
    pool, tenants = make_market(*NAMES, slot_seconds=SLOT_SECONDS, epoch_at=begin)
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(name="Sweeps (elastic)")
    for tenant in tenants:
        Tenant.objects.filter(pk=tenant.pk).update(name=NAMES[tenant.slug])
        make_waiting(pool, tenant, 0.1, **LONG)
    pool_advance(pool_id=pool.pk, at=timezone.now())
    return make_staff(OPERATOR).user


def test_no_page_slides_sideways_on_a_small_laptop(visit: Act, act: Act) -> None:
    one = visit(act(long_names))
    wrong = []
    for path in ("/overview/", "/overview/jobs/", "/staff/", "/history/", "/operator/health/", "/how-it-works/"):
        one.open(path)
        for width in WIDTHS:
            one.page.set_viewport_size({"width": width, "height": 900})
            wrong += [f"{path} slides by {one.sideways()} at {width}"] * (one.sideways() > 0)
            wrong += [f"{path} spills at {width}: {each}" for each in one.page.evaluate(SPILT)]
    assert not wrong, "\n".join(wrong)


def one_word_names() -> tuple[User, int]:
    """Of a tenant, its owner and its job: each is one word, as long as it may be."""
    pool, (tenant,) = make_market("lumen")
    Tenant.objects.filter(pk=tenant.pk).update(name="T" * 100)
    person = make_member(tenant, OWNER).user
    User.objects.filter(pk=person.pk).update(name="P" * 100)
    job = make_waiting(pool, tenant, 0.1)
    with as_superuser(), scope(tenant):
        TrainingJob.objects.filter(pk=job.pk).update(name="j" * 200)
    return User.objects.get(pk=person.pk), job.pk


def test_name_of_one_word_that_is_longer_than_the_page_breaks(visit: Act, act: Act) -> None:
    owner, job = act(one_word_names)
    one = visit(owner)
    wrong = []
    for path in ("market/", "jobs/", f"jobs/{job}/", f"jobs/{job}/cancel/", "ledger/", "members/", "programs/"):
        for width in (PHONE, 768, SCREEN):
            one.page.set_viewport_size({"width": width, "height": 900})
            one.open(f"/t/lumen/{path}")
            wrong += [f"{path} slides by {one.sideways()} at {width}"] * (one.sideways() > 0)
    assert not wrong, "\n".join(wrong)


def test_long_name_takes_two_lines_of_the_head_until_its_menu_is_open(visit: Act, act: Act) -> None:
    owner, _ = act(one_word_names)
    one = visit(owner, width=PHONE)
    one.open("/t/lumen/market/")
    name = one.page.locator(".who-name")
    line = name.evaluate("el => parseFloat(getComputedStyle(el).lineHeight)")
    assert name.bounding_box()["height"] <= 2 * line + 1
    one.page.click(".rail .who")
    assert name.evaluate("el => el.scrollHeight - el.clientHeight") == 0
    assert name.bounding_box()["height"] > 3 * line
