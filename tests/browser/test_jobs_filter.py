"""The filters of the lists of jobs: on a laptop's screen their button stands beside their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenants.models import User
from tenants.roles import OPERATOR, OWNER
from tests.scheduling.builders import make_pool
from tests.scheduling.markets import make_market
from tests.tenants.builders import make_member, make_staff

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
FEET = """() => [...document.querySelectorAll(".filter :is(.input, select, .button)")]
  .map((each) => each.getBoundingClientRect().bottom)"""


def person() -> User:
    _, (lumen, _) = make_market("lumen", "castor")
    make_pool(slug="second", name="Second")  # the filter has a field for the pool where there are several
    return make_member(lumen, OWNER).user


def operator() -> User:
    person()
    return make_staff(OPERATOR).user


@pytest.mark.wide
@pytest.mark.parametrize(
    ("who", "address", "fields"), [(person, "/t/lumen/jobs/", 7), (operator, "/overview/jobs/", 8)]
)
def test_button_of_the_filter_stands_in_the_row_of_its_fields(
    visit: Act, act: Act, who: Callable[[], User], address: str, fields: int
) -> None:
    one = visit(act(who), width=1440)
    one.open(address)
    feet = [round(foot) for foot in one.page.evaluate(FEET) if foot]
    assert len(feet) == fields
    assert len(set(feet)) == 1
    assert one.sideways() == 0
