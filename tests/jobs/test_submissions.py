"""The digest of a submission is the same before and after the database has kept it, whatever numbers it holds."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core import records
from scheduling.market.decide.submissions import as_stored

pytestmark = pytest.mark.django_db

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**40), 10**40)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
documents = st.dictionaries(
    texts, st.recursive(numbers | texts | st.booleans() | st.none(), lambda inner: st.lists(inner, max_size=3))
)


def as_the_database_gives_it(document: object) -> object:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [json.dumps(document)])
        return json.loads(cursor.fetchone()[0])


@given(documents)
def test_what_is_told_is_what_is_stored(document: dict[str, object]) -> None:
    stored = as_the_database_gives_it(document)
    assert records.to_bytes(as_stored(document)) == records.to_bytes(as_stored(stored))


@pytest.mark.parametrize("number", [1e16, 1e22, 1.2345e25, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 100000.0])
def test_numbers_that_python_and_the_database_write_otherwise(number: float) -> None:
    stored = as_the_database_gives_it({"n": number})
    assert records.to_bytes(as_stored({"n": number})) == records.to_bytes(as_stored(stored))
