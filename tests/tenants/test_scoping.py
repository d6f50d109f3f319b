"""A tenant's rows cannot be reached outside an open scope, by any road."""

from __future__ import annotations

import ast
import asyncio
import threading
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from django.contrib.sessions.backends.base import SessionBase
from django.core.checks import run_checks
from django.db import connection, models, transaction
from django.db.models import Count, ProtectedError
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory
from django.test.utils import isolate_apps
from django.urls import path

from tenants.access import Access
from tenants.checks import tenant_owned_models_are_closed
from tenants.models import Invitation, Membership, Tenant, User
from tenants.requests.entrypoints import TenantConsumer
from tenants.requests.middleware import tenant_scope
from tenants.roles import OWNER, SUBMITTER, VIEWER
from tenants.scoping import ForeignTenant, ScopeClosed, ScopeError, TenantOwned, scope, scope_current, scope_disabled
from tests.patience import PATIENCE
from tests.sources import trees
from tests.tenants.builders import NOW, client_of, make_member, make_person, make_tenant, session_of

ROOT = Path(__file__).resolve().parents[2]


def invitation(tenant: Tenant | None, by: User, number: int = 1) -> Invitation:
    return Invitation(
        tenant=tenant,
        email=f"guest{number}@example.org",
        role=VIEWER,
        token_hash=f"{tenant and tenant.pk}-{number}",
        created_at=NOW,
        expires_at=NOW,
        invited_by=by,
    )


CLOSED_ROADS = {
    "all": lambda: list(Membership.objects.all()),
    "none": lambda: list(Membership.objects.none()),
    "filter": lambda: Membership.objects.filter(role=OWNER).exists(),
    "get": lambda: Membership.objects.get(pk=1),
    "count": lambda: Membership.objects.count(),
    "aggregate": lambda: Membership.objects.aggregate(Count("pk")),
    "update": lambda: Membership.objects.update(role=VIEWER),
    "delete": lambda: Membership.objects.all().delete(),
    "create": lambda: Membership.objects.create(tenant_id=1, user_id=1, role=VIEWER),
    "save": lambda: Membership(tenant_id=1, user_id=1, role=VIEWER).save(),
    "save_update": lambda: Membership(pk=1, tenant_id=1, user_id=1, role=VIEWER).save(force_update=True),
    "instance_delete": lambda: Membership(pk=1, tenant_id=1, user_id=1, role=VIEWER).delete(),
    "refresh": lambda: Membership(pk=1, tenant_id=1, user_id=1).refresh_from_db(),
    "bulk_create": lambda: Membership.objects.bulk_create([Membership(tenant_id=1, user_id=1, role=VIEWER)]),
    "bulk_update": lambda: Membership.objects.bulk_update([Membership(pk=1, role=VIEWER)], ["role"]),
    "get_or_create": lambda: Membership.objects.get_or_create(tenant_id=1, user_id=1),
    "update_or_create": lambda: Membership.objects.update_or_create(tenant_id=1, user_id=1),
    "in_bulk": lambda: Membership.objects.in_bulk([1]),
    "raw": lambda: list(Membership.objects.raw("SELECT * FROM tenants_membership")),
    "default_manager": lambda: list(Membership._default_manager.all()),
    "base_manager": lambda: list(Membership._base_manager.all()),
    "validate_unique": lambda: Membership(tenant_id=1, user_id=1, role=VIEWER).validate_constraints(),
}


@pytest.mark.django_db
@pytest.mark.parametrize("road", CLOSED_ROADS)
def test_every_road_is_closed_outside_a_scope(road: str) -> None:
    with pytest.raises(ScopeClosed):
        CLOSED_ROADS[road]()


@pytest.fixture
def two(db) -> tuple[Membership, Membership]:
    return make_member(make_tenant("one"), OWNER), make_member(make_tenant("two"), OWNER)


def test_scope_shows_one_tenants_rows_only(two) -> None:
    mine, theirs = two
    with scope(mine.tenant):
        assert list(Membership.objects.all()) == [mine]
        assert list(Membership._base_manager.all()) == [mine]
        assert Membership.objects.aggregate(rows=Count("pk")) == {"rows": 1}
        assert Membership.objects.in_bulk([mine.pk, theirs.pk]) == {mine.pk: mine}
        assert not Membership.objects.filter(tenant=theirs.tenant).exists()
        with pytest.raises(Membership.DoesNotExist):
            Membership.objects.get(pk=theirs.pk)
        with pytest.raises(Membership.DoesNotExist):
            theirs.refresh_from_db()


