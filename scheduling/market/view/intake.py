"""What new jobs of one tenant meet in a pool: a submission by itself asks for little else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from django.db import connection

from scheduling.models import Pool


class PoolResource(NamedTuple):
    """`least`, `step`: amounts that a worker or a parameter server may take of it."""

    pk: int
    name: str
    least: Decimal
    step: Decimal


@dataclass(frozen=True)
class IntakeRows:
    """All of one moment."""

    frontier: int  # the first slot that the batch lane has not sold yet
    draining: bool  # whether a lane is
    resources: Sequence[PoolResource]  # in the order of rows
    rent_budget: int | None  # of the tenant's instructions, in micro-credits
    any_budget: bool  # whether the tenant or one of its members has a budget for a period
    posted: Mapping[int, float]  # resource -> the batch lane's highest price of late, where any was published
    text: str | None  # of the pool's frame; None: nobody asked what ever fits

    @property
    def resource_ids(self) -> list[int]:
        return [row.pk for row in self.resources]


def intake_rows(pool: Pool, tenant_id: int, *, prices_from: int, fitting: bool) -> IntakeRows:
    """`prices_from`: the first slot whose posted prices count. `fitting`: what ever fits is asked, too."""
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
