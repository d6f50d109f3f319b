"""Rows of the table: pools, prices, intervals, awards, the calendar, quota and sharing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from scheduling.models import Interval, Pool, Server
from tenants.roles import AUDITOR, OPERATOR, OWNER, SUBMITTER, VIEWER
from tests.api.table import Names, Row, World, answers, everybody
from tests.learner.world import learnt_pool_made
from tests.scheduling.builders import make_pool
from tests.scheduling.live import make_award
from tests.scheduling.markets import run_slots

READ_JOBS = answers(200, VIEWER, SUBMITTER, OWNER, AUDITOR, OPERATOR)
BY_OPERATOR = answers(200, OPERATOR)
POOL, OWN = "pools/{pool}/", "tenants/{tenant}/pools/{pool}/"
REASON = {"reason": "The table says so."}
SHARING = {"rent": "never", "lend": "keep", "reserve_price": {"worker": "0.05"}}


def new_pool(names: Names) -> Mapping[str, Any]:
    return REASON | {
        "slug": "second",
        "name": "Second",
        "slot_seconds": 10,
        "clock_first": 1,
        "clock_cap": 8,
        "clock_restart": True,
        "batch_policy": {"name": "astraea"},
        "resources": [{"name": "worker", "label": "worker"}, {"name": "ps", "label": "parameter server"}],
        "epoch_at": "2026-03-02T12:00:00Z",
    }


def new_prices(names: Names) -> Mapping[str, Any]:
    return REASON | {"prices": {"worker": "0.05"}}


def new_steps(names: Names) -> Mapping[str, Any]:
    return REASON | {"steps": {"worker": {"least": "2", "step": "0.5"}}}


def coming_back(names: Names) -> Mapping[str, Any]:
    return REASON | {"servers_return": True}


def elastic_pool(world: World) -> Names:
    Pool.objects.filter(slug="sized").first() or make_pool("sized", batch_policy={"name": "srtf"})
    return {}


def learner_on(names: Names) -> Mapping[str, Any]:
    return REASON | {"is_on": True}


def learnt_pool(world: World) -> Names:
    """One that has put weights in place, so that there is something to go back to."""
    learnt_pool_made()
    return {}


def why(names: Names) -> Mapping[str, Any]:
    return REASON


def interval(world: World) -> Names:
    """One that dealt out a window, with everybody's waiting jobs."""
    row = Interval.objects.filter(pool=world.pool).first() or run_slots(world.pool, 0, 0)[0]
    return {"number": row.number}


def award(world: World) -> Names:
    """Two: a query for each row would show in the number of queries. They last for as long as this table is gone
    through, as lists begin with the slot that runs."""
    server = Server.objects.get(pool=world.pool, name=f"{world.tenant.slug}-0")
    slots = world.pool.slot_at(timezone.now()) + 64
    charges = [[(world.tenant, 3)], [(None, 2)], *([] for _ in range(slots - 2))]
    allocation = [[server.pk, 0, slots, 1, 1]]
    rows = [make_award(world.pool, world.tenant, slots=slots, charges=charges, allocation=allocation) for _ in range(2)]
    return {"award": rows[0].pk, "job": rows[0].job_id}


ROWS = [
    Row("pools_list", "get", "pools/", everybody()),
    Row("pools_create", "post", "pools/", answers(201, OPERATOR), body=new_pool),
    Row("pools_read", "get", POOL, everybody()),
    Row("pool_hold", "post", POOL + "hold/", BY_OPERATOR, body=why),
    Row("pool_drain", "post", POOL + "drain/", BY_OPERATOR, body=why),
    Row("resource_steps_set", "post", POOL + "steps/", BY_OPERATOR, body=new_steps),
    Row("servers_return_set", "post", POOL + "servers-return/", BY_OPERATOR, body=coming_back),
    Row("pool_resume", "post", POOL + "resume/", BY_OPERATOR, body=why),
    Row("use_prices_read", "get", POOL + "use-prices/", everybody()),
    Row("use_prices_set", "post", "pools/sized/use-prices/", BY_OPERATOR, body=new_prices, prepare=elastic_pool),
    Row("learner_read", "get", POOL + "learner/", everybody()),
    Row("learner_set", "post", "pools/learnt/learner/", BY_OPERATOR, body=learner_on, prepare=learnt_pool),
    Row("weights_take", "post", "pools/learnt/learner/weights/", BY_OPERATOR, body=why, prepare=learnt_pool),
    Row("prices_now", "get", POOL + "prices/", everybody()),
    Row("prices_ahead", "get", POOL + "prices/ahead/", everybody()),
    Row("prices_history", "get", POOL + "prices/history/", everybody()),
    Row("intervals_list", "get", POOL + "intervals/", everybody(), prepare=interval),
    Row("intervals_read", "get", POOL + "intervals/{number}/", everybody(), prepare=interval),
    Row("intervals_verify", "post", POOL + "intervals/{number}/verify/", everybody(), prepare=interval),
    Row("own_intervals_read", "get", OWN + "intervals/{number}/", everybody(), prepare=interval),
    Row("pool_awards_list", "get", POOL + "awards/", everybody(), prepare=award),
    Row("awards_list", "get", "tenants/{tenant}/awards/", READ_JOBS, prepare=award),
    Row("awards_read", "get", "tenants/{tenant}/awards/{award}/", READ_JOBS, prepare=award, foreign=("award",)),
    Row(
        "charges_verify",
        "post",
        "tenants/{tenant}/jobs/{job}/verify/",
        READ_JOBS,
        prepare=award,
        foreign=("job",),
    ),
    Row("calendar_list", "get", POOL + "calendar/", everybody()),
    Row("bookings_list", "get", OWN + "bookings/", READ_JOBS, prepare=award),
    Row("pool_use_list", "get", POOL + "use/", everybody()),
    Row("own_use_list", "get", OWN + "use/", everybody()),
    Row("quota_read", "get", OWN + "quota/", everybody(), prepare=award),
    Row("estimates_read", "get", OWN + "estimates/", READ_JOBS),
    Row("sharing_read", "get", OWN + "sharing/", everybody()),
    Row("sharing_plans", "get", OWN + "sharing/plans/", READ_JOBS),
    Row("sharing_change", "put", OWN + "sharing/", answers(200, OWNER), body=lambda names: SHARING),
]
