"""What holds at every moment, whatever has happened: about the money, the units and the jobs of the whole database.

Written from the rules alone, in plain loops over what the tables say. It shares no code with the services, but for the
names of states.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.charges import charges_read
from tests.ledger.builders import commit_checks, run

ALIVE = ("booked", "running")

_AWARDS = """
SELECT award.id, award.job_id, award.attempt, award.tenant_id, award.pool_id, award.lane, award.state,
       award.start, award."end", award.cut_at, award.paid, award.returned, award.owners, award.amounts, award.work_left,
       award.work, award.rent, award.adjusted, award.pays_from
  FROM scheduling_award AS award ORDER BY award.id
"""
_JOBS = "SELECT id, state, attempt, pool_id, not_before FROM scheduling_trainingjob"
_MONEY = """
SELECT (about.facts ->> 'award')::bigint, about.kind, (about.facts ->> 'slot')::bigint, entry.account_id, entry.amount
  FROM ledger_transaction AS about JOIN ledger_entry AS entry ON entry.transaction_id = about.id
 WHERE about.facts ? 'award'
"""
_BALANCES = """
SELECT balance.account_id, sum(balance.amount), bool_and(balance.guarded),
       coalesce((SELECT sum(amount) FROM ledger_entry AS entry WHERE entry.account_id = balance.account_id), 0)
  FROM ledger_balance AS balance GROUP BY balance.account_id
"""


def violations() -> list[str]:
    """Each broken rule in a sentence; nothing where all is well."""
    commit_checks()
    awards = [dict(zip(_COLUMNS, row, strict=True)) for row in run(_AWARDS)]
    for award in awards:
        award["charges"] = charges_read(award["owners"], award["amounts"])
    settled = dict(run("SELECT pool_id, settled_slot FROM scheduling_laneclock WHERE lane = 'batch'"))
    jobs = {row[0]: row[1:] for row in run(_JOBS)}
    work = dict(run(_WORK))
    elastic = {award["pool"] for award in awards if award["work_left"] is not None}
    return [
        *_money_of_awards(awards, settled),
        *_balances(),
        *_slots_paid_once(awards),
        *_jobs_and_awards(awards, jobs, elastic, work),
        *_sold_again(),
        *_floors_side_by_side(settled),
    ]


_COLUMNS = ("id", "job", "attempt", "tenant", "pool", "lane", "state", "start", "end", "cut", "paid", "returned")
_COLUMNS += ("owners", "amounts", "work_left", "work", "rent", "adjusted", "again")


def pays_until(award: dict[str, Any]) -> int:
    """A gang that the platform failed was delivered up to its cut; a cancelled one that never began, not at all. One
    that was cancelled after the platform had failed it pays on."""
    cut = award["cut"]
    if cut is None or award["again"] is not None:
        return int(award["end"])
    if award["state"] == "void" or cut <= award["start"]:
        return min(cut, award["end"])
    return int(award["end"])


def _is_missed(award: dict[str, Any], slot: int, outages: list[tuple[int, int, int]]) -> bool:
    """A gang that was given up while it ran pays to its end, except for slots in which the market stood still, and
    those in which the platform had failed it before."""
    if award["state"] == "void" or award["cut"] is None or slot < award["cut"]:
        return False
    if award["again"] is not None and slot < award["again"]:
        return True
    if award["cut"] <= award["start"] and award["again"] is None:
        return False
    return any(pool == award["pool"] and start <= slot < end for pool, start, end in outages)


def _came_back(award: dict[str, Any], slot: int) -> bool:
    """Whether the platform failed the gang in this slot, so that it is refunded before the slot is over."""
    return award["again"] is not None and award["cut"] <= slot < award["again"]


def _money_of_awards(awards: list[dict[str, Any]], settled: dict[int, int]) -> Iterator[str]:
    """held + settled + refunded + kept = paid, each slot is paid once, and what is over holds nothing."""
    entries: defaultdict[int, list[tuple[str, int | None, int, int]]] = defaultdict(list)
    for award_id, kind, slot, account, amount in run(_MONEY):
        entries[award_id].append((kind, slot, account, int(amount)))
    outages = run('SELECT pool_id, start, "end" FROM scheduling_outage')
    for award in awards:
        name = f"award {award['id']} ({award['state']}, [{award['start']}, {award['end']}), cut {award['cut']})"
        mine = entries.pop(award["id"], [])
        available, hold = 8 * award["tenant"], 8 * award["tenant"] + 1
        held = sum(amount for _, _, account, amount in mine if account == hold)
        owners = defaultdict(int)
        for kind, _, account, amount in mine:
            if kind in ("settle", "cancel") and account not in (available, hold):
                owners[kind] += amount
        back = sum(amount for kind, _, account, amount in mine if kind != "hold" and account == available)
        if held + owners["settle"] + owners["cancel"] + back != award["paid"]:
            yield f"{name}: held {held}, settled {owners['settle']}, kept {owners['cancel']}, back {back} of {award}"
        if back != award["returned"]:
            yield f"{name}: {back} came back, its row says {award['returned']}"
        due = {
            slot: sum(amount for _, amount in parts)
            for slot, parts in zip(range(award["start"], pays_until(award)), award["charges"], strict=False)
            if any(amount for _, amount in parts)
        }
        last = settled.get(award["pool"], -1)
        missed = {
            slot for slot in due if _is_missed(award, slot, outages) and (slot <= last or _came_back(award, slot))
        }
        due = {slot: amount for slot, amount in due.items() if slot not in missed}
        slots = [slot for kind, slot, account, _ in mine if kind == "settle" and account == hold]
        passed = [] if award["rent"] == "open" else [slot for slot in due if slot <= last]
        if award["adjusted"]:  # what came back is taken from each slot, perhaps all of it
            wrong = len(set(slots)) != len(slots) or not set(slots) <= set(passed)
            to_come = max(sum(due.values()) - award["adjusted"] - owners["settle"], 0)
            if missed:
                to_come = award["paid"] - award["returned"] - owners["settle"]
        else:
            wrong = sorted(slots) != sorted(passed)
            to_come = sum(amount for slot, amount in due.items() if slot not in passed)
        if wrong:
            yield f"{name}: slots {sorted(slots)} are paid, {sorted(passed)} are due, settled up to {last}"
        if held != to_come:
            yield f"{name}: {held} is held, and {due} is due after slot {last}, rent {award['rent']}"
        if award["adjusted"] and (award["rent"] != "closed" or award["adjusted"] > award["returned"]):
            yield f"{name}: {award['adjusted']} came back as alone was better, rent {award['rent']}"
    yield from (f"award {award_id}: the book tells of it, and there is none" for award_id in entries)


_UNDONE = """
SELECT award.id, award.job_id, award.paid, award.returned
  FROM scheduling_award AS award
  JOIN scheduling_trainingjob AS job ON job.id = award.job_id
  JOIN scheduling_pool AS pool ON pool.id = award.pool_id
 WHERE pool.batch_policy ->> 'parts' = 'nothing' AND award.work IS NOT NULL AND award.state <> 'void'
   AND (job.state IN ('expired', 'rejected') OR (job.state = 'failed' AND job.reason_code = 'given_up'))
   AND NOT EXISTS (SELECT FROM scheduling_jobfloor AS floor WHERE floor.job_id = job.id AND floor.value > 0)
