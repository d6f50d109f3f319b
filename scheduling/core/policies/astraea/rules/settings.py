"""The public settings of Astraea: their presets, their checks, and the defaults that follow from a scenario's jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any

import numpy as np

from scheduling.core.policies.astraea.rules.estimates import values_per_unit_slot
from scheduling.core.policies.astraea.rules.trailing import DEFAULTS, THETA_LEAST, Trailing
from scheduling.core.scenario.fields import BadScenario, Section, choice
from scheduling.core.types import Cluster, FloatArray, Job

GEOMETRIC = "geometric"
THETA_FACTOR, THETA_QUANTILE = DEFAULTS["factor"], DEFAULTS["quantile"]  # L7
PRICE_FLOOR_SHARE = 0.01  # of the median value of a unit-slot (section 9, defaults)
Figures = Callable[[], list[FloatArray]]

POSTED, SEARCHED = "posted", "searched"  # the price rises with what is sold, or one price is found by trying several
PRORATED, NOTHING = "prorated", "nothing"  # what the parts of a job that is never finished are worth
MOST_DIVIDEND = 0.99
LATER = {"shown": "where it is not the default"}  # for fields added later, so that stored documents stay the same

MOST_ROUNDS = 1000
MOST_FACTOR = 100.0
MOST_BATCHES = 100  # the most batches whose figures are remembered
MOST_WINDOW = 10**5  # the most slots of a window, which is held in memory server by server
CLOCK: dict[str, Any] = {"first": 1, "cap": 32, "restart": True}

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "clock": GEOMETRIC,
        "own_price": "shadow",
        "floor": False,
        "price_floor": 0.0,
        "price_counts": "cluster",
        "payment": "gross",
        "value_from": "round_start",
        "upgrade": False,
    },
    "guarantee": {
        "clock": CLOCK,
        "own_price": "zero",
        "floor": True,
        "price_floor": None,  # from the jobs
        "price_counts": "pool",
        "payment": "net",
        "value_from": "arrival",
        "upgrade": True,
    },
}
COMMON: dict[str, Any] = {
    "theta": None,
    "trailing": None,
    "rounds": 1,
    "intervals": None,
    "workers": "range",
    "server_choice": "lowest_index",
    "price": POSTED,
    "dividend": 0.0,
    "unit_value": None,
    "parts": PRORATED,
}


@dataclass(frozen=True)
class Settings:
    """The settings of Astraea. The modes differ only in these fields; `mode` only names the preset they came from."""

    mode: str
    theta: dict[str, float]  # price base by resource, at least 2 (R14, R28)
    rounds: int  # lambda: rounds of one geometric batch (R4)
    clock: str | dict[str, Any]  # "geometric", or first, cap and restart (R2-R4, L1-L2)
    intervals: int | None  # how many boundaries are decided in all; None: no limit
    workers: str  # "range": any count up to the most; "exact": the most (R8)
    server_choice: str  # "lowest_index" | "least_used" (R17)
    own_price: str  # the price that steers phase one on shares: "shadow" | "own" | "zero" (R19)
    floor: bool  # home cells, floor plan, crossing, and the tenants' rent and lend policies (G1-G5, G9)
    price_floor: dict[str, float]  # by resource, added to what a renter is charged (G6)
    price_counts: str  # a price rises with all use in the "cluster", or with what is rented of the "pool" (R14, G6)
    payment: str  # "gross", or "net" of the payer's own contribution (R22, G7)
    value_from: str  # value counts from "round_start" or "arrival" (R16, G8)
    upgrade: bool  # whether jobs that phase one served are offered the pool too (G5)
    trailing: Trailing | None  # theta begins as given and then follows the jobs of the last batches (L7)
    price: str = field(default=POSTED, metadata=LATER)  # "posted" (G6) | "searched" (K8)
    dividend: float = field(default=0.0, metadata=LATER)  # the owners' share of what renting gains, below 1
    # By resource, the median value of a unit-slot, of which searched prices are multiples (K8); empty if none are.
    unit_value: dict[str, float] = field(default_factory=dict, metadata=LATER)
    # What the parts of a job that is never finished are worth (D10): "prorated", their share of its value, or
    # "nothing". With "nothing" their cost is due only once the job is done (D16).
    parts: str = field(default=PRORATED, metadata=LATER)

    def by_resource(self, amounts: Mapping[str, float], cluster: Cluster) -> FloatArray:
        """Return the amounts (resources,) in the cluster's order."""
        return np.array([amounts[resource] for resource in cluster.resources])


