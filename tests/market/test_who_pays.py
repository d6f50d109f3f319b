"""Which awards pay for a slot is said by properties of a row, and by a condition of queries: both say the same."""

from __future__ import annotations

from itertools import product

import pytest
from django.db import IntegrityError, transaction

from scheduling.models import Award, AwardState, paying_for
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_pool, make_tenant
from tests.scheduling.live import fund, make_award

START, END = 2, 6
SETTLED = (AwardState.DONE, AwardState.ENDED)  # nothing is due any more of an award that is over


@pytest.mark.django_db
def test_row_and_query_name_the_same_awards_that_pay_for_a_slot() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    fund(lumen, 1)
    award, forms = make_award(pool, lumen, start=START, slots=END - START, charges=[[(None, 5)]] * (END - START)), 0
    for state, cut_at, pays_from in product(AwardState, (None, 2, 3, 4, 5, 6), (None, 3, 4, 5)):
        if state == AwardState.VOID and cut_at is None:
            continue  # the platform cuts an award short in a slot
        with scope_disabled("the test sets and reads whichever award there is"):
            try:
                with transaction.atomic():
                    Award.objects.update(state=state, cut_at=cut_at, pays_from=pays_from)
            except IntegrityError:
                continue  # the database has no such award
            row, forms = Award.objects.get(pk=award.pk), forms + 1
            for slot in range(row.paid_until if state in SETTLED else START - 1, END + 2):
                pays = row.start <= slot < row.paid_until and slot not in row.missed
                assert Award.objects.filter(paying_for(slot)).exists() == pays, (state, cut_at, pays_from, slot)
    assert forms > 40
