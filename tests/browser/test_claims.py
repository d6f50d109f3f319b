"""The page of claims in a browser: a trial and a change by keyboard and pointer, on a screen and on a phone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from tenants import services
from tenants.models import User
from tenants.roles import BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tests.tenants.builders import make_mapping, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
EMAIL = "ines@lumen.example"
CLAIMS = {"email": EMAIL, "email_verified": True, "realm_access": {"roles": ["billing-eu"]}, "groups": ["gpu-vision"]}


def people() -> User:
    lumen, delta, haus = make_tenant("lumen", "Lumen Lab"), make_tenant("delta", "Delta Group"), make_tenant("haus")
    person = make_person(EMAIL, "Ines Moreau")
    make_member(haus, OWNER, person)
    make_member(lumen, OWNER)
    make_mapping("department", "optics", lumen, VIEWER)
    make_mapping("groups", "gpu-*", delta, SUBMITTER)
    make_mapping("realm_access.roles", "billing-*", delta, BILLING)
    services.claims_apply(user=person, claims={"department": "optics"}, at=timezone.now())
    return make_staff(OPERATOR).user


@pytest.mark.wide
@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_claims_are_tried_and_a_mapping_is_changed(visit: Act, act: Act, theme: str, width: int) -> None:
    one = visit(act(people), theme=theme, width=width)
    one.open("/claims/")
    assert (one.axe(), one.sideways()) == ([], 0)
    one.page.get_by_label("Claims", exact=True).fill(json.dumps(CLAIMS))
    one.page.get_by_role("button", name="Try").click()
    tried = one.page.locator("#tried")
    assert "joins as submitter" in tried.inner_text()
    assert "leaves; was viewer" in tried.inner_text()
    assert (one.axe(), one.sideways()) == ([], 0)
    one.page.get_by_text("Change", exact=True).locator("visible=true").last.click()
    menu = one.page.locator("details[open] form")
    menu.get_by_label("Role by").select_option(VIEWER)
    menu.get_by_label("Reason").fill("fewer rights")
    assert one.sideways() <= 0
    menu.get_by_role("button", name="Save role").click()
    assert "The role is viewer now" in one.page.locator("main").inner_text() + one.page.locator("body").inner_text()