def test_scope_changes_one_tenants_rows_only(two) -> None:
    mine, theirs = two
    with scope(mine.tenant):
        assert Membership.objects.update(role=SUBMITTER) == 1
        assert Membership.objects.filter(pk=theirs.pk).delete()[0] == 0
        assert Membership.objects.bulk_update([Membership(pk=theirs.pk, role=VIEWER)], ["role"]) == 0
    with scope(theirs.tenant):
        assert Membership.objects.get().role == OWNER


def test_new_row_belongs_to_the_open_tenant(two) -> None:
    mine, _ = two
    with scope(mine.tenant):
        row = Membership.objects.create(user=make_person(), role=VIEWER)
        assert row.tenant_id == mine.tenant_id
        assert Membership.objects.get(pk=row.pk).tenant == mine.tenant


def test_row_for_another_tenant_is_refused_however_it_is_written(two) -> None:
    mine, theirs = two
    guest = make_person()
    foreign = {"tenant": theirs.tenant, "user": guest, "role": VIEWER}
    with scope(mine.tenant):
        for write in (
            lambda: Membership.objects.create(**foreign),
            lambda: Membership(**foreign).save(),
            lambda: Membership.objects.bulk_create([Membership(**foreign)]),
            lambda: Membership.objects.get_or_create(**foreign),
            lambda: Membership.objects.update_or_create(**foreign),
            lambda: theirs.delete(),
            lambda: theirs.save(),
            lambda: Membership.objects.update(tenant=theirs.tenant),
        ):
            with pytest.raises(ForeignTenant), transaction.atomic():
                write()
    with scope_disabled("look at both"):
        assert Membership.objects.count() == 2


def test_row_never_moves_to_another_tenant(two) -> None:
    mine, theirs = two
    with scope(mine.tenant):
        mine.tenant = theirs.tenant
        with pytest.raises(ForeignTenant):
            mine.save()
    with scope_disabled("even here"), pytest.raises(ForeignTenant):
        Membership.objects.update(tenant_id=theirs.tenant_id)


def test_queryset_keeps_the_tenant_it_was_made_under(two) -> None:
    mine, theirs = two
    with scope(mine.tenant):
        rows = Membership.objects.order_by("pk")
    with scope(theirs.tenant):
        assert list(rows) == [mine]
        assert list(rows.all()) == [mine]


def test_no_join_leads_from_a_global_model_to_tenants_rows() -> None:
    for model in (Tenant, User):
        reverse = [field.name for field in model._meta.get_fields() if field.auto_created and not field.concrete]
        owned = {field.related_model for field in model._meta.get_fields() if field.is_relation}
        assert not any(issubclass(related, TenantOwned) for related in owned if isinstance(related, type)), reverse


def test_tenant_and_member_cannot_be_deleted_around_the_scope(two) -> None:
    mine, _ = two
    with pytest.raises(ScopeClosed):
        mine.tenant.delete()
    with scope(mine.tenant), pytest.raises(ProtectedError):
        mine.user.delete()


def test_other_tenant_cannot_be_opened_inside_an_open_scope(two) -> None:
    mine, theirs = two
    with scope(mine.tenant):
        with scope(mine.tenant):
            pass
        with pytest.raises(ForeignTenant), scope(theirs.tenant):
            pass
        assert scope_current().tenant_id == mine.tenant_id


def test_scope_closes_when_its_block_fails(two) -> None:
    mine, _ = two
    with pytest.raises(ZeroDivisionError), scope(mine.tenant):
        raise ZeroDivisionError
    with pytest.raises(ScopeClosed):
        scope_current()


def test_scope_of_an_unsaved_tenant_does_not_open() -> None:
    with pytest.raises(ScopeClosed), scope(Tenant(slug="new")):
        pass


def test_disabling_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"), scope_disabled(" "):
        pass


