"""The machines of a cluster: from what Slurm says of its nodes, or as numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from scheduling.core.scenario import BadScenario
from scheduling.lab.histories.history import Machine

MOST = 20_000
NAMES = re.compile(r"[^,\[\]\s]*(?:\[[0-9,-]+\][^,\[\]\s]*)?")
GPUS = re.compile(r"(?:^|,)gpu(?::[A-Za-z][^:,()]*)?:([0-9]+)")


def machines_read(text: str, unit: str, place: str) -> tuple[Machine, ...]:
    """From `scontrol show node --json`, or from `sinfo -N --format="%N|%c|%G|%P"`; those without units are left out."""
    nodes = _from_json(text, place) if text.lstrip().startswith("{") else _from_sinfo(text.splitlines(), place)
    machines_by_name: dict[str, Machine] = {}
    for name, cpus, gres, partitions in nodes:
        units = {"gpu": sum(map(int, GPUS.findall(gres))), "cpu": cpus, "processor": cpus, "node": 1}[unit]
        known = machines_by_name[name].partitions if name in machines_by_name else ()
        machines_by_name[name] = Machine(name, units, tuple(dict.fromkeys((*known, *partitions))))
    machines = tuple(machine for machine in machines_by_name.values() if machine.units)
    if not 0 < len(machines) <= MOST:
        raise BadScenario(place, f"has {len(machines):,} machines with a {unit}; there must be 1 to {MOST:,}")
    return machines


def _from_json(text: str, place: str) -> Iterable[tuple[str, int, str, tuple[str, ...]]]:
    try:
        nodes = json.loads(text)["nodes"]
        return [
            (
                str(node["name"]),
                int(node.get("cpus", 0)),
                str(node.get("gres") or ""),
                tuple(node.get("partitions", ())),
            )
            for node in nodes
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadScenario(place, "is not what `scontrol show node --json` prints") from None


def _from_sinfo(lines: Iterable[str], place: str) -> Iterable[tuple[str, int, str, tuple[str, ...]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("NODELIST|"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 4 or not (cells[1].isascii() and cells[1].isdigit()):
            form = 'must be a line of `sinfo -N --format="%N|%c|%G|%P"`'
            raise BadScenario(f"{place}, line {number}", form)
        for name in node_names(cells[0], f"{place}, line {number}"):
            yield name, int(cells[1]), cells[2], (cells[3].rstrip("*"),)


def alike(servers: int, units: int) -> tuple[Machine, ...]:
    """So many machines with so many units each."""
    return tuple(Machine(f"s{number}", units) for number in range(1, servers + 1))


def node_names(written: str, place: str) -> list[str]:
    """The nodes of `n[1-3,07],gpu4`."""
    names: list[str] = []
    for part in _parts(written):
        head, bracket, rest = part.partition("[")
        if not NAMES.fullmatch(part) or not part:
            raise BadScenario(place, f"{part[:40]!a} names no nodes; they are written like n[1-3,7],gpu4")
        if not bracket:
            names.append(part)
            continue
        inside, _, tail = rest.partition("]")
        for span in inside.split(","):
            low, dash, high = span.partition("-")
            high = high if dash else low
            if not (low.isdigit() and high.isdigit()) or not 0 <= int(high) - int(low) < MOST:
                raise BadScenario(place, f"{part[:40]!a} names no nodes; they are written like n[1-3,7],gpu4")
            names += [f"{head}{number:0{len(low)}}{tail}" for number in range(int(low), int(high) + 1)]
    return names


def _parts(written: str) -> list[str]:
    """What stands between commas outside of brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", written)]


def cells_of_nodes(
    machines: tuple[Machine, ...], owners: tuple[str, ...], nodes: Mapping[str, str], place: str
) -> tuple[tuple[int, ...], ...]:
    """(machines, owners) cells where each owner has whole nodes, named by a list for each."""
    position = {machine.name: number for number, machine in enumerate(machines)}
    owner_of: dict[int, str] = {}
    for owner, written in nodes.items():
        for name in node_names(written, f"{place}.{owner}"):
            if name not in position:
                raise BadScenario(f"{place}.{owner}", f"{name} is none of the machines")
            if owner_of.setdefault(position[name], owner) != owner:
                raise BadScenario(f"{place}.{owner}", f"{name} is {owner_of[position[name]]}'s already")
    return tuple(
        tuple(machine.units if owner_of.get(number) == owner else 0 for owner in owners)
        for number, machine in enumerate(machines)
    )


def cells_of_counts(machines: tuple[Machine, ...], counts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """(machines, owners) cells where each owner has a number of units, dealt machine by machine in order."""
    left = list(counts)
    rows = []
    for machine in machines:
        free, row = machine.units, [0] * len(counts)
        for owner, wanted in enumerate(left):
            row[owner] = min(wanted, free)
            free -= row[owner]
            left[owner] -= row[owner]
        rows.append(tuple(row))
    return tuple(rows)


def shares_of(total: int, weights: tuple[float, ...]) -> tuple[int, ...]:
    """Whole units in proportion to weights, by the largest remainders; the earlier of two alike comes first."""
    whole = sum(weights)
    exact = [total * weight / whole if whole else 0.0 for weight in weights]
    counts = [int(part) for part in exact]
    order = sorted(range(len(counts)), key=lambda k: (counts[k] - exact[k], k))
    for k in order[: total - sum(counts) if whole else 0]:
        counts[k] += 1
    return tuple(counts)
