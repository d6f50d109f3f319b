"""Tables: sorting, paging without gaps or repeats, and the export of all that the filter lets through."""

from __future__ import annotations

import base64
import csv
import io
from decimal import Decimal

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from tenants.models import Tenant
from tenants.views.places import Place, place_read, place_write
from tenants.views.tables import Column, Table, csv_response, table_of

COLUMNS = (Column("slug", "Slug", order="slug"), Column("name", "Name", order="name"), Column("plain", "Plain"))
INVENTED = "?after=" + place_write(Place("Name 1", "no number"))
TABLE = Table(COLUMNS, sort="name", rows=3)


def page(query: str, rows=None, table: Table = TABLE):
    return table_of(RequestFactory().get(f"/{query}"), Tenant.objects.all() if rows is None else rows, table)


def walk(query: str, table: Table = TABLE) -> list[list[str]]:
    """The slugs of every page, by its own links."""
    pages = []
    for _ in range(20):
        rows_page = page(query, table=table)
        pages.append([row.slug for row in rows_page.rows])
        if not rows_page.next:
            return pages
        query = rows_page.next
    raise AssertionError("the pages do not end")


@pytest.fixture
def tenants(db: None) -> None:
    for number in range(8):
        Tenant.objects.create(slug=f"t{number}", name=f"Name {number % 3}")


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize("sort", ["name", "-name", "slug", "-slug"])
def test_pages_hold_every_row_once_in_order(sort: str) -> None:
    pages = walk(f"?sort={sort}")
    assert [len(rows) for rows in pages] == [3, 3, 2]
    rows = list(Tenant.objects.all())
    name = sort.removeprefix("-")
    expected = sorted(rows, key=lambda row: (getattr(row, name), row.pk), reverse=sort.startswith("-"))
    assert [slug for part in pages for slug in part] == [row.slug for row in expected]


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize("sort", ["name", "-name"])
def test_previous_page_is_the_one_it_came_from(sort: str) -> None:
    first = page(f"?sort={sort}")
    second = page(first.next)
    third = page(second.next)
    assert [row.slug for row in page(third.previous).rows] == [row.slug for row in second.rows]
    assert [row.slug for row in page(second.previous).rows] == [row.slug for row in first.rows]
    assert not first.previous


@pytest.mark.django_db
@pytest.mark.parametrize("sort", ["name", "-name"])
def test_rows_without_a_value_come_last_and_are_not_lost(sort: str) -> None:
    from django.db.models import Case, CharField, Value, When

    for number in range(7):
        Tenant.objects.create(slug=f"t{number}", name=f"N{number}")
    expression = Case(When(slug__gte="t4", then=Value(None)), default="name", output_field=CharField())
    rows = Tenant.objects.annotate(shown=expression)
    table = Table((Column("name", "Name", order="shown"),), sort="name", rows=2)
    query, names, back = f"?sort={sort}", [], ""
    for _ in range(10):
        answer = page(query, rows, table)
        names += [row.slug for row in answer.rows]
        back, query = answer.previous, answer.next
        if not query:
            break
    up = ["t0", "t1", "t2", "t3"]
    assert names == ([*up, "t4", "t5", "t6"] if sort == "name" else [*up[::-1], "t6", "t5", "t4"])
    assert [row.slug for row in page(back, rows, table).rows] == names[4:6]


@pytest.mark.usefixtures("tenants")
def test_a_row_that_comes_in_neither_repeats_nor_hides_others() -> None:
    first = page("?sort=slug")
    Tenant.objects.create(slug="a", name="earlier")
    assert [row.slug for row in page(first.next).rows] == ["t3", "t4", "t5"]


