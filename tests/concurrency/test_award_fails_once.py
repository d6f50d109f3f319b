"""An engine that is heard twice at once: the award fails once, and is refunded once."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from scheduling.runs.failures import AwardFailed, award_fail
from tenants.ledger.selectors import transactions_about
from tenants.scoping import scope_disabled
from tests.patience import PATIENCE
from tests.scheduling.builders import make_server, make_tenant
from tests.scheduling.live import again, book_is_sound, enter, events, fund, make_award, make_live_pool, moment, money

pytestmark = pytest.mark.django_db(transaction=True)

TELLERS = 6


def test_told_by_many_at_once_an_award_fails_once() -> None:
    pool, lumen, castor = make_live_pool(), make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, "s01", worker=8, ps=2)
    fund(lumen)
    charges = [[(castor, 10)]] * 5
    award = make_award(pool, lumen, slots=5, charges=charges, allocation=[[server.pk, 0, 5, 4, 1]], state="running")
    enter(award)
    answers: list[object] = []
    start = threading.Barrier(TELLERS)

    def tell(slot: int) -> None:
        try:
            start.wait(timeout=PATIENCE)
            answers.append(award_fail(award_id=award.pk, slot=slot, detail="out of disk", at=moment(2.5)))
        finally:
            connection.close()

    threads = [threading.Thread(target=tell, args=(2,)) for _ in range(TELLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert len(answers) == TELLERS
    assert all(isinstance(answer, AwardFailed) and answer.refunded == 30 for answer in answers), answers
    assert sorted(answer.repeated for answer in answers if isinstance(answer, AwardFailed)) == [False] + [True] * 5
    assert money(lumen) == (1_000_000_000 - 20, 20, 0)
    with scope_disabled("the test looks at the refund"):
        refunds = [t for t in transactions_about(subject=f"job:{award.job_id}") if t.kind == "refund"]
    assert len(refunds) == 1
    assert again(award.job).attempt == 1
    assert len(events("job_requeued")) == 1
    assert book_is_sound()
