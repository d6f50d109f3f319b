"""Cells that no job holds in the coming slot, for jobs that can be interrupted."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.core.gangs import GangUnits
from scheduling.core.occupancy import ROUNDING
from scheduling.core.placement import Cursors, Placement
from scheduling.core.policies.hived.cells import WholeUnits, amounts_of, place
from scheduling.core.types import Cluster, Demand, FloatArray, Job


def named(job: Job, gang: GangUnits) -> tuple[Demand, Demand]:
    """Return what a worker and a parameter server of the gang take."""
    return job.worker_types[gang.worker_type].named, job.ps_types[gang.ps_type].named


class Idle:
    """What no job holds in the coming slot. It only shrinks."""

    def __init__(self, free: FloatArray, cluster: Cluster) -> None:
        self.units = WholeUnits(free, cluster)
        self.full: set[tuple[object, ...]] = set()  # gangs that found no room
        self.sound = bool((free >= -ROUNDING).all())

    def place(self, job: Job, gang: GangUnits, before: Sequence[Sequence[int]] | None) -> Placement | None:
        """Place the gang where it was `before`, if that is idle; else in cells of the idle cluster."""
        if before is not None and self.sound:
            again = Placement(gang, before[0], before[1], Cursors())
            rows = self._rows(job, again)
            if all(self._idle(server, amounts) for server, amounts in rows):
                self._take(rows)
                return again
        key = (gang.workers, gang.ps, *named(job, gang))
        placement = None if key in self.full else place(job, gang, self.units)
        if placement is None:
            self.full.add(key)
            return None
        rows = self._rows(job, placement)
        self.sound = self.sound and all(self._idle(server, amounts) for server, amounts in rows)
        self._take(rows)
        return placement

    def _rows(self, job: Job, placement: Placement) -> list[tuple[int, list[float]]]:
        """Return, for each server, what the gang's units there take of each resource."""
        gang = placement.gang
        units = (job.worker_types[gang.worker_type], job.ps_types[gang.ps_type])
        return [(server, amounts_of(units, workers, ps)) for server, workers, ps in placement.counts()]

    def _idle(self, server: int, amounts: Sequence[float]) -> bool:
        """Return whether these amounts are idle on the server."""
        here = self.units.free[server]
        for have, amount in zip(here, amounts, strict=True):  # noqa: SIM110 - `all` takes twice as long
            if have - amount < -ROUNDING:
                return False
        return True

    def _take(self, rows: Sequence[tuple[int, Sequence[float]]]) -> None:
        for server, amounts in rows:
            self.units.take(server, amounts)
