"""Read the jobs of a scenario: each row of the document becomes one `Job`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scheduling.core.scenario.fields import LARGEST, BadScenario, Section, amounts, number, quoted, suggestion
from scheduling.core.speed import exchange_seconds
from scheduling.core.types import (
    BATCH,
    INSTANT,
    FloatArray,
    Job,
    Samples,
    Tenant,
    UnitType,
    no_parameter_server,
    read_only,
)
from scheduling.core.types import Value as ValueFunction
from scheduling.core.value import KINDS

LANES = (BATCH, INSTANT)
RENT = ("never", "budget", "auto")
MODES = ("sync", "async")
OF_PS = ("update_seconds", "ps_mbps", "max_ps", "ps_ratio")  # fields that a job without parameter servers cannot have
MOST_CHUNKS = 10**6
MOST_WORK = 10**15  # mini-batches; below 2^53, so that a double counts them exactly
MOST_TYPES = 16
MOST_ARRIVAL = 1e9
MOST_WORKER_SLOTS = 1e8
SHORTEST, SLOWEST = 1e-9, 1e-6  # the least seconds of a mini-batch, and Mbit/s: nothing is divided by less

SAMPLE_FIELDS = {
    "samples": "total",
    "batch_size": "batch_size",
    "sample_seconds": "seconds",
    "internal_mbps": "internal_mbps",
    "ps_ratio": "ps_ratio",
    "mode": "mode",
    "speed": "speed",
    "model": "model",
}
FIELDS = (
    *("name", "tenant", "arrival", "lane", "priority", "epochs", "chunks", "minibatches"),
    *("minibatch_seconds", "update_seconds", "gradient_mb", "worker_mbps", "ps_mbps"),
    *(
        "worker_demand",
        "ps_demand",
        "min_workers",
        "max_workers",
        "max_ps",
        "asked_workers",
        "max_price",
        "rent",
        "value",
    ),
    *("divisible", "save_slots", "unbroken"),
    *SAMPLE_FIELDS,
)

# The bounds of each kind's numbers, with which the value never rises with time and is finite somewhere.
VALUE_BOUNDS: dict[str, dict[str, dict[str, float]]] = {
    "linear": {"slope": {}, "base": {}},
    "convex": {"scale": {"above": 0.0}, "power": {"least": 0.0}},
    "sigmoid": {"priority": {"least": 0.0}, "decay": {"least": 0.0}, "target": {}},
    "deadline": {"base": {"least": 0.0}, "deadline": {"least": 0.0}},
}
for _kind in ("linear", "sigmoid"):
    VALUE_BOUNDS[f"{_kind}_until"] = VALUE_BOUNDS[_kind] | {"until": {"least": 0.0}}


class ScenarioJobs:
    """Reads jobs for one cluster. Equal demands share one array: a long trace has few different ones."""

    def __init__(self, resources: Sequence[str], tenants: Sequence[Tenant], slot_seconds: float) -> None:
        self.resources = tuple(resources)
        self.slot_seconds = slot_seconds
        self.tenants = {tenant.name: number for number, tenant in enumerate(tenants)}
        self.budgets = [tenant.budget for tenant in tenants]
        self.names: dict[str, int] = {}
        self.demands: dict[tuple[tuple[str, float], ...], FloatArray] = {}
        self.types: dict[tuple[int, float, float], UnitType] = {}
        self._nothing = no_parameter_server(len(self.resources))

    def read(self, value: object, index: int) -> Job:
        """Return the job in row `index`."""
        row = Section(value, f"jobs[{index}]", FIELDS)
        name = self._name(row, index)
        tenant = self._tenant(row)
        epochs, chunks, minibatches = self._work(row)
        least, most = self._workers(row, chunks)
        gradient = row.number("gradient_mb", 0.0, least=0.0)
        worker_types, ps_types = self._types(row, gradient)
        self._check_length(row, epochs * chunks * minibatches, gradient, worker_types, ps_types)
        rent: str | None = row.choice("rent", RENT, None)
        if rent == "budget" and self.budgets[tenant] is None:
            raise BadScenario(row.at("rent"), f"needs tenants[{tenant}].budget")
        workers_wanted: int | None = row.whole("asked_workers", None)
        if workers_wanted is not None and not least <= workers_wanted <= most:
            raise BadScenario(row.at("asked_workers"), f"must be {least} to {most}, not {workers_wanted}")
        return Job(
            number=index,
            name=name,
            tenant=tenant,
            arrival=row.number("arrival", least=0.0, most=MOST_ARRIVAL),
            epochs=epochs,
            chunks=chunks,
            minibatches=minibatches,
            worker_types=worker_types,
            ps_types=ps_types,
            value=read_value(row.raw("value"), row.at("value")),
            gradient_mb=gradient,
            min_workers=least,
            max_workers=most,
            max_ps=row.whole("max_ps", None),
            asked_workers=workers_wanted,
            lane=row.choice("lane", LANES, BATCH),
            priority=row.whole("priority", 0, least=-(10**6), most=10**6),
            max_price=row.number("max_price", None, least=0.0),
            rent=rent,
            divisible=row.flag("divisible", False),
            save_slots=row.number("save_slots", 0.0, least=0.0),
            unbroken=row.flag("unbroken", False),
            samples=_samples(row),
        )

    def _name(self, row: Section, index: int) -> str:
        name = str(row.text("name"))
        first = self.names.setdefault(name, index)
        if first != index:
            raise BadScenario(row.at("name"), f"{quoted(name)} is already the name of jobs[{first}]")
        return name

    def _tenant(self, row: Section) -> int:
        name = row.text("tenant")
        if name not in self.tenants:
            raise BadScenario(row.at("tenant"), f"unknown tenant {quoted(name)}{suggestion(name, self.tenants)}")
        return self.tenants[name]

    def _work(self, row: Section) -> tuple[int, int, int]:
        epochs, chunks = row.whole("epochs"), row.whole("chunks", most=MOST_CHUNKS)
        minibatches = row.whole("minibatches", 1)
        if epochs * chunks * minibatches > MOST_WORK:
            raise BadScenario(row.place, f"epochs * chunks * minibatches must be at most {MOST_WORK:,}")
        return epochs, chunks, minibatches

    def _workers(self, row: Section, chunks: int) -> tuple[int, int]:
        most = chunks if not row.has("max_workers") else row.whole("max_workers")
        if most > chunks:
            raise BadScenario(row.at("max_workers"), f"must be at most chunks ({chunks}), not {most}")
        least = row.whole("min_workers", 1)
        if least > most:
            raise BadScenario(row.at("min_workers"), f"must be at most max_workers ({most}), not {least}")
        return least, most

    def _check_length(
        self, row: Section, work: int, gradient: float, workers: Sequence[UnitType], servers: Sequence[UnitType]
    ) -> None:
        """Refuse a job that takes a single worker too many slots on the slowest of its types."""
        seconds = max(worker.seconds + exchange_seconds(gradient, worker.mbps) for worker in workers)
        slots = work * (seconds + max(server.seconds for server in servers)) / self.slot_seconds
        if slots > MOST_WORKER_SLOTS:
            raise BadScenario(row.place, f"takes one worker {slots:g} slots, more than {MOST_WORKER_SLOTS:g}")

    def _types(self, row: Section, gradient: float) -> tuple[tuple[UnitType, ...], tuple[UnitType, ...]]:
        """Return the worker types and the parameter-server types. An empty `ps_demand` means that the job has no
        parameter servers. Without gradients bandwidths hardly matter and may be left out."""
        default_mbps = 1.0 if gradient == 0 else None
        workers = self._alternatives(
            row, "worker_demand", ("minibatch_seconds", None, SHORTEST), ("worker_mbps", default_mbps, SLOWEST)
        )
        if row.raw("ps_demand") in ([], ()):
            for name in OF_PS:
                if row.has(name):
                    raise BadScenario(row.at(name), "must be left out where ps_demand is []")
            return workers, (self._nothing,)
        fastest = max(worker.mbps for worker in workers)
        servers = self._alternatives(row, "ps_demand", ("update_seconds", 0.0, 0.0), ("ps_mbps", fastest, SLOWEST))
        return workers, servers

    def _alternatives(
        self, row: Section, demand: str, seconds: tuple[str, float | None, float], mbps: tuple[str, float | None, float]
    ) -> tuple[UnitType, ...]:
        """Return one type for each demand in the list (or for the one demand). In the other fields a single number
        holds for all types."""
        entry = row.raw(demand)
        several = isinstance(entry, list)
        if several and not 1 <= len(entry) <= MOST_TYPES:
            raise BadScenario(row.at(demand), f"must have 1 to {MOST_TYPES} alternatives, not {len(entry)}")
        places = [f"{row.at(demand)}[{k}]" for k in range(len(entry))] if several else [row.at(demand)]
        demands = [
            self._demand(value, place) for value, place in zip(entry if several else [entry], places, strict=True)
        ]
        all_seconds = _for_each(row, len(demands), several, *seconds)
        all_mbps = _for_each(row, len(demands), several, *mbps)
        return tuple(self._type(*parts) for parts in zip(demands, all_seconds, all_mbps, strict=True))

    def _demand(self, value: object, place: str) -> FloatArray:
        if isinstance(value, Mapping) and all(type(amount) in (int, float) for amount in value.values()):
            demand = self.demands.get(tuple(value.items()))
            if demand is not None:
                return demand
        checked = amounts(value, place, self.resources)
        if not any(checked.values()):
            raise BadScenario(place, "must take some amount of a resource")
        array: FloatArray = read_only([checked.get(resource, 0.0) for resource in self.resources])
        return self.demands.setdefault(tuple(checked.items()), array)

    def _type(self, demand: FloatArray, seconds: float, mbps: float) -> UnitType:
        key = (id(demand), seconds, mbps)
        if key not in self.types:
            self.types[key] = UnitType(demand, seconds, mbps)
        return self.types[key]


def _for_each(row: Section, count: int, several: bool, name: str, default: float | None, least: float) -> list[float]:
    """Return the numbers of a field, one for each of `count` alternatives."""
    value = row.raw(name) if default is None else row.raw(name, default)
    if not isinstance(value, list):
        return [number(value, row.at(name), least=least)] * count
    if not several or len(value) != count:
        raise BadScenario(row.at(name), f"must be one number, or one for each of the {count} alternatives")
    return [number(element, f"{row.at(name)}[{k}]", least=least) for k, element in enumerate(value)]


def read_value(value: object, place: str) -> ValueFunction:
    """Return the value function that {"kind": ..., its numbers} describes; refuse one that rises with time."""
    kind = Section(value, place, value if isinstance(value, Mapping) else ()).choice("kind", tuple(KINDS))
    bounds = VALUE_BOUNDS[kind]
    row = Section(value, place, ("kind", *bounds))
    numbers = {name: row.number(name, **bounds[name]) for name in bounds}
    if numbers.get("slope", 0.0) > 0:
        raise BadScenario(
            row.at("slope"), f"must be 0 or less, not {numbers['slope']:g}: a value never rises with time"
        )
    if kind == "convex" and numbers["power"] * math.log(numbers["scale"]) > math.log(LARGEST):
        raise BadScenario(place, f"is worth more than {LARGEST:g} after one slot")
    return KINDS[kind](**numbers)


def _samples(row: Section) -> Samples:
    if not any(row.has(name) for name in SAMPLE_FIELDS):
        return NO_SAMPLES
    speed = tuple(number(value, f"{row.at('speed')}[{k}]") for k, value in enumerate(row.array("speed", (), most=16)))
    return Samples(
        total=row.number("samples", None, above=0.0),
        batch_size=row.whole("batch_size", None),
        seconds=row.number("sample_seconds", None, above=0.0),
        internal_mbps=row.number("internal_mbps", None, above=0.0),
        ps_ratio=row.number("ps_ratio", None, above=0.0),
        mode=row.choice("mode", MODES, "sync"),
        speed=speed,
        model=row.text("model", ""),
    )


NO_SAMPLES = Samples()