def test_new_thread_starts_closed() -> None:
    states: list[str] = []

    def look() -> None:
        try:
            scope_current()
        except ScopeClosed:
            states.append("closed")

    with scope(1):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(timeout=PATIENCE)
    assert states == ["closed"]


def test_concurrent_tasks_keep_their_own_scopes() -> None:
    async def one(tenant_id: int, opened: asyncio.Barrier) -> tuple[int | None, int | None]:
        with scope(tenant_id):
            await opened.wait()  # all scopes are open at once from here on
            in_thread = await sync_to_async(lambda: scope_current().tenant_id)()
            return scope_current().tenant_id, in_thread

    async def all_of_them() -> list[tuple[int | None, int | None]]:
        opened = asyncio.Barrier(5)
        return await asyncio.gather(*(one(number, opened) for number in range(1, 6)))

    assert async_to_sync(all_of_them)() == [(number, number) for number in range(1, 6)]
    with pytest.raises(ScopeClosed):
        scope_current()


@pytest.mark.django_db
def test_asynchronous_query_obeys_the_scope() -> None:
    mine, _ = make_member(make_tenant("one"), OWNER), make_member(make_tenant("two"), OWNER)

    async def read() -> list[Membership]:
        with scope(mine.tenant):
            return [row async for row in Membership.objects.all()]

    async def count() -> int:
        return await Membership.objects.acount()

    assert async_to_sync(read)() == [mine]
    with pytest.raises(ScopeClosed):
        async_to_sync(count)()


class MembersSocket(TenantConsumer, AsyncWebsocketConsumer):
    recheck_seconds = 0.0

    async def receive(self, text_data=None, bytes_data=None) -> None:
        rows = await sync_to_async(lambda: list(Membership.objects.values_list("pk", flat=True)))()
        await self.send(text_data=str(rows))


ROUTES = URLRouter([path("ws/<slug:tenant_slug>/", MembersSocket.as_asgi())])


def socket_of(session: SessionBase | None, slug: str) -> ApplicationCommunicator:
    return ApplicationCommunicator(ROUTES, {"type": "websocket", "path": f"/ws/{slug}/", "session": session})


async def answer(socket: ApplicationCommunicator, message: dict[str, object]) -> dict[str, object]:
    await socket.send_input(message)
    return await socket.receive_output(timeout=PATIENCE)


CONNECT: dict[str, object] = {"type": "websocket.connect"}
ASK: dict[str, object] = {"type": "websocket.receive", "text": "?"}


@pytest.mark.django_db(transaction=True)  # channels closes the connection of an open transaction
@pytest.mark.parametrize("what_ends", ["membership", "session", "password"])
def test_socket_hears_its_own_tenant_until_the_membership_or_the_session_ends(what_ends: str) -> None:
    mine = make_member(make_tenant("one"), OWNER)
    make_member(make_tenant("two"), OWNER)
    client = client_of(mine.user)
    session = client.session

    def leave() -> None:
        if what_ends == "session":
            client.logout()
        elif what_ends == "password":
            mine.user.set_password("another good password 1")
            mine.user.save()
        else:
            with scope(mine.tenant):
                Membership.objects.get().delete()

    async def story() -> list[dict[str, object]]:
        socket = socket_of(session, "one")
        answers = [await answer(socket, CONNECT), await answer(socket, ASK)]
        await sync_to_async(leave)()
        return [*answers, await answer(socket, ASK)]

    accepted, message, closed = async_to_sync(story)()
    assert accepted["type"] == "websocket.accept"
    assert message["text"] == str([mine.pk])
    assert (closed["type"], closed["code"]) == ("websocket.close", 4404)


@pytest.mark.django_db(transaction=True)  # channels closes the connection of an open transaction
@pytest.mark.parametrize("slug", ["two", "no-such-tenant"])
def test_socket_of_another_tenant_is_closed_before_it_opens(slug: str) -> None:
    mine = make_member(make_tenant("one"), OWNER)
    make_tenant("two")

    for session in (session_of(mine.user), None):
        closed = async_to_sync(answer)(socket_of(session, slug), CONNECT)
        assert (closed["type"], closed["code"]) == ("websocket.close", 4404)


