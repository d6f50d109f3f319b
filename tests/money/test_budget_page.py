"""The form of a budget says what is wrong in the words that its fields have."""

from __future__ import annotations

import pytest
from django.contrib.messages import get_messages

from tenants.roles import OWNER
from tests.scheduling.pages import client_as
from tests.tenants.builders import make_tenant

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"soft": "-1"}, "Nothing was changed. Notice at: Must be from "),
        ({"hard": "many"}, "Nothing was changed. Refuse at: Write credits as 12.5"),
        ({"soft": "5", "hard": "4"}, "The limit that gives notice (soft) must not be above the one that refuses"),
        ({}, "A budget has a limit that gives notice (soft), one that refuses (hard), or both."),
    ],
)
def test_errors_name_the_fields_of_the_page(fields: dict[str, str], sentence: str) -> None:
    client = client_as(OWNER, make_tenant("lumen"))
    answer = client.post("/t/lumen/share/budgets/", {"period": "month", **fields}, secure=True)
    (message,) = get_messages(answer.wsgi_request)
    assert sentence in str(message)
