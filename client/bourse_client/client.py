"""`Client`: one small method for each operation of the interface, named as in its schema where a name fits.

Every method may raise `Unreachable` (no whole answer came) or a kind of `Refused` (the answer was no). Methods that
change something take `key`, the Idempotency-Key; without one each call has its own, which its repetitions share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, cast
from urllib.parse import quote as quoted

from bourse_client.errors import BourseError
from bourse_client.shapes import (
    OVER,
    Balances,
    CancelOutcome,
    Event,
    Explanation,
    Job,
    JobWithSpec,
    Lane,
    Log,
    Me,
    OwnTenant,
    Price,
    Quote,
    Statement,
    WhatIf,
)
from bourse_client.stream import followed
from bourse_client.transport import ROOT, Pace, Transport

PAGE = 200  # results of one answer: as many as the interface gives


class Client:
    """`address`: of the server, as https://bourse.example. `tenant`: its short name; a token for one needs none."""

    def __init__(self, address: str, token: str, *, tenant: str = "", pace: Pace | None = None) -> None:
        self.transport = Transport(address, token, pace)
        self._tenant = tenant

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.transport.close()

    # Who calls

    def me(self) -> Me:
        return cast(Me, self.get("me/"))

    def tenants(self) -> list[OwnTenant]:
        return self.me()["tenants"]

    @property
    def tenant(self) -> str:
        """Asked for once, where nobody named it."""
        if not self._tenant:
            found = [tenant["slug"] for tenant in self.tenants()]
            if len(found) != 1:
                named = f": {', '.join(found)}" if found else ""
                raise BourseError(f"Say which tenant; this token reaches {len(found)}{named}.")
            self._tenant = found[0]
        return self._tenant

    # Jobs

    def jobs(self, *, most: int | None = None, **filters: Any) -> Iterator[Job]:
        """The newest first. Filters: state, lane, pool, name, reason, submitted_from, submitted_before, ordering."""
        return cast(Iterator[Job], self.listed(self.of_tenant("jobs/"), filters, most))

    def job(self, job_id: int) -> JobWithSpec:
        return cast(JobWithSpec, self.get(self.of_tenant(f"jobs/{job_id}/")))

    def job_submit(
        self,
        spec: Mapping[str, Any],
        *,
        pool: str,
        name: str,
        lane: Lane = "batch",
        otherwise: Literal["batch"] | None = None,
        key: str | None = None,
    ) -> JobWithSpec:
        """The job as it is now: a refused one of the instant lane has the state `rejected` and its reason, or with
        `otherwise` waits for the next interval."""
        body = {"pool": pool, "name": name, "lane": lane, "spec": dict(spec)}
        body |= {"otherwise": otherwise} if otherwise else {}
        return cast(JobWithSpec, self.post(self.of_tenant("jobs/"), body, key))

    def job_cancel(self, job_id: int, *, key: str | None = None) -> JobWithSpec:
        return cast(JobWithSpec, self.post(self.of_tenant(f"jobs/{job_id}/cancel/"), None, key))

    def jobs_cancel(self, job_ids: Sequence[int], *, key: str | None = None) -> list[CancelOutcome]:
        """Each by itself: the answer says which were cancelled, and why others were not."""
        answer = self.post(self.of_tenant("jobs/cancel/"), {"jobs": list(job_ids)}, key)
        return cast(list[CancelOutcome], answer["results"])

    def job_queue(self, job_id: int, *, key: str | None = None) -> JobWithSpec:
        """A job that the instant lane refused waits for the next interval instead."""
        return cast(JobWithSpec, self.post(self.of_tenant(f"jobs/{job_id}/queue/"), None, key))

    def job_explain(self, job_id: int) -> Explanation:
        return cast(Explanation, self.get(self.of_tenant(f"jobs/{job_id}/explain/")))

    def job_followed(self, job_id: int, *, every: float = 2.0, patience: float | None = None) -> Iterator[JobWithSpec]:
        """The job as often as it is asked for, the last time when it is over. Ends early when patience does."""
        pace = self.transport.pace
        deadline = None if patience is None else pace.clock() + patience
        while True:
            job = self.job(job_id)
            yield job
            if job["state"] in OVER or (deadline is not None and pace.clock() + every > deadline):
                return
            pace.sleep(every)

    def quote(self, spec: Mapping[str, Any], *, pool: str, name: str, lane: Lane = "batch") -> Quote:
        """What would become of this job; nothing is written."""
        body = {"pool": pool, "name": name, "lane": lane, "spec": dict(spec)}
        return cast(Quote, self.post(self.of_tenant("quotes/"), body, None))

    # What if a job had said something else

    def what_if(
        self, job_id: int, field: str, value: Any, *, interval: int, pool: str, key: str | None = None
    ) -> WhatIf:
        """The question; `value` in the words of a specification, None: as if it were not given."""
        body = {"pool": pool, "interval": interval, "job": job_id, "field": field, "value": value}
        return cast(WhatIf, self.post(self.of_tenant("what-ifs/"), body, key))

    def what_if_read(self, what_if_id: int) -> WhatIf:
        return cast(WhatIf, self.get(self.of_tenant(f"what-ifs/{what_if_id}/")))

    def what_if_cancel(self, what_if_id: int, *, key: str | None = None) -> WhatIf:
        return cast(WhatIf, self.post(self.of_tenant(f"what-ifs/{what_if_id}/cancel/"), None, key))

    def what_ifs(self, *, most: int | None = None) -> Iterator[dict[str, Any]]:
        """One's own questions, the newest first, without their answers."""
        return cast(Iterator[dict[str, Any]], self.listed(self.of_tenant("what-ifs/"), {}, most))

    def what_if_fields(self) -> Iterator[dict[str, Any]]:
        """What can be said otherwise, and what it means."""
        return cast(Iterator[dict[str, Any]], self.listed(self.of_tenant("what-ifs/fields/"), {}))

    # What a job's programs wrote

    def job_logs(self, job_id: int, *, after: int = 0) -> Log:
        """A page of the newest run's log; `after` is the last page's. Another `run` than before begins at 0 again."""
        return cast(Log, self.get(self.of_tenant(f"jobs/{job_id}/logs/"), {"after": after or None}))

    # The market

    def pools(self) -> Iterator[dict[str, Any]]:
        return cast(Iterator[dict[str, Any]], self.listed("pools/", {}))

    def only_pool(self) -> str:
        """The pool that is meant where nobody names one."""
        found = [str(pool["slug"]) for pool in self.pools()]
        if len(found) != 1:
            raise BourseError(f"Say which pool: {', '.join(found)}." if found else "There is no pool yet.")
        return found[0]

    def prices_now(self, pool: str) -> Iterator[Price]:
        """Of the running slot, in both lanes."""
        return cast(Iterator[Price], self.listed(f"pools/{quoted(pool, safe='')}/prices/", {}))

    def prices_ahead(self, pool: str, *, most: int | None = None, **filters: Any) -> Iterator[Price]:
        """Of the slots to come, as far as the lane has posted them. Filters: lane, resource."""
        return cast(Iterator[Price], self.listed(f"pools/{quoted(pool, safe='')}/prices/ahead/", filters, most))

    def prices_history(self, pool: str, *, most: int | None = None, **filters: Any) -> Iterator[Price]:
        """As they were posted, the oldest first."""
        return cast(Iterator[Price], self.listed(f"pools/{quoted(pool, safe='')}/prices/history/", filters, most))

    # Money

    def balances(self) -> Balances:
        return cast(Balances, self.get(self.of_tenant("ledger/balances/")))

    def entries(self, *, most: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Every movement, the newest first. Filters: account, kind, job, from, before."""
        return cast(Iterator[dict[str, Any]], self.listed(self.of_tenant("ledger/entries/"), filters, most))

    def statement(self, month: str) -> Statement:
        """`month`: as 2026-11, of UTC."""
        return cast(Statement, self.get(self.of_tenant("statements/period/"), {"month": month}))

    def statement_csv(self, month: str) -> str:
        """Every line of it, as CSV."""
        path = self.of_tenant("statements/period/lines/")
        return self.transport.call("GET", path, query={"month": month}, accept="text/csv").body.decode()

    # Events

    def events(self, *, after: int | None = None, most: int | None = None, **filters: Any) -> Iterator[Event]:
        """The oldest first, with ordering="-id" the newest. Filters: kind, subject, pool, from, before."""
        return cast(Iterator[Event], self.listed(self.of_tenant("events/"), {"after": after, **filters}, most))

    def events_followed(self, *, after: int | None = None) -> Iterator[Event]:
        """As it happens, without end; a stream that breaks is taken up again where it broke."""
        return followed(self.transport, self.of_tenant("events/stream/"), after)

    # How calls are made; by these also what has no method of its own. Paths are relative to /api/v1/.

    def of_tenant(self, path: str) -> str:
        return f"tenants/{quoted(self.tenant, safe='')}/{path}"

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.transport.call("GET", path, query=query).json()

    def post(self, path: str, body: Any, key: str | None) -> Any:
        return self.transport.call("POST", path, body=body, key=key).json()

    def listed(self, path: str, filters: Mapping[str, Any], most: int | None = None) -> Iterator[Any]:
        """Page after page by cursor, and no page more than somebody reads."""
        left = most
        limit = PAGE if most is None else max(1, min(most, PAGE))
        page = self.get(path, {**filters, "limit": limit})
        while True:
            results: Iterable[Any] = page["results"] if left is None else page["results"][:left]
            yield from results
            left = None if left is None else left - len(page["results"])
            if not page["next"] or (left is not None and left <= 0):
                return
            page = self.get(_own(page["next"]))


def _own(address: str) -> str:
    """The next page by its path: whatever host the answer names, the token stays with the server that was meant."""
    _, found, path = address.partition(ROOT)
    if not found:
        raise BourseError("The address of the next page is none of the interface.")
    return path
