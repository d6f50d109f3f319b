"""First-fit placement, which ignores communication: on one server if any holds the gang, else on several."""

from __future__ import annotations

from scheduling.core.gangs import GangUnits
from scheduling.core.placement import Cursors, Placement, Vacancies, share_a_resource
from scheduling.core.policies.gandiva_fair.turns import JobTurn
from scheduling.core.types import UnitType, View

BOTH = 2  # the index, in `hosts`, of servers that host workers and parameter servers


class FirstFit:
    """The room in one slot, and where gangs fit in it first."""

    def __init__(self, view: View) -> None:
        self.room = Vacancies(view.cluster, view.occupied)
        kinds = (self.room.hosts_workers, self.room.hosts_ps)
        self.hosts = (*kinds, [all(pair) for pair in zip(*kinds, strict=True)])
        self.none: dict[tuple[object, ...], int] = {}  # by units, the fewest workers that no server holds now

    def place(self, turn: JobTurn, *, stay: bool) -> Placement | None:
        """Place the job where it was, if it should `stay`; else on the first server that holds the gang; else unit by
        unit, on the first servers, or round all servers if the workers leave no room for the parameter server there."""
        job, gang, places = turn.job, turn.gang, turn.past.places
        units = (job.worker_types[gang.worker_type], job.ps_types[gang.ps_type])
        if stay and places and self.room.take_again(units, places):
            return Placement(gang, places[0], places[1], Cursors())
        server = self._holds_all(units, gang)
        if server is not None:
            self.room.take(units[0], [server] * gang.workers)
            self.room.take(units[1], [server] * gang.ps)
            return Placement(gang, [server] * gang.workers, [server] * gang.ps, Cursors())
        workers = self.room.pack(units[0], gang.workers, self.hosts[0])
        if workers is None:
            return None
        servers = self.room.pack(units[1], gang.ps, self.hosts[1])
        if servers is None:
            self.room.give_back(units[0], workers)
            # Workers that went elsewhere may leave room where they share a resource: what an empty cluster is known to
            # hold, unit by unit round the servers, must not wait for ever.
            return self.room.place(job, gang, Cursors()) if share_a_resource(*units) else None
        return Placement(gang, workers, servers, Cursors())

    def _holds_all(self, units: tuple[UnitType, UnitType], gang: GangUnits) -> int | None:
        """Return the first server that holds the gang's workers and its parameter server. Room only shrinks, so where a
        smaller gang found no room, no server is tried."""
        workers, hosts = gang.workers, self.hosts[BOTH if gang.ps else 0]
        key = (gang.ps, units[0].named, units[1].named)
        if workers >= self.none.get(key, workers + 1):
            return None
        whole = [workers * worker + ps for worker, ps in zip(units[0].amounts, units[1].amounts, strict=True)]
        needed = tuple((resource, amount) for resource, amount in enumerate(whole) if amount)
        server = self.room.first_with_room(needed, hosts)
        if server is None:
            self.none[key] = workers
        return server
