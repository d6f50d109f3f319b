"""The book: postings a second, a balance at a million entries, statements, sealing, the audit of a million entries."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, connections

from tenants.ledger.audit import verify
from tenants.ledger.postings import OPERATOR, OUTSIDE, AccountName, Posting, available, earned, settlement
from tenants.ledger.seals import Sealed, seal
from tenants.ledger.selectors import balance, statement, statement_lines
from tenants.ledger.services import hold, post_many, release, settle
from tenants.models import Tenant
from tenants.scoping import scope_disabled

NEEDS_DATABASE = True

POSTINGS, TENANTS, MILLION = 100_000, 100, 1_000_000
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
MONTH = (datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC))
FUNDS = 10**15


def measure() -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark writes everybody's account"):
        tenants = _tenants()
        yield from _writers(tenants)
        yield _slot(tenants)
        yield from _audit(tenants)
        yield from _reading(tenants)


def _figure(name: str, value: float, unit: str, target: str, **detail: object) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "detail": detail}


def _tenants() -> list[int]:
    slugs = [f"tenant-{number}" for number in range(TENANTS)]
    tenants = [row.pk for row in Tenant.objects.bulk_create(Tenant(slug=slug, name=slug) for slug in slugs)]
    _accept(post_many(postings=[_grant(tenant, FUNDS, f"funds:{tenant}", NEW_YEAR) for tenant in tenants]))
    return tenants


def _grant(tenant: int, amount: int, key: str, at: datetime) -> Posting:
    return Posting(key=key, kind="grant", entries=((OUTSIDE, -amount), (available(tenant), amount)), at=at)


def _accept(answer: object) -> None:
    assert isinstance(answer, tuple), answer


def _writers(tenants: list[int]) -> Iterator[dict[str, Any]]:
    """Measure postings by one and four writers. Each is one call of a service and one durable transaction."""
    for writers in (1, 4):
        seconds = _run_writers(writers, POSTINGS // writers, tenants)
        yield _figure(
            f"postings, {writers} at once",
            POSTINGS / seconds,
            "postings/s",
            ">= 1500",
            postings=POSTINGS,
            mix="hold, settle (owner and operator), release in turn; 7 entries in 3 postings",
        )


def _run_writers(writers: int, postings: int, tenants: list[int]) -> float:
    connections.close_all()
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(writers + 1)
    arguments = [(f"{writers}.{number}", postings, tenants, ready) for number in range(writers)]
    processes = [context.Process(target=_write, args=argument) for argument in arguments]
    for process in processes:
        process.start()
    ready.wait()
    started = time.perf_counter()
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)
    return time.perf_counter() - started


def _write(name: str, postings: int, tenants: list[int], ready: Any) -> None:
    connection.ensure_connection()
    ready.wait()
    for number in range(postings):
        _post(name, number, tenants)


def _post(name: str, number: int, tenants: list[int]) -> None:
    turn = number // 3
    renter, owner = tenants[turn % len(tenants)], tenants[(turn * 7 + 3) % len(tenants)]
    at, key, subject = NEW_YEAR + timedelta(minutes=turn * 13 % 525_600), f"{name}:{number}", f"job:{name}:{turn}"
    if number % 3 == 0:
        hold(key=key, tenant_id=renter, amount=1_000, at=at, subject=subject)
    elif number % 3 == 1:
        parts = {earned(owner): 800, OPERATOR: 100}
        settle(key=key, tenant_id=renter, parts=parts, at=at, subject=subject, facts={"slot": turn, "units": 4})
    else:
        release(key=key, tenant_id=renter, amount=100, at=at, subject=subject)


def _slot(tenants: list[int]) -> dict[str, Any]:
    """Measure the settlement of one slot: 5,000 running awards with ten owners each, in one call."""
    for tenant in tenants:
        hold(key=f"slot-hold:{tenant}", tenant_id=tenant, amount=10**9, at=NEW_YEAR)
    awards = [_award(tenants, number) for number in range(5_000)]
    seconds = _seconds(lambda: _accept(post_many(postings=awards)))
    return _figure("settle a slot of 5,000 awards", seconds, "s", "< 3", entries=sum(len(a.entries) for a in awards))


def _award(tenants: list[int], number: int) -> Posting:
    parts = {earned(tenants[(number * 13 + owner) % len(tenants)]): 100 + owner for owner in range(10)}
    renter = tenants[number % len(tenants)]
    return settlement(key=f"slot:{number}", tenant_id=renter, parts=parts, at=NEW_YEAR, subject=f"job:slot:{number}")


def _audit(tenants: list[int]) -> Iterator[dict[str, Any]]:
    """Post ordinary entries up to a million, then measure sealing and the audit."""
    number = 0
    while _entries() < MILLION:
        batch = [_year_grant(tenants[(number + i) % TENANTS], f"fill:{number + i}", number + i) for i in range(5_000)]
        _accept(post_many(postings=batch))
        number += len(batch)
    started = time.perf_counter()
    sealed = seal(at=NEW_YEAR)
    assert isinstance(sealed, Sealed)
    yield _figure("seal", time.perf_counter() - started, "s", "-", transactions=sealed.transactions)
    started = time.perf_counter()
    audit = verify()
    assert audit.is_clean, audit.findings[:5]
    yield _figure(
        "verify_ledger",
        time.perf_counter() - started,
        "s",
        "< 10",
        entries=audit.entries,
        transactions=audit.transactions,
        sealed=audit.sealed,
    )


def _year_grant(tenant: int, key: str, number: int) -> Posting:
    return _grant(tenant, 5, key, NEW_YEAR + timedelta(minutes=number * 7919 % (365 * 24 * 60)))


def _entries() -> int:
    return int(_scalar("SELECT count(*) FROM ledger_entry"))


def _reading(tenants: list[int]) -> Iterator[dict[str, Any]]:
    """Measure how one account with a million entries, spread over a year, is read while two writers are posting."""
    hot = available(tenants[0])
    for number in range(0, MILLION, 5_000):
        _accept(post_many(postings=[_many(hot, number + i) for i in range(0, 5_000, 100)]))
    entries = int(_scalar("SELECT count(*) FROM ledger_entry WHERE account_id = %s", hot.id))
    total = int(_scalar("SELECT sum(amount) FROM ledger_entry WHERE account_id = %s", hot.id))
    assert balance(account=hot) == total
    naive = _seconds(lambda: _scalar("SELECT sum(amount) FROM ledger_entry WHERE account_id = %s", hot.id))
    with _writing(tenants[1:]):
        times = sorted(_seconds(lambda: balance(account=hot)) for _ in range(500))
    yield _figure(
        "balance, p95, two writers posting", times[474] * 1e3, "ms", "< 50", entries=entries,
        median_ms=round(statistics.median(times) * 1e3, 3), worst_ms=round(times[-1] * 1e3, 3),
        summing_entries_ms=round(naive * 1e3),
    )  # fmt: skip
    for account in (hot, earned(tenants[5])):
        yield _month(account)


def _many(account: AccountName, number: int) -> Posting:
    """Return a posting with a hundred entries into one account and one entry that takes their sum from outside."""
    at = NEW_YEAR + timedelta(minutes=number * 525_600 // MILLION)
    entries = (*((account, 1 + i % 7) for i in range(100)), (OUTSIDE, -sum(1 + i % 7 for i in range(100))))
    return Posting(key=f"hot:{number}", kind="grant", entries=entries, at=at)


def _month(account: AccountName) -> dict[str, Any]:
    start, end = MONTH
    page = min(_seconds(lambda: statement(account=account, start=start, end=end)) for _ in range(5))
    lines = sum(1 for _ in statement_lines(account=account, start=start, end=end))
    whole = _seconds(lambda: sum(1 for _ in statement_lines(account=account, start=start, end=end)))
    detail = {"book_entries": _entries(), "lines_of_month": lines, "all_lines_ms": round(whole * 1e3, 1)}
    return _figure(f"statement of a month, first page, {account.kind}", page * 1e3, "ms", "< 300", **detail)


@contextmanager
def _writing(tenants: list[int]) -> Iterator[None]:
    connections.close_all()
    context = multiprocessing.get_context("fork")
    stop, ready = context.Event(), context.Barrier(3)
    processes = [context.Process(target=_write_until, args=(f"b{n}", tenants, ready, stop)) for n in range(2)]
    for process in processes:
        process.start()
    ready.wait()
    try:
        yield
    finally:
        stop.set()
        for process in processes:
            process.join()


def _write_until(name: str, tenants: list[int], ready: Any, stop: Any) -> None:
    connection.ensure_connection()
    ready.wait()
    number = 0
    while not stop.is_set():
        _post(name, number, tenants)
        number += 1


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _scalar(sql: str, *parameters: object) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]
