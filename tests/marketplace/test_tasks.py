import pytest

from marketplace.tasks import ledger_seal
from tenants.ledger import audit
from tenants.scoping import scope_disabled
from tests.ledger.builders import make_tenant


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
