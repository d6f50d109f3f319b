"""`Client`: one small method for each operation of the interface, named as in its schema where a name fits.

Every method may raise `Unreachable` (no whole answer came) or a kind of `Refused` (the answer was no). Methods that
change something take `key`, the Idempotency-Key; without one each call has its own, which its repetitions share.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Literal, Self, cast
from urllib.parse import quote as quoted

from bourse_client.errors import Unreachable, Unsaid
from bourse_client.shapes import (
    OVER,
    Balances,
    BulkJob,
    CancelOutcome,
    Description,
    Event,
    Explanation,
    Job,
    JobArray,
    JobFiles,
    JobWithSpec,
    Lane,
    Log,
    Me,
    OwnTenant,
    Parsed,
    Pieces,
    Price,
    Quota,
    Quote,
    Server,
    Sharing,
    Statement,
    Study,
    StudyRow,
    WhatIf,
)
from bourse_client.stream import followed
from bourse_client.transport import ROOT, Pace, Transport

PAGE = 200  # results in one answer, as many as the interface gives


class Client:
    """The interface of a server. `address` is the server's, such as https://bourse.example. `tenant` is its short name;
    a token for one tenant needs none."""

    def __init__(self, address: str, token: str, *, tenant: str = "", pace: Pace | None = None) -> None:
        self.transport = Transport(address, token, pace)
        self._tenant = tenant

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.transport.close()

    # The caller

    def me(self) -> Me:
        return cast(Me, self.get("me/"))

    def tenants(self) -> list[OwnTenant]:
        return self.me()["tenants"]

    @property
    def tenant(self) -> str:
        """Return the tenant's short name. The server is asked for it once, where nobody named it."""
        if not self._tenant:
            slugs = [tenant["slug"] for tenant in self.tenants()]
            if len(slugs) != 1:
                which = f"Say which tenant: {', '.join(slugs)}." if slugs else "Say which tenant: the token is of none."
                raise Unsaid(which, "tenant")
            self._tenant = slugs[0]
        return self._tenant

    # Jobs

    def jobs(self, *, most: int | None = None, **filters: Any) -> Iterator[Job]:
        """Yield jobs, the newest first. Filters: state, lane, pool, name, reason, submitted_from, submitted_before,
        ordering, array; with `arrays="folded"`, only the first member of each array."""
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
        after: Sequence[int] = (),
        after_arrays: Sequence[int] = (),
        key: str | None = None,
    ) -> JobWithSpec:
        """Submit a job, and return it as it is now. One that the instant lane refused has the state `rejected` and its
        reason, or with `otherwise` waits for the next interval. `after` are jobs that must have ended well before, and
        `after_arrays` are arrays all of whose jobs must."""
        body: dict[str, Any] = {"pool": pool, "name": name, "lane": lane, "spec": dict(spec)}
        body |= {"otherwise": otherwise} if otherwise else {}
        body |= {"after": list(after)} if after else {}
        body |= {"after_arrays": list(after_arrays)} if after_arrays else {}
        return cast(JobWithSpec, self.post(self.of_tenant("jobs/"), body, key))

    def jobs_submit(self, jobs: Sequence[Mapping[str, Any]], *, pool: str, key: str | None = None) -> list[BulkJob]:
        """Submit up to 1,000 jobs for the batch lane in one call, all of them or none. Each has its `name`, its `spec`
        (or `hours` and `worth`), and if you like `begin`, `after` and `after_arrays`. The answer has their order. A
        refusal names in its `errors` each job that is not valid, as `jobs[3].chunks`."""
        answer = self.post(self.of_tenant("jobs/bulk/"), {"pool": pool, "jobs": [dict(job) for job in jobs]}, key)
        return cast(list[BulkJob], answer["results"])

    def job_parse(self, said: Mapping[str, Any], *, pool: str) -> Parsed:
        """Return what a description means: `script` or `hours`, and `worth`, as in the interface. Nothing is stored."""
        return cast(Parsed, self.post(self.of_tenant("jobs/parse/"), {"pool": pool, **said}, None))

    def job_describe(
        self,
        said: Mapping[str, Any],
        *,
        pool: str,
        lane: Lane = "batch",
        otherwise: Literal["batch"] | None = None,
        key: str | None = None,
    ) -> JobWithSpec:
        """Submit what `job_parse` would understand."""
        body = {"pool": pool, "lane": lane, **said} | ({"otherwise": otherwise} if otherwise else {})
        return cast(JobWithSpec, self.post(self.of_tenant("jobs/"), body, key))

    def array_submit(
        self,
        said: Mapping[str, Any],
        *,
        pool: str,
        name: str = "",
        count: int | None = None,
        together: bool = False,
        key: str | None = None,
    ) -> JobArray:
        """Submit many jobs that differ in their index, all of them or none. `said` is as for `job_describe`: a script
        that has an `--array`; or with `count`, `hours` or `{"spec": ...}`. If `together`, they are bought in one
        interval, all or none, and not one by one."""
        body = {"pool": pool, **said} | ({"name": name} if name else {}) | ({"count": count} if count else {})
        body |= {"together": True} if together else {}
        return cast(JobArray, self.post(self.of_tenant("jobs/arrays/"), body, key))

    def array(self, array_id: int) -> JobArray:
        """Return how many of its members are in which state; `jobs(array=...)` yields each of them."""
        return cast(JobArray, self.get(self.of_tenant(f"jobs/arrays/{array_id}/")))

    def array_cancel(self, array_id: int, *, most: str | None = None, key: str | None = None) -> JobArray:
        """Cancel all members that are not over, in one act; only if that costs at most so many credits."""
        body = None if most is None else {"most": most}
        return cast(JobArray, self.post(self.of_tenant(f"jobs/arrays/{array_id}/cancel/"), body, key))

    def job_description(self, job_id: int) -> Description:
        """Return how the job was described and, of a script, what became of each line."""
        return cast(Description, self.get(self.of_tenant(f"jobs/{job_id}/description/")))

    def job_cancel(self, job_id: int, *, most: str | None = None, key: str | None = None) -> JobWithSpec:
        """Cancel a job, only if that costs at most so many credits."""
        body = None if most is None else {"most": most}
        return cast(JobWithSpec, self.post(self.of_tenant(f"jobs/{job_id}/cancel/"), body, key))

    def jobs_cancel(self, job_ids: Sequence[int], *, key: str | None = None) -> list[CancelOutcome]:
        """Cancel each job by itself: the answer says which were cancelled, and why others were not."""
        answer = self.post(self.of_tenant("jobs/cancel/"), {"jobs": list(job_ids)}, key)
        return cast(list[CancelOutcome], answer["results"])

    def job_queue(self, job_id: int, *, key: str | None = None) -> JobWithSpec:
        """Let a job that the instant lane refused wait for the next interval instead."""
        return cast(JobWithSpec, self.post(self.of_tenant(f"jobs/{job_id}/queue/"), None, key))

    def job_explain(self, job_id: int) -> Explanation:
        return cast(Explanation, self.get(self.of_tenant(f"jobs/{job_id}/explain/")))

    def job_pieces(self, job_id: int) -> Pieces:
        """Return what each piece of a job did and cost; no piece where the job is sold whole."""
        return cast(Pieces, self.get(self.of_tenant(f"jobs/{job_id}/pieces/")))

    def job_followed(self, job_id: int, *, every: float = 2.0, patience: float | None = None) -> Iterator[JobWithSpec]:
        """Yield the job again and again, the last time when it is over. This ends early when `patience` does. After a
        first answer an outage of the server is waited out, as long as `patience` lasts."""
        pace = self.transport.pace
        deadline = math.inf if patience is None else pace.clock() + patience
        while True:
            with self.transport.following(until=deadline):
                job = self.job(job_id)
            yield job
            if job["state"] in OVER or pace.clock() + every > deadline:
                return
            pace.sleep(every)

    def quote(self, spec: Mapping[str, Any], *, pool: str, name: str, lane: Lane = "batch") -> Quote:
        """Return what would become of this job; nothing is written."""
        body = {"pool": pool, "name": name, "lane": lane, "spec": dict(spec)}
        return cast(Quote, self.post(self.of_tenant("quotes/"), body, None))

    # What if a job had said something else

    def what_if(
        self, job_id: int, field: str, value: Any, *, interval: int, pool: str, key: str | None = None
    ) -> WhatIf:
        """Ask what the job would have got with another `value`, and return the question. `value` is in the words of a
        specification; None asks as if the field were not given."""
        body = {"pool": pool, "interval": interval, "job": job_id, "field": field, "value": value}
        return cast(WhatIf, self.post(self.of_tenant("what-ifs/"), body, key))

    def what_if_read(self, what_if_id: int) -> WhatIf:
        return cast(WhatIf, self.get(self.of_tenant(f"what-ifs/{what_if_id}/")))

    def what_if_cancel(self, what_if_id: int, *, key: str | None = None) -> WhatIf:
        return cast(WhatIf, self.post(self.of_tenant(f"what-ifs/{what_if_id}/cancel/"), None, key))

    def what_ifs(self, *, most: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the caller's own questions, the newest first, without their answers."""
        return cast(Iterator[dict[str, Any]], self.listed(self.of_tenant("what-ifs/"), {}, most))

    def what_if_fields(self) -> Iterator[dict[str, Any]]:
        """Yield the fields that a question may change, and what they mean."""
        return cast(Iterator[dict[str, Any]], self.listed(self.of_tenant("what-ifs/fields/"), {}))

    # Studies of the lab, for operators and auditors

    def studies(self, *, most: int | None = None) -> Iterator[StudyRow]:
        """Yield studies, the newest first, without their question and their history."""
        return cast(Iterator[StudyRow], self.listed("lab/studies/", {}, most))

    def study(self, study_id: int) -> Study:
        return cast(Study, self.get(f"lab/studies/{study_id}/"))

    def study_create(
        self,
        document: Mapping[str, Any],
        *,
        files: Mapping[str, bytes] | None = None,
        pool: str | None = None,
        start: str | None = None,
        end: str | None = None,
        at_once: bool = False,
        key: str | None = None,
    ) -> Study:
        """Make a study of a log among `files`, whose names the document gives; or of a pool's own past from `start` to
        `end`, times such as 2026-10-01T00:00:00Z."""
        body: dict[str, Any] = {"study": dict(document), "at_once": at_once}
        body |= {"files": {name: base64.b64encode(each).decode() for name, each in files.items()}} if files else {}
        source = {"pool": pool, "start": start, "end": end}
        return cast(Study, self.post("lab/studies/", body | {k: v for k, v in source.items() if v is not None}, key))

    def study_start(self, study_id: int, *, key: str | None = None) -> Study:
        """Start a study, after a look at the `minutes` that it will take."""
        return cast(Study, self.post(f"lab/studies/{study_id}/start/", None, key))

    def study_cancel(self, study_id: int, *, key: str | None = None) -> Study:
        """Cancel a study. What is done is kept."""
        return cast(Study, self.post(f"lab/studies/{study_id}/cancel/", None, key))

    def study_resume(self, study_id: int, *, key: str | None = None) -> Study:
        return cast(Study, self.post(f"lab/studies/{study_id}/resume/", None, key))

    def study_show(self, study_id: int, *, shown: bool, key: str | None = None) -> Study:
        """Show a study to its owners, each of whom sees the others unnamed; or show it no longer."""
        return cast(Study, self.post(f"lab/studies/{study_id}/show/", {"shown": shown}, key))

    def study_remove(self, study_id: int, *, key: str | None = None) -> Study:
        return cast(Study, self.post(f"lab/studies/{study_id}/remove/", None, key))

    def study_report(self, study_id: int) -> bytes:
        """Return the report as one file of HTML."""
        return self.transport.call("GET", f"lab/studies/{study_id}/report/", accept="text/html").body

    def study_figures(self, study_id: int) -> bytes:
        """Return every number of the report with its interval, as CSV."""
        return self.transport.call("GET", f"lab/studies/{study_id}/figures/", accept="text/csv").body

    # Programs that a job may name

    def programs(self) -> Iterator[dict[str, Any]]:
        """Yield programs, the tenant's own first, with what they did, but without their text."""
        return cast(Iterator[dict[str, Any]], self.listed(self.of_tenant("programs/"), {}))

    def program(self, name: str, *, owner: str = "", version: int | None = None) -> dict[str, Any]:
        """Return a program. `owner` is a short name, or "operator"; without one, the tenant itself. Without a version,
        it is the newest."""
        path = self.of_tenant(f"programs/of/{quoted(owner or self.tenant, safe='')}/{quoted(name, safe='')}/")
        return cast(dict[str, Any], self.get(path, {"version": version}))

    def program_register(
        self, document: Mapping[str, Any], *, archive: bytes | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Register a new program of the tenant's own. `archive` is a tar.gz."""
        return cast(dict[str, Any], self.post(self.of_tenant("programs/"), _program_body(document, archive), key))

    def program_continue(
        self, name: str, document: Mapping[str, Any], *, archive: bytes | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Register its next version. One that says what the newest says is the newest again."""
        path = self.of_tenant(f"programs/{quoted(name, safe='')}/versions/")
        return cast(dict[str, Any], self.post(path, _program_body(document, archive), key))

    def program_upload(self, document: Mapping[str, Any], archive: bytes, *, key: str | None = None) -> dict[str, Any]:
        """Register a program's first version, or its next one, with an archive of up to 20 MiB."""
        allowed = self.post(self.of_tenant("programs/uploads/"), None, None)
        parts = {"document": json.dumps(document, allow_nan=False).encode(), "archive": archive}
        path = self.of_tenant("programs/uploads/archive/")
        return cast(
            dict[str, Any], self.transport.send_parts(path, parts, query={"upload": allowed["upload"]}, key=key).json()
        )

    def program_retire(self, name: str, *, key: str | None = None) -> dict[str, Any]:
        """Retire a program: no new job can name it, and jobs that have it keep it."""
        return cast(dict[str, Any], self.post(self.of_tenant(f"programs/{quoted(name, safe='')}/retire/"), None, key))

    def program_archive(self, name: str, version: int, *, owner: str = "") -> bytes:
        """Return the tar.gz of a version, as it was sent."""
        place = f"programs/of/{quoted(owner or self.tenant, safe='')}/{quoted(name, safe='')}"
        path = self.of_tenant(f"{place}/versions/{version}/archive/")
        return self.transport.call("GET", path, accept="application/gzip").body

    # What a job's programs wrote

    def job_logs(
        self,
        job_id: int,
        *,
        after: int = 0,
        search: str = "",
        level: str = "",
        who: str = "",
        run_number: int | None = None,
    ) -> Log:
        """Return a page of the newest run's log, or of the one that `run_number` names: 1 is the job's first. `after`
        is that of the last page; if `run` is another one than before, begin at 0 again. `search`, `level` (this or
        graver) and `who` (such as "worker 1") leave lines out."""
        filters = {"after": after, "search": search, "level": level, "who": who, "run_number": run_number}
        query = {name: value or None for name, value in filters.items()}
        return cast(Log, self.get(self.of_tenant(f"jobs/{job_id}/logs/"), query))

    def job_log_file(self, job_id: int, *, run_number: int | None = None) -> bytes:
        """Return the whole log of a run as text, as `job_logs` chooses it."""
        path = self.of_tenant(f"jobs/{job_id}/logs/file/")
        return self.transport.call("GET", path, query={"run_number": run_number}, accept="text/plain").body

    def job_files(self, job_id: int) -> JobFiles:
        """Return what its program has in its folder. `more` says that there are others that no list reaches."""
        path = self.of_tenant(f"jobs/{job_id}/files/")
        answer = cast(JobFiles, self.get(path))
        page = answer
        while page.get("more") and page["files"]:
            page = cast(JobFiles, self.get(path, {"after": page["files"][-1]["path"]}))
            answer["files"] += page["files"]
            answer["left_out"] += page["left_out"]
        return answer | {"more": page.get("more", False)}

    def job_file(self, job_id: int, path: str, target: IO[bytes]) -> int:
        """Write one of its files, whole, into a file that is open for writing, and return its length. A transfer that
        breaks off goes on where it broke."""
        return self.transport.fetch(self.of_tenant(f"jobs/{job_id}/files/content/"), target, query={"path": path})

    # The market

    def pools(self) -> Iterator[dict[str, Any]]:
        return cast(Iterator[dict[str, Any]], self.listed("pools/", {}))

    def only_pool(self) -> str:
        """Return the pool that is meant where nobody names one."""
        slugs = [str(pool["slug"]) for pool in self.pools()]
        if len(slugs) != 1:
            raise Unsaid(f"Say which pool: {', '.join(slugs)}." if slugs else "There is no pool yet.", "pool")
        return slugs[0]

    def prices_now(self, pool: str) -> Iterator[Price]:
        """Yield the prices of the running slot, in both lanes."""
        return cast(Iterator[Price], self.listed(f"pools/{quoted(pool, safe='')}/prices/", {}))

    def prices_ahead(self, pool: str, *, most: int | None = None, **filters: Any) -> Iterator[Price]:
        """Yield the prices of the slots to come, as far as the lane has posted them. Filters: lane, resource."""
        return cast(Iterator[Price], self.listed(f"pools/{quoted(pool, safe='')}/prices/ahead/", filters, most))

    def prices_history(self, pool: str, *, most: int | None = None, **filters: Any) -> Iterator[Price]:
        """Yield prices as they were posted, the oldest first."""
        return cast(Iterator[Price], self.listed(f"pools/{quoted(pool, safe='')}/prices/history/", filters, most))

    # The cluster, and the tenant's part of it

    def servers(self, pool: str, *, state: Sequence[str] | None = None) -> Iterator[Server]:
        """Yield servers with their units, and who owns these."""
        filters = {"state": list(state)} if state else {}
        return cast(Iterator[Server], self.listed(f"pools/{quoted(pool, safe='')}/servers/", filters))

    def quota(self, pool: str) -> Quota:
        """Return what the tenant's units do in the running slot, and what it rents."""
        return cast(Quota, self.get(self.of_tenant(f"pools/{quoted(pool, safe='')}/quota/")))

    def sharing(self, pool: str) -> Sharing:
        """Return what the tenant may rent by itself, and what it lends at what price."""
        return cast(Sharing, self.get(self.of_tenant(f"pools/{quoted(pool, safe='')}/sharing/")))

    # Money

    def balances(self) -> Balances:
        return cast(Balances, self.get(self.of_tenant("ledger/balances/")))

    def entries(self, *, most: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield every movement of credits, the newest first. Filters: account, kind, job, from, before."""
        return cast(Iterator[dict[str, Any]], self.listed(self.of_tenant("ledger/entries/"), filters, most))

    def statement(self, month: str) -> Statement:
        """Return the statement of a month of UTC, such as 2026-11."""
        return cast(Statement, self.get(self.of_tenant("statements/period/"), {"month": month}))

    def statement_csv(self, month: str) -> str:
        """Return every line of it, as CSV."""
        path = self.of_tenant("statements/period/lines/")
        return self.transport.call("GET", path, query={"month": month}, accept="text/csv").body.decode()

    # Events

    def events(self, *, after: int | None = None, most: int | None = None, **filters: Any) -> Iterator[Event]:
        """Yield events, the oldest first; with ordering="-id", the newest first. Filters: kind, subject, pool, from,
        before."""
        return cast(Iterator[Event], self.listed(self.of_tenant("events/"), {"after": after, **filters}, most))

    def events_followed(self, *, after: int | None = None) -> Iterator[Event]:
        """Yield events as they happen, without end. A stream that breaks is taken up again where it broke."""
        return followed(self.transport, self.of_tenant("events/stream/"), after)

    # How calls are made, also those that have no method of their own. Paths are relative to /api/v1/.

    def of_tenant(self, path: str) -> str:
        return f"tenants/{quoted(self.tenant, safe='')}/{path}"

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.transport.call("GET", path, query=query).json()

    def post(self, path: str, body: Any, key: str | None) -> Any:
        return self.transport.call("POST", path, body=body, key=key).json()

    def listed(self, path: str, filters: Mapping[str, Any], most: int | None = None) -> Iterator[Any]:
        """Yield results page after page by cursor, and fetch no page more than somebody reads."""
        rest = most
        limit = PAGE if most is None else max(1, min(most, PAGE))
        page = self._page(path, {**filters, "limit": limit})
        while True:
            results: Iterable[Any] = page["results"] if rest is None else page["results"][:rest]
            yield from results
            rest = None if rest is None else rest - len(page["results"])
            if not page["next"] or (rest is not None and rest <= 0):
                return
            page = self._page(_own(page["next"]))

    def _page(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        page = self.get(path, query)
        if not isinstance(page.get("results"), list) or not isinstance(page.get("next", 0), str | None):
            raise self.transport.other_shape()
        return page


def _program_body(document: Mapping[str, Any], archive: bytes | None) -> dict[str, Any]:
    body: dict[str, Any] = {"document": dict(document)}
    return body if archive is None else body | {"archive": base64.b64encode(archive).decode()}


def _own(address: str) -> str:
    """Return the path of the next page. Whatever host the answer names, the token stays with the server that was
    meant."""
    _, root, path = address.partition(ROOT)
    if not root:
        raise Unreachable("The answer is broken: the address of the next page is none of the interface.")
    return path