"""


def paid_for_nothing() -> list[str]:
    """At rest, where parts are worth nothing: who never had a place at home and was not done has all back, but for what
    a lost piece delivered."""
    return [
        f"job {job} was never done, and {back} of {paid} came back for award {award}"
        for award, job, paid, back in run(_UNDONE)
        if back != paid
    ]


def _balances() -> Iterator[str]:
    total = 0
    for account, amount, guarded, of_entries in run(_BALANCES):
        total += amount
        if amount != of_entries:
            yield f"account {account}: {amount} by its balance, {of_entries} by its entries"
        if account >= 8 and (amount < 0 or not guarded):
            yield f"account {account}: {amount}, guarded: {guarded}"
    if total:
        yield f"all balances add up to {total}"


def _slots_paid_once(awards: list[dict[str, Any]]) -> Iterator[str]:
    """No job pays for a slot under two awards."""
    by_job: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for award in awards:
        for slot in range(award["start"], pays_until(award)):
            other = by_job[award["job"]].setdefault(slot, award["id"])
            if other != award["id"]:
                yield f"job {award['job']}: awards {other} and {award['id']} both have slot {slot}"


def _jobs_and_awards(
    awards: list[dict[str, Any]], jobs: dict[int, tuple[str, int, int, int]], elastic: set[int], work: dict[int, int]
) -> Iterator[str]:
    """A job that has a schedule has one that is alive, or two where it goes on in pieces, and one that waits has none.
    Pieces do the whole work once, unless a program was not done where its plan was."""
    alive: defaultdict[int, int] = defaultdict(int)
    done: defaultdict[int, int] = defaultdict(int)
    in_pieces: set[int] = set()
    for award in awards:
        if award["work"] is not None:
            in_pieces.add(award["job"])
            done[award["job"]] += award["work"] if award["state"] != "void" else 0
        if award["state"] in ALIVE and award["attempt"] == jobs[award["job"]][1]:
            alive[award["job"]] += 1
        if award["state"] in ALIVE and award["attempt"] != jobs[award["job"]][1]:
            # A piece that was delivered, and that a late clock has still to settle, before the job is looked at again.
            if award["work"] is not None and award["end"] <= jobs[award["job"]][3]:
                continue
            yield f"award {award['id']}: {award['state']}, and its job is at another attempt"
    for number, (state, attempt, pool, _) in jobs.items():
        if pool in elastic:
            continue
        if state in ("awarded", "running") and not 1 <= alive[number] <= (2 if number in in_pieces else 1):
            yield f"job {number}: {state} at attempt {attempt}, with {alive[number]} awards alive"
        if state in ("queued", "rejected", "expired") and alive[number]:
            yield f"job {number}: {state}, with {alive[number]} awards alive"

    for number, amount in done.items():
        if number in work and amount > work[number]:
            yield f"job {number}: its awards do {amount} mini-batches, of {work[number]}"


# Of jobs that run no program, which may have more to do than was planned.
_WORK = """
SELECT id, (spec->>'epochs')::int * (spec->>'chunks')::int * coalesce((spec->>'minibatches')::int, 1)
  FROM scheduling_trainingjob WHERE NOT spec ? 'program'
