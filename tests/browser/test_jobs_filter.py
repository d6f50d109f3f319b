"""The filter of the list of jobs: on a laptop's screen its button stands beside its fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenants.models import User
from tenants.roles import OWNER
from tests.scheduling.builders import make_pool
from tests.scheduling.markets import make_market
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
FEET = """() => [...document.querySelectorAll(".filter :is(.input, select, .button)")]
  .map((each) => each.getBoundingClientRect().bottom)"""


def person() -> User:
    _, (lumen, _) = make_market("lumen", "castor")
    make_pool(slug="second", name="Second")  # the filter has a field for the pool where there are several
    return make_member(lumen, OWNER).user


def test_button_of_the_filter_stands_in_the_row_of_its_fields(visit: Act, act: Act) -> None:
    one = visit(act(person), width=1440)
    one.open("/t/lumen/jobs/")
    feet = [round(foot) for foot in one.page.evaluate(FEET) if foot]
    assert len(feet) == 7
    assert len(set(feet)) == 1
    assert one.sideways() == 0
