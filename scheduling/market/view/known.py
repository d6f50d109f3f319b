"""A cache, in each process, of a pool's jobs and floors, so that a snapshot reads only what is new.

The specification is most of a job's row, and making a job of the core from it takes most of a snapshot's time. Every
row is read with a digest of its specification; a job made from the same text is still valid, so nothing has to be
invalidated. A floor's row never changes, so its id is enough, as long as the pool's history is the same.

A cache belongs to one shape of the pool (its servers, owners and their instructions); with another shape everything is
read anew. Only what the last snapshot named is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from threading import Lock
from typing import Any, NamedTuple

from django.db.models import F, QuerySet, TextField
from django.db.models.functions import MD5, Cast

from scheduling.core.types import Floor, Job
from scheduling.market.view.floors import StandingFloor
from scheduling.market.view.frame import PoolFrame
from scheduling.market.view.jobs import JobReader
from scheduling.models import Interval, TrainingJob

MOST = 250_000  # jobs of all pools together; beyond that, the pools read longest ago are dropped
UNREAD = ("spec", "client_key", "request_digest", "after")  # long columns that a decision does not read every time


class RowWords(NamedTuple):
    """All fields of a row from which a job of the core is made."""

    spec_digest: str
    tenant_id: int
    arrival: float
    lane: str
    worth_from: float | None
    array_id: int | None  # set only if the job is bought together with others


class KnownJob(NamedTuple):
    words: RowWords
    spec: dict[str, Any]
    job: Job


class KnownPool:
    """The cached jobs and floors of one pool in one shape.

    Threads of a web process may use it at the same time: each continues with the dicts that it began with, and two that
    read the same row enter equal values.
    """

    def __init__(self, frame: PoolFrame) -> None:
        self.pool_id, self.shape, self.reader = frame.pool.pk, frame.shape, JobReader(frame)
        self.jobs: dict[int, KnownJob] = {}
        self.floor_rows: dict[int, StandingFloor] = {}  # by row
        self.floors: dict[int, Floor | None] = {}  # by row, for the core; None: void, as the cells are gone
        self._last: tuple[int, str] | None = None  # the pool's newest interval when floors were read: number and digest

    def read(self, rows: Iterable[TrainingJob]) -> dict[int, Job]:
        """Return the jobs of these rows, by number. Rows of `without_spec` get their specification."""
        known_jobs, jobs = self.jobs, dict[int, Job]()  # another thread may replace `self.jobs` meanwhile
        words: dict[int, tuple[TrainingJob, RowWords]] = {}
        for row in rows:
            digest = getattr(row, "spec_digest", None)
            if digest is None:  # a supposed job, which is not saved
                jobs[row.pk] = self.reader.read(row)
            else:
                array_id = row.array_id if row.together else None
                words[row.pk] = row, RowWords(digest, row.tenant_id, row.arrival, row.lane, row.worth_from, array_id)
        new = [n for n, (_, of_row) in words.items() if n not in known_jobs or known_jobs[n].words != of_row]
        specs = dict(TrainingJob.objects.filter(pk__in=new).values_list("pk", "spec")) if new else {}
        for number in new:
            row, of_row = words[number]
            row.spec = specs[number]
            known_jobs[number] = KnownJob(of_row, row.spec, self.reader.read(row))
        for number, (row, _) in words.items():
            entry = known_jobs[number]
            row.spec, jobs[number] = entry.spec, entry.job
        return jobs

    def begin_floors(self) -> None:
        """Drop cached floors if the pool's history is another one. To be called before floors are read: in a restored
        database an id may belong to another row."""
        intervals = Interval.objects.filter(pool=self.pool_id)
        if self._last is not None and not intervals.filter(number=self._last[0], digest=self._last[1]).exists():
            self.floor_rows, self.floors = {}, {}
        self._last = intervals.order_by("-number").values_list("number", "digest").first()

    def forget_but(self, jobs: Collection[int], floors: Collection[int]) -> None:
        """Drop everything except these jobs and these rows of floors."""
        self.jobs = {number: entry for number, entry in self.jobs.copy().items() if number in jobs}
        self.floor_rows = {row: entry for row, entry in self.floor_rows.copy().items() if row in floors}
        self.floors = {row: entry for row, entry in self.floors.copy().items() if row in floors}
        self.reader.forget_names()
        _others_forget(self)


_pools: OrderedDict[int, KnownPool] = OrderedDict()  # in the order of their last use, the latest at the end
_pools_lock = Lock()


def known_pool(frame: PoolFrame) -> KnownPool:
    """Return this process's cache of a pool in the shape that it has now."""
    with _pools_lock:
        cache = _pools.get(frame.pool.pk)
        if cache is None or cache.shape is not frame.shape:
            cache = _pools[frame.pool.pk] = KnownPool(frame)
        _pools.move_to_end(frame.pool.pk)
        return cache


def _others_forget(read: KnownPool) -> None:
    """Drop the pools that were read longest ago, while more than `MOST` jobs are kept. The pool just read stays."""
    jobs = 0
    with _pools_lock:
        for number, pool in reversed(list(_pools.items())):
            jobs += len(pool.jobs)
            if jobs > MOST and pool is not read:
                del _pools[number]


def without_spec(rows: QuerySet[TrainingJob]) -> QuerySet[TrainingJob]:
    """Return the rows with a digest of their specification in place of it, for `KnownPool.read`."""
    return rows.defer(*UNREAD).annotate(spec_digest=MD5(Cast(F("spec"), TextField())))
