"""The Slurm engine on a Slurm that the bench starts: how late gangs begin, how soon many are submitted and seen, and
whether anybody is alive after the end of a slot.

ENDS=1000 slots end, of a few seconds each, with programs that do not want to end.
"""

from __future__ import annotations

import os
import secrets
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psutil

from scheduling.engines.base import Fault, Gang, Generation, Handle
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.parts import part_name
from scheduling.engines.slurm.engine import SlurmEngine
from tests.engines.local import people_of
from tests.engines.own import script, told_to_engines
from tests.engines.slurm.cluster import MISSING, WHY_NOT, cluster
from tests.engines.slurm.gangs import LONG, ended, engine_on, gang, launchers, look, runs, start

GANGS, ROUNDS = 4, 5
MANY, SERVERS = 64, 8
BESIDE, BRIEF = 2, 6.0  # gangs on each server at once, and seconds of a slot
STAYS_ON = "stays-on-"  # begins the word by which a program's processes are found, and nobody else's
COMES_WITHIN = 12.0  # seconds for all of them to be there, also on a machine that has much else to do
ENDS = int(os.environ.get("ENDS", "1000"))
# It ignores that it should end, and so do two others that it starts, one of them in a session of its own.
STAYS = "trap '' TERM HUP INT\nsetsid sh -c \"trap '' TERM; sleep 300\" &\n(trap '' TERM; sleep 300) &\nsleep 300\n"


def measure() -> Iterator[dict[str, Any]]:
    if MISSING:
        print(f"slurm: {WHY_NOT}")
        return
    nodes = [f"n{number}" for number in range(1, SERVERS + 1)]
    with cluster(nodes) as slurm:
        slurm.reserve()
        with engine_on(slurm) as engine:
            late, discovery = _starts(engine, nodes)
        starts = f"{len(late)} gangs, each on one server; {_median(late)}"
        yield _figure("start after the slot on free servers, p95", round(1000 * _p95(late)), "ms", "<= 1000", starts)
        yield _figure("a killed launcher is seen", round(discovery, 2), "s", "<= 5", "one of the two that watch")
        with engine_on(slurm) as engine:
            late = _back_to_back(engine, nodes)
        detail = f"{len(late)} gangs, each after another that had all of its server until then; {_median(late)}"
        yield _figure("start after the slot back to back, p95", round(1000 * _p95(late)), "ms", "<= 2000", detail)
        with engine_on(slurm) as engine:
            alive, slots, longest = _ends(engine, nodes)
        detail = f"of {slots} slots of {BRIEF:g} s; the last one was seen {-longest:.2f} s before the end"
        yield _figure("slots with somebody alive after the end", alive, "slots", "0", detail)
        # Nothing starts meanwhile: eight servers on one machine would take the processor from the engine.
        slurm.call("scontrol", "update", f"NodeName={','.join(nodes)}", "State=DRAIN", "Reason=bench")
        with engine_on(slurm) as engine:
            submitting, looking = _many(engine, nodes)
        many = f"{MANY} gangs on {SERVERS} servers that start nothing"
        yield _figure(f"{MANY * SERVERS} parts submitted", round(submitting, 2), "s", "<= 5", f"{many}, four at a time")
        yield _figure("one look at them", round(1000 * looking), "ms", "<= 300", f"{many}, with the question to Slurm")


def _figure(name: str, value: float, unit: str, target: str, detail: str) -> dict[str, Any]:
    load = f"load {psutil.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return {"name": name, "value": value, "unit": unit, "target": target, "detail": f"{detail}; {load}"}


def _starts(engine: SlurmEngine, nodes: list[str]) -> tuple[list[float], float]:
    """Return the seconds from slots to starts, and those from the end of a launcher until the engine reports it."""
    late = []
    for _ in range(ROUNDS):
        orders = [gang({node: {"worker": 1, "ps": 1}}, LONG, after=6.0) for node in nodes[:GANGS]]
        engine.submit(orders)
        handles = [answer for each in orders if (answer := engine.find(each.home, each.key))]
        for each, handle in zip(orders, handles, strict=True):
            late.append((runs(engine, handle).started_at or 0.0) - each.generations[0].at)
        for handle in handles:
            engine.stop(handle)
        for handle in handles:
            ended(engine, handle)
    handle = start(engine, gang({nodes[0]: {"worker": 1, "ps": 1}}))
    runs(engine, handle)
    launchers(handle, nodes[0])[1].kill()
    begin = time.monotonic()
    ended(engine, handle)
    return late, time.monotonic() - begin


