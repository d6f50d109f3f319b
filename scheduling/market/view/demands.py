"""The amounts that one worker or parameter server may take: multiples of the pool's steps, and for members of a program
at least one whole unit. The rule holds in the live market only; a scenario file may have any amount."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.fields import quoted
from scheduling.core.speed import exact, parameter_servers
from scheduling.core.types import Job, Reason
from scheduling.engines.launcher.limits import ProcessLimits

DEMANDS = ("worker_demand", "ps_demand")
ROLES = ("worker", "ps")
WORDS = {"worker": "worker", "ps": "parameter server"}
MOST_MEMBERS = ProcessLimits().processes - 1  # members of a gang; its coordinator is a process too
LARGEST_STEP = Decimal(10**9)  # the columns have six digits after the point and nine before it


@dataclass(frozen=True)
class AmountSteps:
    """The amounts of a resource that one unit may take: none, `least`, or any number of `step`s more. `least` is a
    multiple of `step`."""

    least: Decimal
    step: Decimal

    def __str__(self) -> str:
        return f"{amount_text(self.least)} or more in steps of {amount_text(self.step)}"

    def allow(self, amount: float) -> bool:
        """Return whether this amount is allowed. The decimal as written counts: 0.3 is three times 0.1."""
        return _allowed(self.least, self.step, amount)

    def nearest(self, amount: float) -> tuple[Decimal, Decimal]:
        """Return the allowed amounts just below and just above one that is not allowed."""
        wanted = exact(amount)
        if wanted < self.least:
            return Decimal(0), self.least
        below = self.step * (wanted // Fraction(self.step))
        return below, below + self.step


@lru_cache(maxsize=2**12)  # called for every new job, but people write only few different amounts
def _allowed(least: Decimal, step: Decimal, amount: float) -> bool:
    wanted = exact(amount)
    return wanted == 0 or (wanted >= least and (wanted / Fraction(step)).denominator == 1)


ONES = AmountSteps(Decimal(1), Decimal(1))


def steps_flaw(steps: AmountSteps) -> str | None:
    """Return what is wrong with the steps that an operator sets, or None if nothing is."""
    for name, amount in (("least amount", steps.least), ("step", steps.step)):
        digits = amount.as_tuple().exponent
        if not amount.is_finite() or not 0 < amount < LARGEST_STEP or (isinstance(digits, int) and digits < -6):
            return f"the {name} must be above 0 and below {LARGEST_STEP:,}, with up to six digits after the point"
    if steps.least % steps.step:
        return f"the least amount must be some steps of {amount_text(steps.step)}, not {amount_text(steps.least)}"
    return None


def demands_check(spec: Mapping[str, Any], steps: Mapping[str, AmountSteps]) -> None:
    """Check the demands of a specification that the core has read. Raises `BadScenario` at the first amount that is not
    allowed."""
    for field in (name for name in DEMANDS if name in spec):
        demands = spec[field]
        several = isinstance(demands, list)
        for index, demand in enumerate(demands if several else [demands]):
            for resource, amount in demand.items():
                if not steps[resource].allow(amount):
                    place = f"{field}[{index}].{resource}" if several else f"{field}.{resource}"
                    raise BadScenario(place, _sentence(steps[resource], amount))


def _sentence(steps: AmountSteps, amount: float) -> str:
    below, above = (amount_text(each) for each in steps.nearest(amount))
    return f"must be 0, or {steps}, not {quoted(amount)}; the nearest are {below} and {above}"


def amount_text(amount: Decimal) -> str:
    """Return the amount as a person writes it, without an exponent or trailing zeros."""
    return f"{amount.normalize():f}"


@dataclass(frozen=True)
class TooLittle:
    """A member that takes less than one whole unit. `index` is the position of its type among the alternatives.
    `resource` is the resource of which it must take one unit, empty if any would do. `takes` is the most that it takes
    of such a resource."""

    role: str
    index: int
    resource: str
    takes: float

    @property
    def sentence(self) -> str:
        of = f" of {self.resource}" if self.resource else " of a resource"
        return f"a {WORDS[self.role]} of a program must take at least one whole unit{of}, not {quoted(self.takes)}"

    @property
    def reason(self) -> Reason:
        """The same as a reason of the market."""
        return Reason("demand_too_small", {"role": self.role, "resource": self.resource, "takes": self.takes})


def member_too_little(job: Job, resources: Sequence[str]) -> TooLittle | None:
    """Return the first member of a program that would take less than a unit, or None. This keeps a server from starting
    more members than it has units. A worker must take a unit of a resource named after workers (`worker`,
    `worker-fast`), a parameter server one of a resource named `ps`. Where the pool has no such resource, a unit of any
    resource will do."""
    for role, types in zip(ROLES, (job.worker_types, () if job.all_reduce else job.ps_types), strict=True):
        own = [index for index, name in enumerate(resources) if role_of(name) == role]
        for index, unit in enumerate(types):
            takes = max((unit.amounts[place] for place in own or range(len(resources))), default=0.0)
            if takes < 1:
                return TooLittle(role, index, resources[own[0]] if own else "", takes)
    return None


def role_of(resource: str) -> str | None:
    """Return the role that the resource is named after, `worker` or `ps`, or None."""
    named = re.match(r"(worker|ps)(?:[-_]|\Z)", resource)
    return named[1] if named else None


def members_check(job: Job, resources: Sequence[str], spec: Mapping[str, Any]) -> None:
    """Check that an engine can start the job's program as the specification asks. Raises `BadScenario` at the field
    that is too small or too large."""
    if little := member_too_little(job, resources):
        field = f"{little.role}_demand"
        place = f"{field}[{little.index}]" if isinstance(spec[field], list) else field
        raise BadScenario(f"{place}.{little.resource}" if little.resource else place, little.sentence)
    if (most := members_most(job)) > MOST_MEMBERS:
        fitting = (fewer for fewer in range(MOST_MEMBERS, 0, -1) if _members(job, fewer) <= MOST_MEMBERS)
        beside = "" if job.all_reduce else "with the parameter servers that its workers need, "
        sentence = f"must be at most {next(fitting, 0)}, not {job.max_workers}: {beside}"
        sentence += f"a gang would have {most} members, and an engine starts {MOST_MEMBERS} of a program"
        raise BadScenario("max_workers", sentence)


def members_most(job: Job) -> int:
    """Return the number of members of the job's largest gang: all its workers, and the parameter servers they need."""
    return _members(job, job.max_workers)


def _members(job: Job, workers: int) -> int:
    if job.all_reduce:
        return workers
    needed = max(parameter_servers(workers, worker.mbps, ps.mbps) for worker in job.worker_types for ps in job.ps_types)
    return workers + (needed if job.max_ps is None else min(needed, job.max_ps))


def within_engine(job: Job) -> Job:
    """Return the job limited to the members that an engine starts. The parameter servers need a limit because a policy
    gives as many as make the job faster, and nothing else limits them."""
    if job.all_reduce:
        return replace(job, max_workers=min(job.max_workers, MOST_MEMBERS))
    workers = min(job.max_workers, MOST_MEMBERS - 1)
    beside = MOST_MEMBERS - workers
    return replace(job, max_workers=workers, max_ps=beside if job.max_ps is None else min(job.max_ps, beside))
