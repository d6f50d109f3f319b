"""Pictures of a repeated figure: curves with their spread where something is swept, else the bars of `compare`."""

from __future__ import annotations

import math
from typing import Any

from scheduling.lab.plots import INK, PANELS_ACROSS, QUIET, pictures, render
from scheduling.lab.reproduction.engine import Repeated
from scheduling.lab.reproduction.measuring import MEASURES

# The lines differ by marker and dashes as well as by colour.
STYLES = (
    ("#2A55D4", "o", "-"),
    ("#C2410C", "s", "--"),
    ("#0F766E", "^", "-."),
    ("#7E22CE", "D", ":"),
    ("#5F6570", "v", (0, (5, 1, 1, 1))),
    ("#B45309", "P", (0, (1, 1))),
)


def pictures_of(repeated: Repeated) -> dict[str, bytes]:
    """Return {"png": ..., "svg": ...}."""
    figure = repeated.figure
    heading = f"{figure.paper}: {figure.title}"
    if len(repeated.scale.values) == 1:
        columns = [repeated.column(line, 0) for line in range(len(figure.lines))]
        return pictures(heading, columns, figure.measures, _title)
    across, down = _panels(repeated)
    return render(lambda picture: _curves(picture, repeated, heading), 4.4 * across + 0.4, 3.4 * down + 1.0)


def _title(measure: str) -> str:
    return MEASURES[measure].title


def _panels(repeated: Repeated) -> tuple[int, int]:
    count = len(repeated.figure.measures)
    across = min(count, PANELS_ACROSS)
    return across, math.ceil(count / across)


def _curves(picture: Any, repeated: Repeated, heading: str) -> None:
    figure = repeated.figure
    across, down = _panels(repeated)
    panels = list(picture.subplots(down, across, squeeze=False).flat)
    for panel, measure in zip(panels, figure.measures, strict=False):
        _panel(panel, repeated, measure)
    for panel in panels[len(figure.measures) :]:
        panel.axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower left", ncols=min(len(labels), 3 * across), frameon=False)
    picture.suptitle(heading, x=0.01, ha="left", fontsize=12, color=INK)


def _panel(panel: Any, repeated: Repeated, measure: str) -> None:
    """Draw one measure over what is swept."""
    for place, line in enumerate(repeated.figure.lines):
        colour, marker, dashes = STYLES[place % len(STYLES)]
        points = [
            (x, y, spread)
            for x, y, spread in zip(
                repeated.scale.values, repeated.curve(place, measure), repeated.spread(place, measure), strict=True
            )
            if y is not None
        ]
        if points:
            x, y, spread = zip(*points, strict=True)
            panel.errorbar(
                x,
                y,
                yerr=spread,
                label=line.label,
                color=colour,
                marker=marker,
                linestyle=dashes,
                capsize=3,
                linewidth=1.6,
                markersize=5,
                elinewidth=0.9,
            )
    panel.set_title(_title(measure), loc="left", fontsize=10, color=INK)
    panel.set_xlabel(repeated.figure.axis, color=QUIET, fontsize=9)
    panel.set_xticks(repeated.scale.values, [f"{value:,g}" for value in repeated.scale.values])
    panel.yaxis.set_major_formatter(lambda number, _: f"{number + 0.0:,.6g}")
    panel.tick_params(colors=QUIET, labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