@pytest.mark.usefixtures("tenants")
def test_headers_say_how_it_is_sorted_and_links_keep_the_filter() -> None:
    rows_page = page("?sort=-name&state=queued&after=x&part=list")
    assert [header.aria_sort for header in rows_page.headers] == ["none", "descending", ""]
    assert rows_page.headers[0].link == "?state=queued&sort=slug"
    assert rows_page.headers[1].link == "?state=queued&sort=name"
    assert rows_page.export == "?state=queued&sort=-name&format=csv"


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize("query", ["?sort=password", "?after=%00", "?after=bm8", INVENTED, "?before=e30"])
def test_an_address_that_asks_for_nonsense_gets_a_first_page(query: str) -> None:
    assert [row.slug for row in page(query).rows] == ["t0", "t3", "t6"]


@pytest.mark.usefixtures("tenants")
def test_export_holds_all_rows_and_runs_nothing_that_somebody_typed() -> None:
    Tenant.objects.create(slug="evil", name="=1+1")
    columns = (COLUMNS[0], COLUMNS[1], Column("id", "Number", value=lambda row: 5))
    answer = csv_response(RequestFactory().get("/?sort=slug"), Tenant.objects.all(), Table(columns, sort="name"))
    rows = list(csv.reader(io.StringIO(answer.getvalue().decode())))
    assert rows[0] == ["Slug", "Name", "Number"]
    assert rows[1] == ["evil", "'=1+1", "5"]
    assert len(rows) == 10


@given(
    st.one_of(
        st.none(),
        st.integers(-(2**62), 2**62),
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=50),
        st.datetimes(),
        st.dates(),
    )
)
def test_a_place_survives_its_address(value: object) -> None:
    assert place_read(place_write(Place(value, 7))) == Place(value, 7)


@pytest.mark.parametrize("number", ['["n","1e99999999"]', '["n","NaN"]', "Infinity", "NaN", "1e300"])
def test_a_number_that_no_column_holds_is_no_place(number: str) -> None:
    """To make a whole number of the first would take hours, in which the process answers nobody."""
    for text in (f'[["s","a"],{number}]', f"[{number},1]"):
        assert place_read(base64.urlsafe_b64encode(text.encode()).decode()) is None


@pytest.mark.parametrize("text", ["12.50", "-7", "0E-9", "1E+3"])
def test_a_decimal_survives_its_address_with_its_digits_written_out(text: str) -> None:
    place = place_read(place_write(Place(Decimal(text), 7)))
    assert place is not None
    assert place.value == Decimal(text)


@given(st.text(max_size=60))
def test_any_text_is_a_place_or_none(text: str) -> None:
    assert place_read(text) is None or isinstance(place_read(text), Place)


@pytest.mark.django_db
def test_form_for_narrow_screens_offers_each_order_and_keeps_the_filter() -> None:
    sorting = page("?sort=-slug&q=a&q=b&after=xx&format=html", rows=Tenant.objects.none()).sorting
    assert sorting.choices == (
        ("slug", "Slug, rising"),
        ("-slug", "Slug, falling"),
        ("name", "Name, rising"),
        ("-name", "Name, falling"),
    )
    assert sorting.choice == "-slug"
    assert sorting.parameters == (("q", "a"), ("q", "b"))


@pytest.mark.django_db
def test_form_offers_the_order_at_first_where_no_column_has_it() -> None:
    table = Table(COLUMNS, rows=3)
    first = page("", rows=Tenant.objects.none(), table=table).sorting
    assert (first.choices[0], first.choice) == (("", "as they stand"), "")
    assert page("?sort=name", rows=Tenant.objects.none(), table=table).sorting.choice == "name"
    assert page("", rows=Tenant.objects.none(), table=Table((Column("plain", "Plain"),))).sorting.choices == ()


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize("number", range(4))
def test_every_order_that_the_form_offers_sorts(number: int) -> None:
    order, _ = page("").sorting.choices[number]
    rows = page(f"?sort={order}").rows
    name = order.removeprefix("-")
    assert [getattr(row, name) for row in rows] == sorted(
        (getattr(row, name) for row in Tenant.objects.all()), reverse=order.startswith("-")
    )[:3]