"""


def _sold_again() -> Iterator[str]:
    for award_id, slot, amount, sold in run(
        "SELECT award_id, slot, amount, sold FROM scheduling_freedunits WHERE sold > amount + 1e-9"
    ):
        yield f"award {award_id}: of {amount} units given up in slot {slot}, {sold} were sold"


_FLOORS = """
SELECT interval.slot, floor.tenant_id, job.pool_id, floor.allocation, floor.worker_type, floor.ps_type, job.spec
  FROM scheduling_jobfloor AS floor JOIN scheduling_trainingjob AS job ON job.id = floor.job_id
  JOIN scheduling_interval AS interval ON interval.id = floor.interval_id
 WHERE floor.attempt = job.attempt AND NOT floor.draft
"""
_CELLS = """
SELECT cell.tenant_id, cell.server_id, kind.name, cell.units
  FROM scheduling_cell AS cell JOIN scheduling_resourcekind AS kind ON kind.id = cell.resource_id
"""


def _floors_side_by_side(settled: dict[int, int]) -> Iterator[str]:
    """In the world in which a tenant is alone its floors fit beside each other, whatever was lost and came back."""
    cells = {(tenant, server, name): units for tenant, server, name, units in run(_CELLS)}
    losses = run("SELECT id, lost_after, lost_from FROM scheduling_server WHERE lost_from IS NOT NULL")
    lost = {server: (after, first) for server, after, first in losses}
    used: defaultdict[tuple[int, int, str, int], float] = defaultdict(float)
    for given_at, tenant, pool, allocation, worker_type, ps_type, spec in run(_FLOORS):
        demands = (_demand(json.loads(spec), "worker", worker_type), _demand(json.loads(spec), "ps", ps_type))
        rows = json.loads(allocation)
        if any(server in lost and given_at <= lost[server][0] and lost[server][1] < end for server, _, end, *_ in rows):
            continue  # void, also once the server is back
        for server, start, end, *counts in rows:
            for slot in range(max(start, settled.get(pool, -1) + 1), end):
                for demand, count in zip(demands, counts, strict=True):
                    for name, amount in demand.items():
                        used[tenant, server, name, slot] += amount * count
    for (tenant, server, name, slot), amount in used.items():
        if amount > cells.get((tenant, server, name), 0) + 1e-9:
            yield f"tenant {tenant}: floors take {amount:g} {name} on server {server} in slot {slot}, beyond its cells"


def _demand(spec: dict[str, Any], kind: str, index: int) -> dict[str, float]:
    """Of one type of unit, where a job knows several."""
    demand = spec[f"{kind}_demand"]
    return dict(demand[index] if isinstance(demand, list) else demand)
