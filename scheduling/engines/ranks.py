"""The members of each generation of a gang. The market says how many run on a server; here they get their ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduling.engines.base import Counts, Generation, Member


def ranked(
    generations: Sequence[Generation], before: Sequence[Member] = ()
) -> Iterator[tuple[Generation, tuple[Member, ...]]]:
    """Yield each generation with its members. `before` are the members that run when the first of them begins."""
    for generation in generations:
        before = members(generation.servers, before)
        yield generation, tuple(before)


def members(counts: Counts, before: Sequence[Member] = ()) -> tuple[Member, ...]:
    """Return the members of a generation. Members of the last one stay where they can; new ones get the lowest rank
    that no member of this or the last generation has.

    Where no worker or no parameter server can stay, all ranks begin at 0 again, as nobody is left who could hand over.
    """
    wanted = {(role, server): number for server, roles in counts.items() for role, number in roles.items() if number}
    rest, staying = dict(wanted), []
    for member in before:
        if rest.get((member.role, member.server), 0):
            rest[member.role, member.server] -= 1
            staying.append(member)
    if {member.role for member in staying} != {role for role, _ in wanted}:
        rest, staying, before = dict(wanted), [], ()
    in_use = {(member.role, member.rank) for member in before}
    ranks = staying
    for (role, server), number in sorted(rest.items()):
        for _ in range(number):
            rank = next(rank for rank in range(len(in_use) + 1) if (role, rank) not in in_use)
            in_use.add((role, rank))
            ranks.append(Member(role, rank, server))
    return tuple(ranks)
