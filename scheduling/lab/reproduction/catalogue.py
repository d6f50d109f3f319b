"""The catalogue of every figure by its name, and of those that are not repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduling.core.scenario import BadScenario
from scheduling.core.scenario.fields import quoted, suggestion
from scheduling.lab.reproduction import astraea, dl2, dl2_training, guarantee, oasis, optimus, optimus_parts, pdors
from scheduling.lab.reproduction.describing import Figure, Omitted

PAPERS = (astraea, guarantee, oasis, pdors, optimus, optimus_parts, dl2, dl2_training)
FIGURES: Mapping[str, Figure] = {figure.name: figure for paper in PAPERS for figure in paper.FIGURES}
OMITTED: Sequence[Omitted] = [omitted for paper in PAPERS for omitted in getattr(paper, "OMITTED", ())]


def selection(names: Sequence[str]) -> list[Figure]:
    """Return the figures asked for, in their order here. `all` names every figure, and the name of a paper every figure
    of it."""
    wanted: set[str] = set()
    for name in names:
        figures_named = {key for key in FIGURES if name in ("all", key) or key.startswith(f"{name}-")}
        if not figures_named:
            omitted = next((row for row in OMITTED if row.name == name), None)
            if omitted is not None:
                raise BadScenario(name, f"is not repeated: {omitted.reason}")
            near = suggestion(name, FIGURES)
            raise BadScenario(name, f"there is no such figure {quoted(name)}{near}; `reproduce --list` has all")
        wanted |= figures_named
    return [figure for name, figure in FIGURES.items() if name in wanted]
