"""Every sum that a page shows is the sum of what the page shows: a reader may take a pencil and add.

Columns of tables are added up to their foot, and columns of a row as `ROWS` says. Elsewhere the parts of a sum are
marked in the page: `data-sum="left+"` adds to the sum named left, `left-` takes from it, `left=` shows it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from html.parser import HTMLParser

import pytest

from tenants.roles import OPERATOR, OWNER
from tests.browser import visits
from tests.browser.world import traded_world
from tests.scheduling.pages import client_of

pytestmark = pytest.mark.django_db

NUMBER = re.compile(r"[+\u2212-]?[0-9]+(?:\.[0-9]+)?")
FACTOR = re.compile(r"([0-9]+(?:\.[0-9]+)?)[^0-9×]*×\s*([0-9]+(?:\.[0-9]+)?)")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
ROWS = [  # where a row has all of these columns
    ("Sum", {"Settled": 1, "Held": 1}),
    ("Together", {"Available": 1, "Held": 1, "Earned": 1}),
    ("Gain", {"Own jobs": 1, "Rented jobs": 1, "Paid": -1, "Received": 1}),
    ("Difference", {"Otherwise": 1, "As it was": -1}),
    ("More than alone", {"Got": 1, "Alone": -1}),
    ("I pay", {"Price": 1, "Own part": -1}),
    ("I pay", {"Price": 1, "Rounding": -1}),
]
# What is drawn again and again is estimated for all together by itself: the middle of sums is no sum of middles.
NO_SUMS = {"Winners and losers by owner"}


@dataclass
class Cell:
    label: str = ""
    column: int = 0
    text: str = ""

    @property
    def number(self) -> Decimal | None:
        match = NUMBER.search(re.sub(r"[\u202f\u00a0\s]", "", self.text))
        return Decimal(match[0].replace("\N{MINUS SIGN}", "-")) if match else None


@dataclass
class Table:
    name: str = ""
    rows: dict[str, list[list[Cell]]] = field(default_factory=lambda: {"tbody": [], "tfoot": [], "thead": []})


class Page(HTMLParser):
    """The tables of a page, and what it marks as parts of sums."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, Cell | None]] = []
        self.tables: list[Table] = []
        self.part = "tbody"
        self.column = 0
        self.sums: dict[str, list[tuple[str, Cell]]] = defaultdict(list)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        named = dict(attrs)
        cell = (
            Cell(named.get("data-h") or "", self.column)
            if tag in ("td", "th", "caption") or named.get("data-sum")
            else None
        )
        if tag == "table":
            self.tables.append(Table())
            self.part = "tbody"
        elif tag in ("thead", "tbody", "tfoot"):
            self.part = tag
        elif tag == "tr" and self.tables:
            self.tables[-1].rows[self.part].append([])
            self.column = 0
        elif tag in ("td", "th") and cell and self.tables:
            self.tables[-1].rows[self.part][-1].append(cell)
            self.column += int(named.get("colspan") or 1)
        for token in (named.get("data-sum") or "").split():
            assert cell is not None
            self.sums[token[:-1]].append((token[-1], cell))
        self.open.append((tag, cell))

    def handle_endtag(self, tag: str) -> None:
        while self.open:
            name, cell = self.open.pop()
            if name == "caption" and cell and self.tables:
                self.tables[-1].name = cell.text.strip()
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        for _, cell in self.open:
            if cell is not None:
                cell.text += data


def wrong_sums(html: str) -> Iterator[str]:
    page = Page()
    page.feed(html)
    for table in page.tables:
        yield from (f"{table.name}: {line}" for line in wrong_in(table))
    for name, parts in page.sums.items():
        signs = {"+": 1, "-": -1, "=": -1}
        difference = sum((signs[sign] * (cell.number or 0) for sign, cell in parts), Decimal(0))
        if difference or not any(sign == "=" for sign, _ in parts):
            yield f"{name}: {' '.join(sign + cell.text.strip() for sign, cell in parts)}"


def wrong_in(table: Table) -> Iterator[str]:
    """The rows of the foot are one sum, the sums of parts of the rows, or a sum and a difference of nothing."""
    if table.name in NO_SUMS:
        return
    body = table.rows["tbody"]
    foot = [row for row in table.rows["tfoot"] if not any(cell.text.strip() == "Opened" for cell in row)]
    for place in sorted({(cell.column, cell.label) for row in foot for cell in row if cell.number is not None}):
        total, below = (sum(numbers_in(rows, *place), Decimal(0)) for rows in (body, foot))
        if place[1] and total != below:
            yield f"{place[1]}: {total} below which stands {below}"
    for row in body + foot:
        numbers = {cell.label: cell.number or Decimal(0) for cell in row if cell.label}
        costs = next((cell for cell in row if cell.label == "Units × price"), None)
        if costs is not None and "Price" in numbers and product(costs) != numbers["Price"]:
            yield f"{row[0].text.strip()}: {costs.text.strip()} is {product(costs)} and shown as {numbers['Price']}"
        for name, parts in ROWS:
            if name in numbers and set(parts) <= set(numbers):
                total = sum(sign * numbers[part] for part, sign in parts.items())
                if total != numbers[name] and any(numbers[part] for part in parts):
                    yield f"{row[0].text.strip()}: {name} is {total} and shown as {numbers[name]}"


def product(cell: Cell) -> Decimal:
    """Of "4 workers × 0.25 + 1 parameter server × 0.1", to the micro-credit."""
    factors = FACTOR.findall(re.sub(r"[\u202f\u00a0]", "", cell.text))
    return sum((Decimal(units) * Decimal(price) for units, price in factors), Decimal(0)).quantize(
        Decimal("0.000001"), ROUND_HALF_UP
    )


def numbers_in(rows: list[list[Cell]], column: int, label: str) -> list[Decimal]:
    cells = [cell for row in rows for cell in row if (cell.column, cell.label) == (column, label)]
    return [cell.number for cell in cells if cell.number is not None]


def test_checker_finds_a_sum_that_does_not_add_up() -> None:
    row = '<tr><th>a</th><td data-h="Paid">0.005</td></tr>'
    table = f'<table><tbody>{row}{row}</tbody><tfoot><tr><th>Sum</th><td data-h="Paid">{{}}</td></tr></tfoot></table>'
    assert list(wrong_sums(table.format("0.010"))) == []
    assert len(list(wrong_sums(table.format("0.02")))) == 1
    marked = '<dd data-sum="left+">17.07</dd><dd data-sum="left+">\u22120.73</dd><b data-sum="left= gain+">{}</b>'
    assert len(list(wrong_sums(marked.format("16.33")))) == 2  # and nothing shows the gain
    assert len(list(wrong_sums(marked.format("16.34")))) == 1


@pytest.mark.wide
def test_every_table_of_every_page_adds_up() -> None:
    world = traded_world()
    wrong, added = [], 0
    for role in (OWNER, OPERATOR):
        client = client_of(world.people[role])
        for path in visits.addresses(world.places, role):
            answer = client.get(path, secure=True)
            if answer.status_code != 200 or answer.streaming or "html" not in answer.headers["Content-Type"]:
                continue
            html = answer.content.decode()
            added += html.count("data-sum=") + html.count("<tfoot")
            wrong += [f"{path}: {line}" for line in wrong_sums(html)]
    assert added > 50
    assert not wrong, "\n".join(wrong)
