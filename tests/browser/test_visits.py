"""No page is forgotten by the tests that look at every page."""

from __future__ import annotations

from tests.browser import visits


def test_every_address_is_looked_at_or_has_no_page() -> None:
    assert visits.names() - visits.visited() - visits.NO_PAGE - visits.HALFWAY == set()


def test_no_line_is_about_an_address_that_is_gone() -> None:
    assert visits.visited() - visits.names() == set()
