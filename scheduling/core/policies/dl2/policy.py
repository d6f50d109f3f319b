"""DL2 as a policy: a trained network deals out the coming slot unit by unit, and a teacher decides where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from scheduling.core.policies.dl2.choosing import Choose, DrawnAction, NotFinite, best, give_out
from scheduling.core.policies.dl2.files import BadWeights, Network, WeightFile, decode, shipped
from scheduling.core.policies.dl2.guard import Memory, reward, units
from scheduling.core.policies.dl2.slot import Slot, shares_of
from scheduling.core.scenario.fields import BadScenario, Section
from scheduling.core.types import REJECTED, Cluster, Job, Plan, Policy, Reason, Refusal, View

ACTIVE, SHADOW = "active", "shadow"
ARGMAX, DRAW = "argmax", "draw"
TEACHER = "dominant_resource_fairness"

Teachers = Mapping[str, Callable[[Mapping[str, Any], Cluster, Sequence[Job]], Policy]]


class _CarriedShares:
    """What the policy carries beside its settings. These are no fields of the dataclass."""

    _network: Network | None
    _unfit: str  # why there is no network
    _teacher: Policy


@dataclass(frozen=True, eq=False)
class Dl2(_CarriedShares):
    """The policy and its settings.

    `weights` is the file of the weights (None: shipped with the program), and `digest` that of its bytes. With `mode`
    shadow the teacher decides, and the network's decision is only remembered. With `choice` draw actions are drawn by
    their probabilities, seeded by `seed` and the slot; with argmax the likeliest is taken. `first_bundle` (None: as
    trained) gives each job its least gang before the network decides. Without `guard` the network is never compared
    with its teacher. `since` is the first slot of these weights, where they replaced others in a live pool."""

    name: ClassVar[str] = "dl2"
    weights: str | None = None
    digest: str = ""
    teacher: str = TEACHER
    mode: str = ACTIVE
    choice: str = ARGMAX
    seed: int = 1
    first_bundle: bool | None = None
    guard: bool = True
    since: int | None = None
    network: InitVar[Network | str] = "weights_untrained"
    taught_by: InitVar[Policy | None] = None

    def __post_init__(self, network: Network | str, taught_by: Policy | None) -> None:
        unfit = network if isinstance(network, str) else ""
        if taught_by is None and (unfit or self.guard or self.mode == SHADOW):
            raise ValueError("nobody decides in place of the network")
        carried: dict[str, Any] = {"_network": None if unfit else network, "_unfit": unfit, "_teacher": taught_by}
        for name, value in carried.items():
            object.__setattr__(self, name, value)

    def decide(self, view: View) -> Plan:
        """Book one slot for every job that gets a gang. The teacher decides at most once, even if its plan is needed
        for several purposes."""
        memory = Memory.read(view.memory).under(self.since)
        if memory.guard is None and self._unfit:
            memory = memory.handed_over(view.slot, self._unfit)
        if not view.waiting:
            return Plan(memory=memory.document())
        own = None
        if memory.guard is None and self._network is not None:
            try:
                own = self._own(self._network, view, memory)
            except NotFinite:
                memory = memory.handed_over(view.slot, "output_not_finite")
        if own is not None and not self.guard and self.mode == ACTIVE:
            return replace(own, memory=memory.after(own, view).document())
        taught = self._teacher.decide(replace(view, memory=dict(memory.teacher)))
        memory = memory if taught.memory is None else replace(memory, teacher=taught.memory)
        if own is not None:
            memory = self._compared(own, taught, view, memory)
        plan = own if own is not None and memory.guard is None and self.mode == ACTIVE else taught
        return replace(plan, memory=memory.after(plan, view).document())

    def _compared(self, own: Plan, taught: Plan, view: View, memory: Memory) -> Memory:
        rewards = reward(own, view), reward(taught, view)
        if self.mode == SHADOW:
            shadow = {
                "slot": view.slot,
                "reward": rewards[0],
                "teacher_reward": rewards[1],
                "units": units(own.bookings),
            }
            memory = replace(memory, shadow=shadow)
        return memory.judged(view.slot, *rewards) if self.guard else memory

    def _own(self, network: Network, view: View, memory: Memory) -> Plan:
        """Return the network's plan for the slot."""
        shape = network.shape
        if self.first_bundle is not None and self.first_bundle != shape.first_bundle:
            shape = replace(shape, first_bundle=self.first_bundle)
        shares, never = shares_of(view, lambda job: memory.ran.get(str(job.number), 0))
        slot = Slot(view, shares, shape)
        choose: Choose = DrawnAction(np.random.default_rng((self.seed, view.slot))) if self.choice == DRAW else best
        with np.errstate(all="ignore"):  # only the results are checked
            for batch in slot.batches():
                batch.open()
                give_out(network.weights, batch, choose)
        return slot_plan(slot, never, view)