def _back_to_back(engine: SlurmEngine, nodes: list[str]) -> list[float]:
    """Return the seconds from slots to starts when another gang leaves the whole server at that very moment."""
    late = []
    for _ in range(ROUNDS):
        at = time.time() + 6.0
        orders = []
        for node in nodes[:GANGS]:
            for begin in (at, at + BRIEF):
                whole = gang({node: {"worker": 1, "ps": 1}}, LONG)
                planned = Generation(1, begin, begin + BRIEF, {node: {"worker": 1, "ps": 1}})
                amounts = {"worker": {"worker": 7.0}, "ps": {"ps": 1.0}}
                orders.append(replace(whole, generations=(planned,), end_at=planned.end, amounts=amounts))
        answers = engine.submit(orders)
        for each in orders[1::2]:
            handle = answers[each.key]
            assert isinstance(handle, Handle), handle
            late.append((ended(engine, handle).started_at or float("inf")) - each.generations[0].at)
    return late


def _ends(engine: SlurmEngine, nodes: list[str]) -> tuple[int, int, float]:
    """Return in how many slots a process of the program was alive after the end; how many slots there were; and how
    many seconds after the end (below zero: before it) the last process was seen."""
    alive, slots, longest = 0, 0, -BRIEF
    while slots < ENDS:
        at = time.time() + COMES_WITHIN
        marks = [f"{STAYS_ON}{secrets.token_hex(8)}" for _ in nodes * BESIDE]
        orders = [_stubborn(node, at, mark) for node, mark in zip(nodes * BESIDE, marks, strict=True)]
        handles = [each for each in engine.submit(orders).values() if isinstance(each, Handle)]
        while time.time() < at + BRIEF:
            engine.touch()
            moment = time.time()
            if moment > at + BRIEF / 2 and people_of(STAYS_ON):
                longest = max(longest, moment - at - BRIEF)
            time.sleep(0.1)
        people = {mark for mark in marks if people_of(mark)} if people_of(STAYS_ON) else set()
        alive += len(people)
        statuses = [look(engine, handle) for handle in handles]
        begun = sum(status.started_at is not None for status in statuses)
        assert begun, f"nothing ran: {statuses[:1]}"
        slots += begun
        for handle in handles:
            ended(engine, handle)
    return alive, slots, longest


def _stubborn(node: str, at: float, mark: str) -> Gang:
    program = told_to_engines(script(STAYS), None, 60.0, {})
    program = replace(program, command=replace(program.command, variables={"MARK": mark}), grace_seconds=1.0)
    planned = Generation(1, at, at + BRIEF, {node: {"worker": 1, "ps": 0}})
    amounts = {"worker": {"worker": 1.0}, "ps": {"ps": 1.0}}
    key, end = secrets.token_hex(16), at + BRIEF
    return Gang(key, f"job-{key[:6]}", "script", {}, (planned,), end, amounts=amounts, own=program)


def _median(values: list[float]) -> str:
    return f"median {1000 * statistics.median(values):.0f} ms"


def _many(engine: SlurmEngine, nodes: list[str]) -> tuple[float, float]:
    """Return the seconds of one submission of all gangs, and those of one reading of all their states. This function
    writes what their launchers would report."""
    orders = [gang({node: {"worker": 2, "ps": 0} for node in nodes}, LONG, after=15.0) for _ in range(MANY)]
    begin = time.monotonic()
    answers = engine.submit(orders)
    submitting = time.monotonic() - begin
    handles = [answer for answer in answers.values() if isinstance(answer, Handle)]
    assert not any(isinstance(answer, Fault) for answer in answers.values())
    now = time.time()
    for handle in handles:
        for node in nodes:
            folder = Folder(engine.shared, handle.home, handle.key, part_name(1, node))
            folder.make()
            record = {
                "state": "waiting",
                "started_at": None,
                "restarts": 0,
                "progress": {},
                "beat": now,
                "delivered": [],
            }
            files.write(folder.state, record)
    spent = []
    for _ in range(10):
        engine.jobs.listing.at = 0.0  # each look asks Slurm
        begin = time.monotonic()
        engine.observe(handles)
        spent.append(time.monotonic() - begin)
    return submitting, statistics.median(spent)


def _p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]
