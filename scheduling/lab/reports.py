"""The report of a run on the screen: its jobs if they are few, its tenants, its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scheduling.core.scenario import Scenario
from scheduling.core.types import AWARDED
from scheduling.lab.tables import Cell, figure, table

FEW_JOBS = 40
FEW_TENANTS = 20

# Why the guard took the decisions from a network.
GUARD = {
    "weights_untrained": "there are no trained weights",
    "weights_outdated": "its weights were made for another version of the program",
    "weights_not_finite": "its weights are not all numbers",
    "output_not_finite": "its output was no number",
    "reward_poor": "for three slots its reward was below half of the teacher's",
}

Document = Mapping[str, Any]


def report(name: str, scenario: Scenario, result: Document) -> str:
    """Return the whole summary of one run."""
    parts = [_title(name, scenario, result)]
    if "guard" in result:
        parts.append(_guard(result["policy"]["teacher"], result["guard"]))
    if 0 < len(result["jobs"]) <= FEW_JOBS:
        parts.append(_jobs(scenario, result))
    elif unserved := _reasons(result["jobs"]):
        parts.append(unserved)
    if 0 < len(result["tenants"]) <= FEW_TENANTS:
        rows = [[row["name"], row["gain"], row["alone"], row["fairness_ratio"]] for row in result["tenants"]]
        parts.append(table(("tenant", "gain", "alone", "fairness ratio"), rows))
    return "\n\n".join([*parts, figures(result), _units(scenario)])


def line(name: str, result: Document) -> str:
    """Return the summary of one run among many."""
    metrics = result["metrics"]
    return (
        f"{name}: {result['policy']['name']}, {metrics['awarded']:,} of {len(result['jobs']):,} jobs awarded, "
        f"revenue {figure(metrics['revenue'])}, {result['seconds']['total']:.2f} s"
    )


def _title(name: str, scenario: Scenario, result: Document) -> str:
    policy = result["policy"]
    mode = f" ({policy['mode']})" if isinstance(policy.get("mode"), str) else ""
    cluster = scenario.cluster
    size = f"{len(cluster.servers):,} servers, {len(cluster.tenants):,} tenants, {len(scenario.jobs):,} jobs"
    return f"{name}: {policy['name']}{mode}, {size}, {scenario.slots:,} slots"


def _units(scenario: Scenario) -> str:
    """Return the sentence that says in which units everything is counted."""
    seconds = figure(scenario.cluster.slot_seconds)
    return f"Amounts in credits, times in slots of {seconds} s from 0; utilisation until the last job ends (makespan)."


def _guard(teacher: str, guard: Mapping[str, Any]) -> str:
    """Return the sentence that says which policy decided in place of the network, and why."""
    why = GUARD.get(guard["code"], guard["code"])
    return f"{teacher} decided in place of the network from slot {guard['slot']} on: {why}."


def _jobs(scenario: Scenario, result: Document) -> str:
    """Return a table with a row for each job. The floor is shown where any job has one."""
    with_floor = any(row["floor"] for row in result["jobs"])
    headers = ["job", "tenant", "state", "phase", "placement", "start", "end", "workers", "ps", "value"]
    headers += [*(["floor"] if with_floor else []), "cost", "surplus", "paid", "to, or why not"]
    rows = [
        [row["name"], scenario.cluster.tenants[job.tenant].name, row["state"], *_job(row, with_floor=with_floor)]
        for job, row in zip(scenario.jobs, result["jobs"], strict=True)
    ]
    return table(headers, rows)


def _job(row: Document, *, with_floor: bool) -> list[Cell]:
    """Return the schedule and the terms; a job that has no schedule has no terms either."""
    floor = [row["floor"]] if with_floor else []
    schedule = ("start", "end", "workers", "ps", "value")
    terms = ("cost", "surplus", "paid")
    if not row["allocation"]:
        return ["", "", *[None] * len(schedule), *floor, *[None] * len(terms), _because(row["reason"])]
    where = [row["phase"] or "", row["placement"] or ""]
    whom = ", ".join(f"{owner} {figure(amount)}" for owner, amount in row["payouts"].items()) or _because(row["reason"])
    return [*where, *(row[name] for name in schedule), *floor, *(row[name] for name in terms), whom]


def _because(reason: Mapping[str, Any] | None) -> str:
    if reason is None:
        return ""
    numbers = ", ".join(
        f"{name} {value if isinstance(value, str) else figure(value)}"
        for name, value in reason.items()
        if name != "code" and isinstance(value, str | int | float)
    )
    return f"{reason['code']} ({numbers})" if numbers else str(reason["code"])


def _reasons(jobs: Iterable[Document]) -> str:
    counts = Counter((row["state"], row["reason"]["code"] if row["reason"] else "") for row in jobs)
    rows = [[state, code, count] for (state, code), count in counts.most_common() if state != AWARDED]
    return table(("state", "reason", "jobs"), rows) if rows else ""


def figures(result: Document) -> str:
    """Return every metric, one on a line."""
    rows = [*_flat(result["metrics"]), *((f"seconds {name}", length) for name, length in result["seconds"].items())]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {figure(value)}" for name, value in rows)


def _flat(metrics: Mapping[str, Any]) -> Iterable[tuple[str, float | None]]:
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from ((f"{name} {inner}".replace("_", " "), number) for inner, number in value.items())
        else:
            yield name.replace("_", " "), value


def scenario_line(scenario: Scenario) -> str:
    """Return how large a scenario is."""
    cluster = scenario.cluster
    units = ", ".join(
        f"{figure(total)} {name}" for name, total in zip(cluster.resources, cluster.total.tolist(), strict=True)
    )
    last = max((job.arrival for job in scenario.jobs), default=0.0)
    jobs, tenants, servers = (
        f"{number:,} {word if number == 1 else word + 's'}"
        for number, word in (
            (len(scenario.jobs), "job"),
            (len(cluster.tenants), "tenant"),
            (len(cluster.servers), "server"),
        )
    )
    return f"{jobs} of {tenants}, the last at slot {figure(last)} of {scenario.slots:,}; {servers} with {units}"
