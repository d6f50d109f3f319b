"""How it works: the example is decided by the core, moves with the reader's numbers, and adds up whatever they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduling.market.reads.example import BOUNDS, ExampleNumbers, example, numbers_read
from tenants.ledger.amounts import MICRO
from tenants.roles import AUDITOR, VIEWER
from tenants.words import WORDS
from tests.scheduling.builders import make_tenant
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db
example_numbers = st.builds(
    ExampleNumbers, **{name: st.integers(bound.least, bound.most) for name, bound in BOUNDS.items()}
)


def test_the_example_as_it_stands_in_the_page_without_numbers() -> None:
    page = example(ExampleNumbers())
    assert page.for_sale == 8
    assert [(round(job.paid / MICRO, 2), job.award.starts, job.award.ends) for job in page.jobs if job.award] == [
        (4.0, "12:00", "14:00"),
        (9.0, "13:00", "16:00"),
        (3.0, "14:00", "15:00"),
    ]
    assert [(job.alone.ends, job.alone.value) for job in page.jobs if job.alone] == [("18:00", 10.0), ("23:00", 8.0)]
    assert [hour.sold for hour in page.hours] == [4, 6, 2, 2]


@hypothesis_settings(max_examples=25)
@given(example_numbers)
def test_whatever_the_numbers_nobody_is_worse_off_than_alone_and_payments_are_earnings(numbers: ExampleNumbers) -> None:
    numbers, _ = numbers_read({name: str(getattr(numbers, name)) for name in BOUNDS})
    page = example(numbers)
    for job in page.jobs:
        if job.rents:
            assert job.surplus >= (job.alone.value if job.alone else 0) * MICRO - 1
    assert sum(total for _, _, total in page.earned) == page.together[1] == sum(job.paid for job in page.jobs)
    assert all(0 <= hour.sold <= page.for_sale for hour in page.hours)


@pytest.mark.parametrize("text", ["17", "-1", "1e3", "four", "\N{ARABIC-INDIC DIGIT FOUR}", "9" * 30])
def test_a_number_that_cannot_be_used_is_named_and_the_usual_one_stands(text: str) -> None:
    numbers, flaws = numbers_read({"mine": text, "hours": "3"})
    assert (numbers.mine, numbers.hours) == (ExampleNumbers().mine, 3)
    assert flaws == {"mine": "A whole number from 1 to 16."}


def test_no_more_can_be_busy_than_there_are() -> None:
    assert numbers_read({"mine": "2"}) == (ExampleNumbers(mine=2, busy=2), {})
    numbers, flaws = numbers_read({"mine": "2", "busy": "3"})
    assert (numbers.busy, list(flaws)) == (2, ["busy"])


def test_everybody_finds_the_pages_from_the_foot_of_every_page() -> None:
    lumen = make_tenant("lumen")
    for client, root in ((client_as(VIEWER, lumen), "/t/lumen/"), (client_as(AUDITOR, None), "/")):
        for address in ("how-it-works/", "how-it-works/?workers=16&hours=12&mine=oops", "glossary/"):
            html = client.get(root + address).content.decode()
            docs = "/api/v1/docs/" if root == "/" else f"{root}interface/"
            for link in (f"{root}how-it-works/", f"{root}glossary/", docs, "/readyz"):
                assert f'href="{link}"' in html
        part = client.get(f"{root}how-it-works/?part=lessons&worth=0").content.decode()
        assert "gets nothing" in part
        assert "<html" not in part


def test_every_question_mark_opens_a_sentence_of_the_one_list_which_the_glossary_begins_with() -> None:
    root = Path(settings.BASE_DIR)
    words = {
        word
        for file in (root / "templates").rglob("*.html")
        for word in re.findall(r'{% ask "([^"]+)" %}', file.read_text(encoding="utf-8"))
    }
    assert {"cell", "slot", "interval", "floor", "projected", "reward"} <= words <= set(WORDS)
    assert all(sentence.endswith(".") and sentence.count(". ") == 0 for sentence in WORDS.values())
    text = (root / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text.split("## First words", 1)[1].split("\n## ", 1)[0], re.M)
    assert dict(rows[2:]) == dict(WORDS)
    html = client_as(VIEWER, make_tenant("lumen")).get("/t/lumen/glossary/").content.decode()
    assert all(f'<dt id="{word.replace(" ", "-")}">' in html for word in WORDS)
