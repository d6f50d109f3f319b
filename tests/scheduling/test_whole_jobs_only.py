"""A pool sells whole jobs: one that says it may be bought in pieces would be booked a part, and stop the market."""

from __future__ import annotations

import pytest

from scheduling.jobs.submission import InvalidJob, job_submit
from scheduling.models import TrainingJob
from scheduling.quotes.quotes import job_quote
from tenants.access import Access
from tenants.roles import OWNER
from tenants.scoping import scope
from tests.scheduling.builders import make_tenant
from tests.scheduling.live import SPEC, make_live_pool
from tests.scheduling.markets import at

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("lane", ["batch", "instant"])
def test_a_job_in_pieces_is_refused_by_its_field(lane: str) -> None:
    pool, tenant = make_live_pool(), make_tenant("guest")
    order = {"pool": pool, "name": "long", "spec": {**SPEC, "divisible": True}, "lane": lane, "at": at(pool, 0)}
    by = Access(user=None, tenant=tenant, roles=frozenset({OWNER}))
    for refusal in (job_submit(**order, by=by), job_quote(**order, by=by)):
        assert isinstance(refusal, InvalidJob)
        assert refusal.field == "divisible"
        assert "whole jobs" in refusal.sentence
    with scope(tenant):
        assert not TrainingJob.objects.exists()