def members_page(request) -> HttpResponse:
    return HttpResponse(str(list(Membership.objects.values_list("pk", flat=True))))


def members_stream(request) -> StreamingHttpResponse:
    return StreamingHttpResponse(str(row.pk) for row in Membership.objects.all())


def members_late_stream(request) -> StreamingHttpResponse:
    def rows():
        yield from (str(pk) for pk in Membership.objects.values_list("pk", flat=True))

    return StreamingHttpResponse(rows())


@pytest.mark.parametrize("view", [members_page, members_stream, members_late_stream])
def test_request_has_its_scope_until_the_last_byte_and_no_longer(two, view) -> None:
    mine, _ = two
    request = RequestFactory().get("/t/one/members/")
    request.user = mine.user
    response = tenant_scope(view)(request)
    assert str(mine.pk).encode() in response.getvalue()
    with pytest.raises(ScopeClosed):
        scope_current()


@pytest.mark.django_db
def test_asynchronous_request_has_its_scope_until_the_last_byte() -> None:
    mine = make_member(make_tenant("one"), OWNER)
    make_member(make_tenant("two"), OWNER)

    async def pieces():
        async for row in Membership.objects.all():
            yield str(row.pk)

    async def view(request) -> StreamingHttpResponse:
        return StreamingHttpResponse(pieces())

    async def story() -> str:
        request = RequestFactory().get("/t/one/members/")
        request.user = mine.user
        response = await tenant_scope(view)(request)
        return b"".join([piece async for piece in response]).decode()

    assert async_to_sync(story)() == str(mine.pk)


def test_request_outside_a_tenants_address_has_no_scope(two) -> None:
    mine, _ = two
    request = RequestFactory().get("/tenants/")
    request.user = mine.user
    with pytest.raises(ScopeClosed):
        tenant_scope(members_page)(request)
    assert isinstance(request.access, Access)
    assert request.access.tenant is None


def test_the_database_holds_no_more_than_one_tenants_rows_in_the_question(two, django_assert_num_queries) -> None:
    """The filter is in the SQL, not in Python: nothing of another tenant leaves the database."""
    mine, _ = two
    with scope(mine.tenant), django_assert_num_queries(1) as captured:
        list(Membership.objects.select_related("user"))
    assert f'"tenants_membership"."tenant_id" = {mine.tenant_id}' in captured[0]["sql"]
    assert connection.vendor == "postgresql"


@isolate_apps("tenants")
def test_model_that_can_be_read_around_the_scope_does_not_start(monkeypatch) -> None:
    class Leaky(TenantOwned):
        user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="leaks")
        everything = models.Manager()

        class Meta(TenantOwned.Meta):
            app_label = "tenants"

    monkeypatch.setattr("tenants.checks.apps.get_models", lambda: [Leaky])
    assert {problem.id for problem in tenant_owned_models_are_closed()} == {"tenants.E001", "tenants.E002"}


def test_models_of_the_product_pass_the_check() -> None:
    assert [problem for problem in run_checks() if str(problem.id).startswith("tenants.")] == []


