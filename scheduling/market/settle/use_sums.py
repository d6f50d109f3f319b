"""How every unit was used in some slots, summed by hour. These are pure sums over what awards held.

A unit is used (its owner's job is on it), lent (somebody else's job is on it), down (its server was lost, or the market
stood still) or unsold (none of these). Amounts are whole millionths of a unit, times slots. In each slot, server and
resource the four add up to the capacity, for each owner; and what all owners lend is what all tenants rent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tenants.ledger.split import split

MILLIONTHS = 1_000_000  # in one unit
OPERATOR = 0  # stands for the operator among tenants' ids: it owns what no cell covers
CAPACITY, USED, LENT, UNSOLD, DOWN, RENTED = range(6)  # indexes of an owner's sums


@dataclass(frozen=True)
class UsePlace:
    """One resource of a server. `units`, and `cells` by owner, are in millionths. `down` has spans [start, end) of
    slots.
    """

    server_id: int
    resource_id: int
    units: int
    cells: Mapping[int, int]
    down: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class UsePiece:
    """What a job holds at a place in slots [start, end), in millionths. `own` says that it runs on its owner's cells;
    `operator` is how much of the amount lies on the operator's units."""

    server_id: int
    resource_id: int
    tenant_id: int
    own: bool
    start: int
    end: int
    amount: int
    operator: int = 0


@dataclass
class UseSums:
    """Sums by hour (its index in `edges`) and resource: six sums for each owner; capacity, taken and down for each
    server."""

    owners: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)  # hour, resource, owner
    servers: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)  # hour, resource, server


def use_sums(
    places: Iterable[UsePlace], pieces: Iterable[UsePiece], edges: Sequence[int], *, parts_are_told: bool
) -> UseSums:
    """Sum up the slots from the first to the last of `edges`, which are the slots with which hours begin.

    `parts_are_told` says whether awards name their part on the operator's units. Otherwise a server is sold as a whole,
    and what is rented on it is split between all its owners, with the operator, in proportion to their idle units.
    """
    by_place: defaultdict[tuple[int, int], list[UsePiece]] = defaultdict(list)
    for piece in pieces:
        by_place[piece.server_id, piece.resource_id].append(piece)
    sums = UseSums()
    for place in places:
        _add_place(sums, place, by_place[place.server_id, place.resource_id], edges, parts_are_told)
    return sums


def _add_place(
    sums: UseSums, place: UsePlace, pieces: Sequence[UsePiece], edges: Sequence[int], parts_are_told: bool
) -> None:
    """Add the sums of one place. Between two slots at which anything changes all slots are alike, so one of them is
    computed and multiplied."""
    first, last = edges[0], edges[-1]
    changes: defaultdict[int, list[tuple[UsePiece, int]]] = defaultdict(list)
    for piece in pieces:
        if piece.start < last and piece.end > first:
            changes[max(piece.start, first)].append((piece, 1))
            changes[min(piece.end, last)].append((piece, -1))
    ends = (slot for span in place.down for slot in span if first < slot < last)
    slots = sorted({*edges, *changes, *ends})
    held: defaultdict[tuple[int, bool], int] = defaultdict(int)  # tenant, own -> amount
    on_operator, hour, begins = 0, -1, frozenset(edges[:-1])
    for start, end in pairwise(slots):
        hour += start in begins
        for piece, sign in changes[start]:
            held[piece.tenant_id, piece.own] += sign * piece.amount
            on_operator += sign * piece.operator
        is_down = any(begin <= start < over for begin, over in place.down)
        owners = _slot(place, held, on_operator if parts_are_told else None, is_down)
        for owner, row in owners.items():
            total = sums.owners.setdefault((hour, place.resource_id, owner), [0] * 6)
            for index, amount in enumerate(row):
                total[index] += amount * (end - start)
        server = sums.servers.setdefault((hour, place.resource_id, place.server_id), [0] * 3)
        for index, names in enumerate(((CAPACITY,), (USED, LENT), (DOWN,))):
            server[index] += sum(row[name] for row in owners.values() for name in names) * (end - start)


def _slot(
    place: UsePlace, held: Mapping[tuple[int, bool], int], on_operator: int | None, is_down: bool
) -> dict[int, list[int]]:
    """Map each owner to its six amounts in one slot.

    A job at home counts as used as far as its owner's cells reach. What it holds beyond them (cells that were given
    away after the award) counts as rented, like everything that is not at home.
    """
    used: defaultdict[int, int] = defaultdict(int)
    rented: defaultdict[int, int] = defaultdict(int)
    for (tenant_id, own), amount in held.items():
        at_home = min(amount, place.cells.get(tenant_id, 0)) if own else 0
        used[tenant_id] += at_home
        rented[tenant_id] += amount - at_home
    load = sum(rented.values())
    # All that is promised counts as there: capacity that was taken away under an award counts until the award ends.
    units = max(place.units, sum(place.cells.values()), sum(used.values()) + load)
    owned = {**place.cells, OPERATOR: units - sum(place.cells.values())}
    idle = {owner: amount - used[owner] for owner, amount in owned.items()}
    lent = _lent(idle, load, on_operator)
    rows = {}
    for owner, capacity in owned.items():
        rest = idle[owner] - lent[owner]
        rows[owner] = [capacity, used[owner], lent[owner], 0 if is_down else rest, rest if is_down else 0, 0]
    for tenant_id, amount in rented.items():
        rows.setdefault(tenant_id, [0] * 6)[RENTED] += amount
    return {owner: row for owner, row in rows.items() if any(row)}


def _lent(idle: Mapping[int, int], load: int, on_operator: int | None) -> dict[int, int]:
    """Split `load` between the owners in proportion to their idle units. As `load` is at most all that is idle, no
    owner lends more than it has idle."""
    lent = dict.fromkeys(idle, 0)
    if not load:
        return lent
    if on_operator is not None:
        homes = {owner: amount for owner, amount in idle.items() if owner != OPERATOR}
        at_home = min(max(load - on_operator, 0, load - idle[OPERATOR]), sum(homes.values()))
        lent[OPERATOR] = load - at_home
        idle, load = homes, at_home
    if load:
        lent |= dict(zip(idle, split(load, list(idle.values())), strict=True))
    return lent
