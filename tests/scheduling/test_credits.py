"""Credits from outside: granted once, by an operator, with a reason that stays."""

from __future__ import annotations

import pytest

from scheduling.services.credits import credits_grant
from tenants.access import Refused, access_of_system
from tenants.ledger.postings import Posted
from tenants.models import AuditEntry
from tenants.roles import OWNER
from tests.scheduling.builders import NOON, make_tenant
from tests.scheduling.live import book_is_sound, member, moment, money

pytestmark = pytest.mark.django_db

GRANT = {"amount": 5_000_000, "key": "invoice-7", "by": access_of_system("the tests"), "reason": "paid", "at": NOON}


def test_a_grant_can_be_spent_and_is_remembered() -> None:
    lumen = make_tenant("lumen")
    assert isinstance(credits_grant(tenant=lumen, **GRANT), Posted)
    assert money(lumen) == (5_000_000, 0, 0)
    entry = AuditEntry.objects.get(action="credits_grant")
    assert (entry.tenant, entry.reason, entry.after) == (lumen, "paid", {"amount": 5_000_000, "key": "invoice-7"})
    assert book_is_sound()


def test_the_same_key_grants_once_also_later() -> None:
    lumen = make_tenant("lumen")
    credits_grant(tenant=lumen, **GRANT)
    for at in (NOON, moment(9)):
        answer = credits_grant(tenant=lumen, **(GRANT | {"at": at}))
        assert isinstance(answer, Posted)
        assert answer.repeated
    assert money(lumen) == (5_000_000, 0, 0)
    assert AuditEntry.objects.filter(action="credits_grant").count() == 1


@pytest.mark.parametrize("change", [{"amount": 1}, {"tenant": "castor"}])
def test_the_same_key_for_another_grant_is_refused(change) -> None:
    lumen = make_tenant("lumen")
    credits_grant(tenant=lumen, **GRANT)
    other = {"tenant": lumen} | change
    other["tenant"] = make_tenant(other["tenant"]) if isinstance(other["tenant"], str) else other["tenant"]
    answer = credits_grant(**(GRANT | other))
    assert isinstance(answer, Refused)
    assert answer.code == "key_reused"


@pytest.mark.parametrize(
    ("code", "change"),
    [("invalid_amount", {"amount": 0}), ("invalid_amount", {"amount": -5}), ("reason_missing", {"reason": " "})],
)
def test_refuses_what_is_no_grant(code: str, change) -> None:
    lumen = make_tenant("lumen")
    answer = credits_grant(tenant=lumen, **(GRANT | change))
    assert isinstance(answer, Refused)
    assert money(lumen) == (0, 0, 0)
    assert answer.code == code


def test_a_tenants_owner_grants_itself_nothing() -> None:
    lumen = make_tenant("lumen")
    answer = credits_grant(tenant=lumen, **(GRANT | {"by": member(lumen, OWNER)}))
    assert isinstance(answer, Refused)
    assert answer.code == "not_allowed"
