"""The operator's forms in a browser: what a change does is shown while it is typed, and stands at its field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.models import Server
from tenants.models import Tenant, User
from tenants.roles import OPERATOR
from tests.browser.conftest import until
from tests.database import overwrite
from tests.scheduling.markets import make_market, make_waiting
from tests.tenants.builders import make_staff

pytestmark = pytest.mark.django_db(transaction=True)

LONG = {"epochs": 400, "value": {"kind": "linear", "slope": -0.001, "base": 90.0}}
Act = Callable[..., Any]


def cluster() -> tuple[Server, dict[str, Tenant], User]:
    """Three owners with four workers on a server each; castor rents beside its own."""
    pool, tenants = make_market("lumen", "castor", "orrin", slot_seconds=60, epoch_at=timezone.now())
    for count in range(3):
        make_waiting(pool, tenants[1], count / 10, **LONG)
    pool_advance(pool_id=pool.pk, at=pool.slot_start(2))
    pool.epoch_at = timezone.now() - timedelta(seconds=150)
    overwrite(pool)
    server = Server.objects.filter(pool=pool).order_by("name")[0]
    return server, {tenant.slug: tenant for tenant in tenants}, make_staff(OPERATOR).user


@pytest.mark.wide
def test_cells_above_the_capacity_are_refused_while_they_are_typed(visit: Act, act: Act) -> None:
    server, tenants, user = act(cluster)
    one = visit(user)
    one.open(f"/operator/cells/{server.pk}/")
    field = one.page.locator(f"#id_cells-{tenants['orrin'].pk}-worker")
    field.fill("1")
    until(lambda: "1 too many" in one.page.locator("#effect-cells").inner_text())
    assert field.get_attribute("aria-invalid") == "true"
    assert "1 more than the 4 units" in one.page.locator(f"#id_cells-{tenants['orrin'].pk}-worker_error").inner_text()
    one.page.locator(f"#id_cells-{tenants['lumen'].pk}-worker").fill("3")
    until(lambda: "too many" not in one.page.locator("#effect-cells").inner_text())
    assert field.get_attribute("aria-invalid") is None
    assert one.page.evaluate("document.activeElement.id") == f"id_cells-{tenants['lumen'].pk}-worker"


@pytest.mark.wide
@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_nothing_stands_in_an_operators_way(visit: Act, act: Act, theme: str, width: int) -> None:
    server, _, user = act(cluster)
    one = visit(user, theme=theme, width=width)
    pages = [f"servers/{server.pk}/", f"cells/{server.pk}/", "servers/", "cells/", "pools/", "pools/main/"]
    for path in [*pages, "credits/", "health/"]:
        one.open(f"/operator/{path}")
        assert one.axe() == [], path
        assert one.sideways() <= 0, path