def slot_plan(slot: Slot, never: Sequence[Job], view: View) -> Plan:
    """Return a plan with a booking for every job that holds a gang. Units of a job that holds less stay idle."""
    refusals = [Refusal(job.number, Reason("no_room", {"asked": job.min_workers}), REJECTED) for job in never]
    refusals += [
        Refusal(share.job.number, Reason("no_room", {"asked": share.job.min_workers}))
        for share in slot.shares
        if not share.runs
    ]
    return Plan(tuple(share.booking(view) for share in slot.shares if share.runs), refusals)


@dataclass(frozen=True, eq=False)
class OfflineRl(Dl2):
    """The same networks, trained in a simulator of fitted speed functions and never on what really happened."""

    name: ClassVar[str] = "offline_rl"


FIELDS = ("weights", "digest", "teacher", "mode", "choice", "seed", "first_bundle", "guard", "since")


def builder(kind: type[Dl2], teachers: Teachers) -> Callable[[Mapping[str, Any], Cluster, Sequence[Job]], Dl2]:
    """Return the function that builds DL2, or OfflineRL, with the settings of a scenario. `teachers` are the policies
    by name; these two cannot be teachers themselves."""

    def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Dl2:
        section = Section(fields, "policy", FIELDS)
        name, network = _network(section, kind.name)
        among = [teacher for teacher in teachers if teacher not in (Dl2.name, OfflineRl.name)]
        teacher = section.choice("teacher", among, TEACHER)
        return kind(
            weights=name,
            digest="" if isinstance(network, str) else network.digest,
            teacher=teacher,
            mode=section.choice("mode", (ACTIVE, SHADOW), ACTIVE),
            choice=section.choice("choice", (ARGMAX, DRAW), ARGMAX),
            seed=section.whole("seed", kind.seed, least=0),
            first_bundle=_true_or_false(section, "first_bundle", kind.first_bundle),
            guard=bool(_true_or_false(section, "guard", kind.guard)),
            since=section.whole("since", None, least=0),
            network=network,
            taught_by=_taught_by(teacher, teachers, cluster, jobs),
        )

    return build


def _network(section: Section, shipped_as: str) -> tuple[str | None, Network | str]:
    """Return the name of the file of weights and the network in it, or why that cannot be used."""
    weights_name = section.raw("weights", None)
    if isinstance(weights_name, str):
        raise BadScenario("policy.weights", "names a file, which only a command on files reads")
    if weights_name is not None and not isinstance(weights_name, WeightFile):
        raise BadScenario("policy.weights", "must be the name of a file")
    try:
        network = shipped(shipped_as) if weights_name is None else decode(weights_name.content)
    except BadWeights as error:
        raise BadScenario("policy.weights", str(error)) from None
    wanted = section.raw("digest", "")
    if wanted and (isinstance(network, str) or network.digest != wanted):
        raise BadScenario("policy.digest", "is that of other weights")
    return None if weights_name is None else weights_name.name, network


def _taught_by(name: str, teachers: Teachers, cluster: Cluster, jobs: Sequence[Job]) -> Policy:
    try:
        return teachers[name]({}, cluster, jobs)
    except BadScenario as error:
        raise BadScenario("policy.teacher", f"{name} cannot teach without settings of its own ({error})") from None


def _true_or_false(section: Section, name: str, default: bool | None) -> bool | None:
    value = section.raw(name, default)
    if value is not None and not isinstance(value, bool):
        raise BadScenario(section.at(name), "must be true or false")
    return default if value is None else value
