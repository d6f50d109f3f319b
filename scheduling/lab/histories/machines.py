"""The machines of a cluster, read from what Slurm prints about its nodes, or made from numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

from scheduling.core.scenario import BadScenario
from scheduling.lab.histories.history import Machine
from scheduling.lab.histories.lines import digits

MOST = 20_000
LARGEST_NAME = 10**9  # the largest number in a node's name
NAMES = re.compile(r"[^,\[\]\s]*(?:\[[0-9,-]+\][^,\[\]\s]*)?")
MOST_UNITS = 10**6  # most units of a machine
GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)*:([0-9]+)(?=$|[,(])")  # a type may be a number: gpu:3090:8


def machines_read(text: str, unit: str, place: str) -> tuple[Machine, ...]:
    """Read machines from `scontrol show node --json`, or from `sinfo -N --format="%N|%c|%G|%P"`. Machines without units
    are left out."""
    nodes = _from_json(text, place) if text.lstrip().startswith("{") else _from_sinfo(text.splitlines(), place)
    machines_by_name: dict[str, Machine] = {}
    for name, cpus, gres, partitions in nodes:
        units = {"gpu": _gpus(gres), "cpu": cpus, "processor": cpus, "node": 1}[unit]
        if not 0 <= units <= MOST_UNITS:
            raise BadScenario(place, f"{name[:40]} must have 0 to {MOST_UNITS:,} units")
        earlier = machines_by_name[name].partitions if name in machines_by_name else ()
        machines_by_name[name] = Machine(name, units, tuple(dict.fromkeys((*earlier, *partitions))))
    machines = tuple(machine for machine in machines_by_name.values() if machine.units)
    if not 0 < len(machines) <= MOST:
        raise BadScenario(place, f"has {len(machines):,} machines with a {unit}; there must be 1 to {MOST:,}")
    return machines


def _gpus(gres: str) -> int:
    """Return the sum of all GPUs of `gpu:a100:4(S:0-1),gpu:3090:8`."""
    counts = [digits(number, MOST_UNITS) for number in GPUS.findall(gres)]
    return sum(MOST_UNITS + 1 if count is None else count for count in counts)


def _from_json(text: str, place: str) -> Iterable[tuple[str, int, str, tuple[str, ...]]]:
    try:
        nodes = json.loads(text)["nodes"]
        return [
            (
                str(node["name"]),
                int(node.get("cpus", 0)),
                str(node.get("gres") or ""),
                tuple(node.get("partitions") or ()),
            )
            for node in nodes
        ]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise BadScenario(place, "is not what `scontrol show node --json` prints") from None


def _from_sinfo(lines: Iterable[str], place: str) -> Iterable[tuple[str, int, str, tuple[str, ...]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("NODELIST|"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 4 or (cpus := digits(cells[1], MOST_UNITS)) is None:
            form = f'must be a line of `sinfo -N --format="%N|%c|%G|%P"`, not {line[:60]!a}'
            raise BadScenario(f"{place}, line {number}", form)
        for name in node_names(cells[0], f"{place}, line {number}"):
            yield name, cpus, cells[2], (cells[3].rstrip("*"),)


def alike(servers: int, units: int) -> tuple[Machine, ...]:
    """Return `servers` machines with `units` units each."""
    return tuple(Machine(f"s{number}", units) for number in range(1, servers + 1))


def node_names(text: str, place: str) -> list[str]:
    """Return the nodes of `n[1-3,07],gpu4`."""
    names: list[str] = []
    for part in _parts(text):
        head, bracket, rest = part.partition("[")
        if not NAMES.fullmatch(part) or not part:
            raise BadScenario(place, f"{part[:40]!a} names no nodes; they are written like n[1-3,7],gpu4")
        if not bracket:
            names.append(part)
            continue
        inside, _, tail = rest.partition("]")
        for span in inside.split(","):
            low, dash, high = span.partition("-")
            first, last = digits(low, LARGEST_NAME), digits(high if dash else low, LARGEST_NAME)
            if first is None or last is None or not 0 <= last - first < MOST:
                raise BadScenario(place, f"{part[:40]!a} names no nodes; they are written like n[1-3,7],gpu4")
            names += [f"{head}{number:0{len(low)}}{tail}" for number in range(first, last + 1)]
            if len(names) > MOST:
                raise BadScenario(place, f"names more than {MOST:,} nodes")
    return names


def _parts(text: str) -> list[str]:
    """Split the text at commas outside of brackets."""
    ends, is_inside = [], False
    for place, sign in enumerate(text):
        if sign in "[]":
            is_inside = sign == "["
        elif sign == "," and not is_inside:
            ends.append(place)
    return [text[before + 1 : end].strip() for before, end in pairwise([-1, *ends, len(text)])]


def cells_of_nodes(
    machines: tuple[Machine, ...], owners: tuple[str, ...], nodes: Mapping[str, str], place: str
) -> tuple[tuple[int, ...], ...]:
    """Return (machines, owners) cells where each owner has whole nodes, named by a list for each owner."""
    position = {machine.name: number for number, machine in enumerate(machines)}
    owner_of: dict[int, str] = {}
    for owner, names in nodes.items():
        for name in node_names(names, f"{place}.{owner}"):
            if name not in position:
                raise BadScenario(f"{place}.{owner}", f"{name} is none of the machines")
            if owner_of.setdefault(position[name], owner) != owner:
                raise BadScenario(f"{place}.{owner}", f"{name} is {owner_of[position[name]]}'s already")
    return tuple(
        tuple(machine.units if owner_of.get(number) == owner else 0 for owner in owners)
        for number, machine in enumerate(machines)
    )


def cells_of_counts(machines: tuple[Machine, ...], counts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return (machines, owners) cells where each owner has a number of units, dealt out machine by machine in order."""
    rest = list(counts)
    rows = []
    for machine in machines:
        free, row = machine.units, [0] * len(counts)
        for owner, wanted in enumerate(rest):
            row[owner] = min(wanted, free)
            free -= row[owner]
            rest[owner] -= row[owner]
        rows.append(tuple(row))
    return tuple(rows)


def shares_of(total: int, weights: tuple[float, ...]) -> tuple[int, ...]:
    """Return whole units in proportion to weights, by the largest remainders; of two equal ones the earlier comes
    first."""
    whole = sum(weights)
    exact = [total * weight / whole if whole else 0.0 for weight in weights]
    counts = [int(part) for part in exact]
    order = sorted(range(len(counts)), key=lambda k: (counts[k] - exact[k], k))
    for k in order[: total - sum(counts) if whole else 0]:
        counts[k] += 1
    return tuple(counts)
