"""Sum up arrays of jobs, each in one line: how many of its members are in which state, and what they pay in all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, F, Min, Q, Sum

from scheduling.models import Award, JobArray, JobState, TrainingJob
from scheduling.models.jobs import LIVE_STATES


@dataclass(frozen=True)
class ArraySums:
    """One array in sums. `states` maps each state in which there are members to how many there are, in the order of a
    job's life. `price` is the sum of what its members show, in micro-credits. `together` says whether they are bought
    in one interval, all or none."""

    array: JobArray
    first_job: int
    states: Mapping[str, int]
    price: int
    together: bool

    @property
    def size(self) -> int:
        return len(self.array.indexes)

    @property
    def is_alive(self) -> bool:
        return any(state in self.states for state in LIVE_STATES)

    @cached_property
    def in_words(self) -> str:
        """Return the states in words, such as "7 finished, 2 running"."""
        return ", ".join(f"{count:,} {JobState(state).label.lower()}" for state, count in self.states.items())


def array_sums(arrays: Collection[int]) -> dict[int, ArraySums]:
    """Return the sums of those of these arrays that are the open tenant's, by id. Takes three queries, and none without
    any array."""
    if not arrays:
        return {}
    rows = {array.pk: array for array in JobArray.objects.filter(pk__in=arrays).select_related("pool", "submitted_by")}
    members = TrainingJob.objects.filter(array__in=rows).order_by()
    bound = Count("pk", filter=Q(together=True))
    counts = members.values("array", "state").annotate(count=Count("pk"), first=Min("pk"), bound=bound)
    states: dict[int, dict[str, int]] = {number: {} for number in rows}
    first: dict[int, int] = {}
    together = set[int]()
    for count in counts:
        number = count["array"]
        together |= {number} if count["bound"] else set()
        states[number][count["state"]] = count["count"]
        first[number] = min(first.get(number, count["first"]), count["first"])
    awards = Award.objects.filter(job__array__in=rows).order_by()
    paid = dict(awards.values_list("job__array").annotate(sum=Sum(F("paid") - F("returned"))))
    return {
        number: ArraySums(array, first[number], _in_order(states[number]), paid.get(number, 0), number in together)
        for number, array in rows.items()
    }


def array_by_id(array_id: int) -> ArraySums | None:
    """Return the sums of an array of the open tenant."""
    return array_sums([array_id]).get(array_id)


def jobs_of_array(array_id: int) -> list[TrainingJob]:
    """Return the array's members that are not over, with their pool."""
    rows = TrainingJob.objects.filter(array=array_id, state__in=LIVE_STATES)
    return list(rows.select_related("pool").order_by("array_place"))


def _in_order(states: Mapping[str, int]) -> dict[str, int]:
    return {state: states[state] for state in JobState.values if state in states}
