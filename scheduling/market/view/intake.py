"""The rows of a pool and a tenant that new jobs are checked against. A single submission reads little else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from django.db import connection

from scheduling.models import Pool


class PoolResource(NamedTuple):
    """A resource of the pool. A worker or parameter server takes at least `least` of it, in steps of `step`."""

    pk: int
    name: str
    least: Decimal
    step: Decimal


@dataclass(frozen=True)
class IntakeRows:
    """The rows, all read at the same moment."""

    frontier: int  # the first slot that the batch lane has not sold yet, or will not have sold before it sees a new job
    draining: bool  # whether a lane of the pool is draining
    resources: Sequence[PoolResource]  # in the order of rows
    rent_budget: int | None  # of the tenant's instructions, in micro-credits
    any_budget: bool  # whether the tenant or one of its members has a budget for a period
    posted: Mapping[int, float]  # resource -> the batch lane's highest recent price, if one was published
    text: str | None  # of the pool's frame; None if it was read without `fitting`

    @property
    def resource_ids(self) -> list[int]:
        return [row.pk for row in self.resources]


def intake_rows(pool: Pool, tenant_id: int, *, prices_from: int, fitting: bool) -> IntakeRows:
    """Read the rows. `prices_from` is the first slot whose posted prices count. With `fitting`, the pool's text is
    read, too, which says whether a job can ever fit."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM scheduling_intake(%s, %s, %s, %s)", [pool.pk, tenant_id, prices_from, fitting])
        met, text = cursor.fetchone()
    read = json.loads(met)
    return IntakeRows(
        frontier=read["frontier"] or 0,
        draining=read["draining"],
        resources=[
            PoolResource(pk, name, Decimal(least), Decimal(step)) for pk, name, least, step in read["resources"] or ()
        ],
        rent_budget=read["rent_budget"],
        any_budget=read["any_budget"],
        posted=dict(read["posted"] or ()),
        text=text,
    )