# Every place that may look at all tenants, and how often. A new one is a decision: read it, then write it here.
MAY_SEE_ALL = {
    "marketplace/upkeep/doctor.py": 1,
    "marketplace/upkeep/health.py": 1,
    "marketplace/tasks.py": 1,
    "scheduling/app/past.py": 2,
    "scheduling/catalogue/forgetting.py": 1,
    "scheduling/jobs/projections.py": 1,
    "scheduling/quotes/plans.py": 1,
    "scheduling/lab/rounds.py": 1,
    "scheduling/learner/working.py": 1,
    "scheduling/market/reads/anonymous.py": 1,
    "scheduling/market/reads/awards.py": 1,
    "scheduling/market/reads/bookings.py": 1,
    "scheduling/money/read_credits.py": 1,
    "scheduling/fairness/read_days.py": 1,
    "scheduling/fairness/read_interval.py": 1,
    "scheduling/operator/read_gauges.py": 1,
    "scheduling/market/reads/market.py": 1,
    "scheduling/operator/read_engines.py": 3,
    "scheduling/operator/read_operator.py": 3,
    "scheduling/market/reads/payments.py": 1,
    "scheduling/market/reads/share.py": 2,
    "scheduling/market/reads/share_units.py": 1,
    "scheduling/what_if/read_jobs.py": 1,
    "scheduling/audit/rounds.py": 2,
    "scheduling/audit/requests.py": 1,
    "scheduling/audit/bundle/writing.py": 1,
    "scheduling/audit/archiving.py": 1,
    "tenants/services/claims.py": 2,
    "scheduling/operator/cells.py": 2,
    "scheduling/app/clock.py": 1,
    "scheduling/money/credits.py": 3,
    "scheduling/demo/demo.py": 1,
    "scheduling/runs/failures.py": 2,
    "scheduling/fairness/intervals.py": 1,
    "scheduling/fairness/days.py": 1,
    "scheduling/audit/feed_seals.py": 1,
    "scheduling/jobs/fitting.py": 1,
    "scheduling/market/decide/dependents.py": 1,
    "scheduling/market/decide/instant.py": 1,
    "scheduling/market/decide/interval.py": 2,
    "scheduling/operator/loss_preview.py": 1,
    "scheduling/market/settle/outages.py": 1,
    "scheduling/market/settle/resale.py": 1,
    "scheduling/market/prices/posted.py": 1,
    "scheduling/market/decide/promises.py": 1,
    "scheduling/quotes/quotes.py": 1,
    "scheduling/runs/watch.py": 1,
    "scheduling/runs/runs.py": 4,
    "scheduling/operator/servers.py": 1,
    "scheduling/market/settle/slots.py": 1,
    "scheduling/market/settle/stuck.py": 2,
    "scheduling/market/settle/use.py": 1,
    "scheduling/jobs/read_queue.py": 1,
    "scheduling/audit/verification/charges.py": 1,
    "scheduling/audit/verification/days.py": 1,
    "scheduling/audit/verification/feed.py": 2,
    "scheduling/audit/verification/intervals.py": 2,
    "scheduling/audit/verification/pieces.py": 1,
    "scheduling/audit/verification/settings.py": 1,
    "scheduling/notices/collecting.py": 1,
    "scheduling/notices/read_notices.py": 4,
    "scheduling/webhooks/changes.py": 1,
    "scheduling/webhooks/deliveries.py": 3,
    "scheduling/webhooks/forgetting.py": 1,
    "scheduling/app/retention.py": 2,
    "scheduling/runs/old_files.py": 2,
    "scheduling/runs/old_reports.py": 1,
    "scheduling/what_if/asking.py": 4,
    "scheduling/what_if/working.py": 1,
    "scheduling/management/commands/engine.py": 1,
    "scheduling/management/commands/pool_scenario.py": 1,
    "scheduling/market/view/pool_rows.py": 1,
    "scheduling/audit/pages/audits.py": 1,
    "scheduling/overview/decisions.py": 1,
    "scheduling/overview/read_overview.py": 2,
    "scheduling/overview/pages/all_jobs.py": 1,
    "tenants/admin.py": 1,
    "tenants/requests/parties.py": 1,
    "tenants/common/repeated.py": 1,
    "tenants/rights_audit.py": 1,
    "tenants/selectors.py": 11,
    "tenants/joining.py": 2,
}


def uses_of_scope_disabled(tree: ast.Module) -> int:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sum("scope_disabled" in (getattr(call.func, "id", ""), getattr(call.func, "attr", "")) for call in calls)


def test_scope_is_disabled_in_reviewed_places_only() -> None:
    modules = trees("tenants", "scheduling", "marketplace", naming=["scope_disabled"])
    assert {path: uses for path, tree in modules if (uses := uses_of_scope_disabled(tree))} == MAY_SEE_ALL


def test_raw_sql_on_a_tenants_model_is_refused(two) -> None:
    mine, _ = two
    with scope(mine.tenant), pytest.raises(ScopeError):
        Membership.objects.raw("SELECT * FROM tenants_membership")


def test_validation_looks_at_the_open_tenant_only(two) -> None:
    mine, theirs = two
    with scope(mine.tenant):
        invitation(mine.tenant, mine.user).save()
    with scope(theirs.tenant):
        invitation(theirs.tenant, theirs.user).validate_constraints()
        invitation(theirs.tenant, theirs.user).save()
