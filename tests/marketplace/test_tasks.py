from datetime import date, timedelta

import pytest
from django.utils import timezone

from marketplace.tasks import ledger_days_close, ledger_seal
from tenants.ledger import audit
from tenants.ledger.models import DaySheet
from tenants.scoping import scope_disabled
from tests.ledger.builders import grant, make_tenant


@pytest.mark.django_db(transaction=True)
def test_the_clock_seals_the_book_and_finds_nothing_to_do_the_second_time() -> None:
    with scope_disabled("a grant comes from outside"):
        make_tenant(funds=5)
    ledger_seal()
    first = audit.verify()
    ledger_seal()
    assert first.sealed > 0
    assert audit.verify().sealed == first.sealed
    assert not first.findings


@pytest.mark.django_db(transaction=True)
def test_the_clock_closes_the_days_that_are_over_and_leaves_old_ones_to_the_look_at_all() -> None:
    today = timezone.now()
    with scope_disabled("grants come from outside"):
        tenant = make_tenant()
        for days in (0, 1, 100):
            grant(tenant, 5, key=f"g{days}", at=today - timedelta(days=days))
    ledger_days_close()
    assert closed() == {(today - timedelta(days=1)).date()}
    ledger_days_close(everything=True)
    assert closed() == {(today - timedelta(days=days)).date() for days in (1, 100)}


def closed() -> set[date]:
    return set(DaySheet.objects.values_list("day", flat=True))
