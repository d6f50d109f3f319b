"""Who may still listen is asked for many at once, and each hears what it would have heard alone."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenants import rechecks
from tenants.access import NOBODY, Access
from tenants.models import User
from tenants.rechecks import access_still
from tenants.roles import AUDITOR, OWNER, SUBMITTER
from tenants.selectors import Place, access_of, accesses_of, tenant_by_slug
from tests.tenants.builders import make_member, make_person, make_staff, make_tenant


def places() -> list[Place]:
    """Of everybody, at two tenants, at none, and at one that is not there."""
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    make_member(lumen, OWNER)
    both = make_member(lumen, SUBMITTER, make_person("both@example.org")).user
    make_member(castor, OWNER, both)
    make_staff(AUDITOR)
    make_person("nobody@example.org")
    User.objects.filter(pk=make_member(lumen, OWNER, make_person("gone@example.org")).user_id).update(is_active=False)
    people = [0, *User.objects.values_list("pk", flat=True)]
    return [(person, slug) for person in people for slug in ("lumen", "castor", "missing", None)]


def alone(place: Place) -> Access:
    person, slug = place
    tenant = tenant_by_slug(slug) if slug else None
    if slug and tenant is None:
        return NOBODY
    return access_of(User.objects.filter(pk=person).first(), tenant)


@pytest.mark.django_db
def test_each_has_the_access_that_it_would_have_alone_and_all_cost_four_statements() -> None:
    asked = places()
    with CaptureQueriesContext(connection) as queries:
        together = accesses_of(asked)
    assert len(queries) == 4
    assert together == {place: alone(place) for place in asked}
    assert len({access.roles for access in together.values()}) > 3


@pytest.mark.django_db(transaction=True)
def test_who_asks_in_the_same_moment_is_answered_by_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rechecks, "PAUSE_SECONDS", 0.0)
    asked, questions = places(), []

    def answer(these: set[Place]) -> dict[Place, Access]:
        questions.append(these)
        return accesses_of(these)

    monkeypatch.setattr(rechecks, "accesses_of", answer)

    async def story() -> list[Access]:
        leaves = asyncio.create_task(access_still(asked[0]))
        others = [asyncio.create_task(access_still(place)) for place in asked]
        leaves.cancel()
        return await asyncio.gather(*others)

    assert async_to_sync(story)() == [alone(place) for place in asked]
    assert questions == [set(asked)]


@pytest.mark.django_db(transaction=True)
def test_everybody_hears_that_the_question_failed_and_the_next_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rechecks, "PAUSE_SECONDS", 0.0)
    answers = [RuntimeError("no database"), {(0, None): NOBODY}]

    def answer(_: set[Place]) -> dict[Place, Access]:
        found = answers.pop(0)
        if isinstance(found, RuntimeError):
            raise found
        return found

    monkeypatch.setattr(rechecks, "accesses_of", answer)

    async def story() -> tuple[list[Access | BaseException], Access]:
        first = await asyncio.gather(access_still((0, None)), access_still((0, None)), return_exceptions=True)
        return first, await access_still((0, None))

    first, second = async_to_sync(story)()
    assert [str(each) for each in first] == ["no database"] * 2
    assert second == NOBODY
