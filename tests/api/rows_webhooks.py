"""Rows of the table: webhooks and what was told there."""

from __future__ import annotations

from collections.abc import Callable

from scheduling.models import Event, WebhookDelivery, WebhookTry
from scheduling.webhooks.changes import webhook_create
from tenants.roles import OWNER
from tenants.scoping import scope
from tenants.selectors import access_of
from tests.api.table import Names, Row, World, answers
from tests.tenants.builders import NOW, done

ONLY_OWNERS = answers(200, OWNER)
URL = "https://93.184.216.34/hook"  # a public address; nothing in these tests calls it


def webhook(world: World) -> Names:
    by = access_of(world.members[OWNER].user, world.tenant)
    with scope(world.tenant):
        webhooks = [done(webhook_create(url=URL, kinds=[], by=by, at=NOW)).webhook for _ in range(2)]
    return {"webhook": webhooks[0].pk}


def deliveries(world: World) -> Names:
    """Two events, each tried twice."""
    names = webhook(world)
    with scope(world.tenant):
        for number in range(2):
            event = Event.objects.create(
                tenant=world.tenant, kind="job_started", subject=f"job:{number}", at=NOW, data={"slot": 3}
            )
            delivery = WebhookDelivery.objects.create(
                webhook_id=names["webhook"], event=event, state="delivered", tries=2, next_at=NOW, created_at=NOW
            )
            for attempt in (1, 2):
                WebhookTry.objects.create(delivery=delivery, number=attempt, started_at=NOW, ended_at=NOW, status=200)
    return {**names, "delivery": delivery.pk}


def row(
    name: str, method: str, address: str, prepare: Callable[[World], Names] = webhook, **more: dict[str, object]
) -> Row:
    foreign = ("webhook",) if "{webhook}" in address else ()
    body = more.get("body", {})
    place = f"tenants/{{tenant}}/webhooks/{address}"
    return Row(name, method, place, ONLY_OWNERS, body=lambda names: body, prepare=prepare, foreign=foreign)


ROWS = [
    row("webhooks_list", "get", ""),
    Row(
        "webhooks_create",
        "post",
        "tenants/{tenant}/webhooks/",
        answers(201, OWNER),
        body=lambda names: {"url": URL, "kinds": ["job_finished"]},
    ),
    row("webhooks_read", "get", "{webhook}/"),
    row("webhooks_change", "post", "{webhook}/change/", body={"kinds": ["low_balance"]}),
    row("webhooks_secret", "post", "{webhook}/secret/"),
    row("webhooks_remove", "post", "{webhook}/remove/"),
    row("webhook_deliveries", "get", "{webhook}/deliveries/", deliveries),
    row("webhook_replay", "post", "{webhook}/deliveries/{delivery}/replay/", deliveries),
]
