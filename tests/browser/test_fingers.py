"""On a phone what can be pressed is as large as WCAG 2.2 asks of it (2.5.8), without counting on room around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenants.models import User
from tenants.roles import OPERATOR
from tests.browser.renting import market
from tests.browser.test_open_forms import jobs_of
from tests.tenants.builders import make_staff

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
# All but links within a sentence, and bars of a picture, whose jobs stand in the list beside it, too. A tick is pressed
# by its label as well.
SMALL = """() => {
  const isText = (node) => node.nodeType === 3 && /\\w{2}/.test(node.data);
  const words = (el) => [...el.parentElement.childNodes].some(isText);
  const wanted = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  const seen = (el) => el.checkVisibility({ visibilityProperty: true }) && !el.closest(".visually-hidden, .skip, svg");
  const found = [...document.querySelectorAll(wanted)].filter((el) => seen(el) && !(el.localName === "a" && words(el)));
  const size = (el) => ((/checkbox|radio/.test(el.type) && el.closest("label")) || el).getBoundingClientRect();
  return found.map((el) => [el, size(el)]).filter(([, box]) => box.width < 23.5 || box.height < 23.5)
    .map(([el, box]) => `${Math.round(box.width)} by ${Math.round(box.height)}: ${el.outerHTML.slice(0, 120)}`);
}"""
OF_TENANT = ["market", "jobs", "jobs/{job}", "submit", "share", "use", "ledger", "statements", "fairness", "programs"]
OF_TENANT += ["tokens", "members", "webhooks", "history", "servers"]
OF_OPERATOR = [
    "overview",
    "tenants",
    "staff",
    "operator/pools",
    "operator/servers",
    "operator/cells",
    "operator/health",
]
OF_OPERATOR += ["fairness", "lab"]


def operator() -> User:
    return make_staff(OPERATOR).user


def test_what_is_pressed_on_a_phone_is_large_enough(visit: Act, act: Act) -> None:
    pool, user, _ = act(market)
    job, _ = act(jobs_of, pool, 0.0, 0.1)
    of_tenant = [f"/t/lumen/{path.format(job=job)}/" for path in OF_TENANT] + ["/notices/", "/notices/choices/"]
    small = []
    for person, paths in ((user, of_tenant), (act(operator), [f"/{path}/" for path in OF_OPERATOR])):
        one = visit(person, width=390)
        for path in paths:
            one.open(path)
            one.page.wait_for_load_state("networkidle")
            small += [f"{path}: {each}" for each in one.page.evaluate(SMALL)]
    assert not small, "\n".join(small)
