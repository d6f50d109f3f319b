"""A tenant leaves for good, by the steps of docs/guide/operating.md, "When a tenant leaves"."""

from __future__ import annotations

import re
import uuid

import pytest
from django.test import Client
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.jobs.submission import job_submit
from scheduling.market.decide.promises import BelowPromise
from scheduling.models import Cell, JobState, TrainingJob
from scheduling.operator.cells import cells_change_of_tenant
from tenants import history, services
from tenants.access import Refused, access_of_system
from tenants.ledger.amounts import MICRO
from tenants.models import ApiToken, Invitation, Membership, Tenant
from tenants.roles import OPERATOR, OWNER, SUBMITTER
from tenants.scoping import scope, scope_disabled
from tests.scheduling.live import INSTANT, SPEC, book_is_sound, money
from tests.scheduling.markets import make_waiting
from tests.scheduling.pages import Story, client_of, story, text_of
from tests.tenants.builders import access, done, make_member, make_staff

pytestmark = pytest.mark.django_db
WHY = {"reason": "leaves by the contract of May"}
CELLS = {"by": access_of_system("test"), "cells": {}, **WHY}


def post(client: Client, path: str, **fields: object) -> str:
    return text_of(client.post(path, fields, secure=True, follow=True).content.decode())


def members(tenant: Tenant) -> dict[str, int]:
    with scope(tenant):
        return {row.user.email: row.pk for row in Membership.objects.select_related("user")}


def has_cells(market: Story) -> bool:
    with scope_disabled("the test looks at all owners"):
        return Cell.objects.filter(tenant=market.owner).exists()


def test_tenant_leaves_step_by_step() -> None:
    market = story(instant_policy=INSTANT)
    pool, lumen = market.pool, market.owner
    owner, submitter = make_member(lumen, OWNER), make_member(lumen, SUBMITTER)
    done(services.token_create(name="ci", scopes=["jobs:write"], by=access(submitter), at=timezone.now()))
    done(
        services.invitation_create(
            tenant=lumen, email="new@example.org", role=OWNER, by=access(owner), at=timezone.now()
        )
    )

    job = make_waiting(pool, lumen, 10.0)
    person = make_staff(OPERATOR).user
    operator, page = client_of(person), f"/t/{lumen.slug}/members/"

    # The operator becomes an owner: only owners and submitters cancel jobs, and a tenant keeps one owner.
    post(operator, f"/t/{lumen.slug}/invitations/", email=person.email, role=OWNER, **WHY)
    (invited,) = re.findall(r'name="invitation" value="(\d+)"', operator.get("/", secure=True).content.decode())
    post(operator, "/invitation/accept/", invitation=invited)
    assert person.email in members(lumen)

    # Nobody else is a member any more, nor comes back by an invitation; tokens end with their people.
    with scope(lumen):
        (open_one,) = Invitation.objects.filter(accepted_at=None, revoked_at=None).values_list("pk", flat=True)
    post(operator, f"/t/{lumen.slug}/invitations/{open_one}/revoke/", **WHY)
    for email, pk in members(lumen).items():
        if email != person.email:
            post(operator, f"{page}{pk}/remove/", **WHY)
    assert list(members(lumen)) == [person.email]
    assert not ApiToken.objects.filter(tenant=lumen, revoked_at=None).exists()
    refused = job_submit(pool=pool, name="one", spec=SPEC, lane="batch", by=access(submitter), at=timezone.now())
    assert isinstance(refused, Refused)

    # It rents and lends no more, and its jobs end.
    share = f"/t/{lumen.slug}/share/"
    version = re.search(r'name="version" value="([^"]*)"', operator.get(share, secure=True).content.decode())
    assert version
    fields = {"rent": "never", "lend": "keep", "plan": "keep", "budget": "", "budget_period": "month"}
    assert "Saved." in post(operator, share, **fields, version=version[1], **WHY)
    post(operator, f"/t/{lumen.slug}/jobs/{job.pk}/cancel/")
    with scope(lumen):
        assert TrainingJob.objects.get(pk=job.pk).state == JobState.CANCELLED

    # Its cells go back to the operator once what was promised on them is over.
    early = cells_change_of_tenant(pool=pool, tenant=lumen, at=timezone.now(), **CELLS)
    assert isinstance(early, BelowPromise), early
    pool_advance(pool_id=pool.pk, at=pool.slot_start(60))
    done(cells_change_of_tenant(pool=pool, tenant=lumen, at=timezone.now(), **CELLS))
    assert not has_cells(market)

    # All that it has is paid out, what it earned included, and nothing is on hold.
    available, held, earned = money(lumen)
    assert (earned > 0, held) == (True, 0)
    amount = f"{(available + earned) / MICRO:.6f}"
    credits = {"tenant": lumen.pk, "amount": amount, "direction": "withdraw", "key": uuid.uuid4(), **WHY}
    post(operator, "/operator/credits/", **credits)
    assert money(lumen) == (0, 0, 0)

    # The operator stays as the last owner, and all that happened stands in the book and the history.
    assert "at least one owner" in post(operator, f"/t/{lumen.slug}/leave/")
    assert list(members(lumen)) == [person.email]
    assert book_is_sound()
    assert isinstance(history.verify(), history.VerifiedHistory)