def read_settings(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> dict[str, Any]:
    """Return all fields, checked, with presets and defaults filled in. Raises BadScenario naming the field."""
    names = [field.name for field in dataclass_fields(Settings)]
    values = {name: value for name, value in Section(fields, "policy", names).fields.items() if value is not None}
    mode = Section(values, "policy", names).choice("mode", tuple(PRESETS), "paper")
    section = Section({**COMMON, **PRESETS[mode], **values}, "policy", names)
    workers = section.choice("workers", ("range", "exact"))

    def figures() -> list[FloatArray]:
        return values_per_unit_slot(cluster, jobs, exact=workers == "exact")

    settings = {
        "mode": mode,
        "theta": _theta(section, cluster, figures),
        "rounds": section.whole("rounds", most=MOST_ROUNDS),
        "clock": _clock(section.raw("clock")),
        "intervals": section.whole("intervals", None, least=0),
        "workers": workers,
        "server_choice": section.choice("server_choice", ("lowest_index", "least_used")),
        "own_price": section.choice("own_price", ("shadow", "own", "zero")),
        "floor": section.flag("floor"),
        "price_floor": _price_floor(section, cluster, figures),
        "price_counts": section.choice("price_counts", ("cluster", "pool")),
        "payment": section.choice("payment", ("gross", "net")),
        "value_from": section.choice("value_from", ("round_start", "arrival")),
        "upgrade": section.flag("upgrade"),
        "trailing": _trailing(section.raw("trailing")),
        "price": section.choice("price", (POSTED, SEARCHED)),
        "dividend": section.number("dividend", least=0.0, most=MOST_DIVIDEND),
        "unit_value": _unit_value(section, cluster, figures),
        "parts": section.choice("parts", (PRORATED, NOTHING)),
    }
    _check_together(settings, cluster)
    return settings


def _check_together(settings: Mapping[str, Any], cluster: Cluster) -> None:
    if settings["rounds"] > 1 and settings["clock"] != GEOMETRIC:
        raise BadScenario("policy.rounds", f"must be 1 where `clock` is not {GEOMETRIC}, not {settings['rounds']}")
    if settings["floor"] and cluster.cells is None:
        raise BadScenario("policy.floor", "the guarantee needs home cells: the servers must have `cells`")
    for name, usual in (("price", POSTED), ("dividend", 0.0)):
        if settings[name] != usual and not settings["floor"]:
            raise BadScenario(f"policy.{name}", "needs the guarantee: without floors there is no gain of renting")
    if settings["parts"] != PRORATED and not settings["floor"]:
        raise BadScenario("policy.parts", "needs the guarantee: without floors no job rents in pieces")


def _theta(section: Section, cluster: Cluster, figures: Figures) -> dict[str, float]:
    """Read theta. The default (L7) is 1 + 0.8 times the 0.9 quantile of the value of a unit-slot, at least 2."""

    def default(figures: FloatArray) -> float:
        return max(THETA_LEAST, 1.0 + THETA_FACTOR * float(np.quantile(figures, THETA_QUANTILE)))

    amounts = section.amounts("theta", cluster.resources, least=THETA_LEAST) if section.has("theta") else {}
    return _completed(amounts, cluster, figures, default, THETA_LEAST)


def _price_floor(section: Section, cluster: Cluster, figures: Figures) -> dict[str, float]:
    """Read one number for all resources, or one by resource. The default is 1 % of the median value of a unit-slot."""

    def default(figures: FloatArray) -> float:
        return PRICE_FLOOR_SHARE * float(np.median(figures))

    if not section.has("price_floor"):
        return _completed({}, cluster, figures, default, 0.0)
    if isinstance(section.raw("price_floor"), Mapping):
        amounts = section.amounts("price_floor", cluster.resources, least=0.0)
        return _completed(amounts, cluster, figures, default, 0.0)
    return dict.fromkeys(cluster.resources, section.number("price_floor", least=0.0))


def _unit_value(section: Section, cluster: Cluster, figures: Figures) -> dict[str, float]:
    """Read the usual value of a unit-slot (K8); the default is the median. Empty where prices are not searched."""
    if section.raw("price") != SEARCHED:
        return {}

    def default(figures: FloatArray) -> float:
        return float(np.median(figures))

    amounts = section.amounts("unit_value", cluster.resources, least=0.0) if section.has("unit_value") else {}
    return _completed(amounts, cluster, figures, default, 0.0)


def _completed(
    amounts: Mapping[str, float],
    cluster: Cluster,
    figures: Figures,
    default: Callable[[FloatArray], float],
    without_figures: float,
) -> dict[str, float]:
    """Return the amounts, with the default of each resource that is not given. The figures are worked out only if they
    are needed; a resource without figures gets `without_figures`."""
    if len(amounts) == len(cluster.resources):
        return {resource: amounts[resource] for resource in cluster.resources}
    return {
        resource: amounts.get(resource, default(figure) if len(figure) else without_figures)
        for resource, figure in zip(cluster.resources, figures(), strict=True)
    }


def _clock(value: object) -> str | dict[str, Any]:
    if isinstance(value, str):
        return choice(value, "policy.clock", (GEOMETRIC,))
    section = Section(value, "policy.clock", CLOCK)
    first = section.whole("first", CLOCK["first"], most=MOST_WINDOW)
    cap = section.whole("cap", max(first, int(CLOCK["cap"])), least=first, most=MOST_WINDOW)
    return {"first": first, "cap": cap, "restart": section.flag("restart", CLOCK["restart"])}


def _trailing(value: object) -> Trailing | None:
    if value is None:
        return None
    section = Section(value, "policy.trailing", tuple(DEFAULTS))
    return {
        "batches": section.whole("batches", DEFAULTS["batches"], most=MOST_BATCHES),
        "factor": section.number("factor", DEFAULTS["factor"], least=0.0, most=MOST_FACTOR),
        "quantile": section.number("quantile", DEFAULTS["quantile"], least=0.0, most=1.0),
        "least_jobs": section.whole("least_jobs", DEFAULTS["least_jobs"]),
    }
