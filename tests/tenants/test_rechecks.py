"""Who may still listen is asked for many at once, and each hears what it would have heard alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.contrib.sessions.models import Session
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from tenants.access import NOBODY, Access
from tenants.models import User
from tenants.requests import rechecks
from tenants.requests.rechecks import access_still
from tenants.roles import AUDITOR, OWNER, SUBMITTER
from tenants.selectors import Place, access_of, accesses_of, tenant_by_slug
from tenants.sessions import Login, login_of
from tests.tenants.builders import make_member, make_person, make_staff, make_tenant, session_of


def places() -> list[Place]:
    """Of everybody, at two tenants, at none, and at one that is not there."""
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    make_member(lumen, OWNER)
    both = make_member(lumen, SUBMITTER, make_person("both@example.org")).user
    make_member(castor, OWNER, both)
    make_staff(AUDITOR)
    make_person("nobody@example.org")
    logins = [None, Login(0, "no such session", ""), *[login_of(session_of(user)) for user in User.objects.all()]]
    leaver = make_member(lumen, OWNER, make_person("gone@example.org")).user
    logins.append(login_of(session_of(leaver)))
    User.objects.filter(pk=leaver.pk).update(is_active=False)
    return [(login, slug) for login in logins for slug in ("lumen", "castor", "missing", None)]


def alone(place: Place) -> Access:
    login, slug = place
    tenant = tenant_by_slug(slug) if slug else None
    if login is None or (slug and tenant is None):
        return NOBODY
    return access_of(User.objects.filter(pk=login.person).first(), tenant)


@pytest.mark.django_db
def test_each_has_the_access_that_it_would_have_alone_and_all_cost_five_statements() -> None:
    sessions = places()
    with CaptureQueriesContext(connection) as queries:
        together = accesses_of(sessions, timezone.now())
    assert len(queries) == 5
    assert together == {place: alone(place) for place in sessions}
    assert len({access.roles for access in together.values()}) > 3


def log_out(login: Login) -> None:
    Session.objects.filter(session_key=login.key).delete()


def expire(login: Login) -> None:
    Session.objects.filter(session_key=login.key).update(expire_date=timezone.now() - timedelta(seconds=1))


def another_password(login: Login) -> None:
    user = User.objects.get(pk=login.person)
    user.set_password("another good password 1")
    user.save()


ENDINGS = (log_out, expire, another_password)


@pytest.mark.django_db
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_session_that_has_ended_gives_no_access_and_others_still_do(ending: Callable[[Login], None]) -> None:
    lumen = make_tenant("lumen")
    user, colleague = make_member(lumen, OWNER).user, make_member(lumen, OWNER).user
    here, elsewhere, theirs = (login_of(session_of(each)) for each in (user, user, colleague))
    assert here is not None
    sessions = [(login, "lumen") for login in (here, elsewhere, theirs)]
    assert [access.user for access in accesses_of(sessions, timezone.now()).values()] == [user, user, colleague]
    ending(here)
    of_here = None if ending is another_password else user  # a new password ends all sessions of the person
    assert [access.user for access in accesses_of(sessions, timezone.now()).values()] == [None, of_here, colleague]


@pytest.mark.django_db
def test_a_session_is_of_its_own_person() -> None:
    lumen = make_tenant("lumen")
    user, colleague = make_member(lumen, OWNER).user, make_member(lumen, OWNER).user
    login = login_of(session_of(user))
    assert login is not None
    foreign = Login(colleague.pk, login.key, login.digest)
    assert accesses_of([(foreign, "lumen")], timezone.now()) == {(foreign, "lumen"): NOBODY}
    assert (login.key in repr(login), login.digest in repr(login)) == (False, False)  # they are not for logs


@pytest.mark.django_db(transaction=True)
def test_who_asks_in_the_same_moment_is_answered_by_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rechecks, "PAUSE_SECONDS", 0.0)
    sessions, questions = places(), []

    def answer(these: set[Place], at: datetime) -> dict[Place, Access]:
        questions.append(these)
        return accesses_of(these, at)

    monkeypatch.setattr(rechecks, "accesses_of", answer)

    async def story() -> list[Access]:
        leaves = asyncio.create_task(access_still(sessions[0]))
        others = [asyncio.create_task(access_still(place)) for place in sessions]
        leaves.cancel()
        return await asyncio.gather(*others)

    assert async_to_sync(story)() == [alone(place) for place in sessions]
    assert questions == [set(sessions)]


@pytest.mark.django_db(transaction=True)
def test_everybody_hears_that_the_question_failed_and_the_next_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rechecks, "PAUSE_SECONDS", 0.0)
    answers = [RuntimeError("no database"), {(None, None): NOBODY}]

    def answer(_: set[Place], at: datetime) -> dict[Place, Access]:
        result = answers.pop(0)
        if isinstance(result, RuntimeError):
            raise result
        return result

    monkeypatch.setattr(rechecks, "accesses_of", answer)

    async def story() -> tuple[list[Access | BaseException], Access]:
        first = await asyncio.gather(access_still((None, None)), access_still((None, None)), return_exceptions=True)
        return first, await access_still((None, None))

    first, second = async_to_sync(story)()
    assert [str(each) for each in first] == ["no database"] * 2
    assert second == NOBODY


@pytest.mark.django_db
def test_a_session_of_before_a_new_secret_lasts_as_long_as_the_old_secret_is_known(settings: Settings) -> None:
    user, old = make_member(make_tenant("lumen"), OWNER).user, settings.SECRET_KEY
    place = login_of(session_of(user)), "lumen"
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 50, ["another" * 10, old]
    assert accesses_of({place}, timezone.now())[place].user == user
    settings.SECRET_KEY_FALLBACKS = ["another" * 10]
    assert accesses_of({place}, timezone.now())[place] == NOBODY
    settings.SECRET_KEY_FALLBACKS = [old]
    user.set_password("another one, and a long one")
    user.save(update_fields=["password"])
    assert accesses_of({place}, timezone.now())[place] == NOBODY
