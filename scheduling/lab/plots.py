"""The figures of a comparison as a picture: one panel for each figure, a bar for each policy, the spread across its
end.

Bars begin at zero and have their names at the left, so that no colours must be distinguished; the number is at the end
of each. The same columns give the same bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from scheduling.lab.comparison import VariantColumn, title

PANELS_ACROSS = 3
MANY, PANELS_ACROSS_MANY = 8, 5  # with more bars than that a picture becomes wide, not tall
BAR, SPREAD, INK, QUIET, BAND = "#2A55D4", "#15171C", "#15171C", "#5F6570", "#F1F3F7"


def pictures(
    heading: str, columns: Sequence[VariantColumn], measures: Sequence[str], named: Callable[[str], str] = title
) -> dict[str, bytes]:
    """Return {"png": ..., "svg": ...} of the measures that are known of any policy."""
    names = [measure for measure in measures if any(column.mean(measure) is not None for column in columns)]
    across = PANELS_ACROSS if len(columns) <= MANY else PANELS_ACROSS_MANY
    down = math.ceil(len(names) / across)

    def draw(picture: Any) -> None:
        panels = picture.subplots(down, across, squeeze=False).flat
        for number, panel in enumerate(panels):
            if number < len(names):
                _panel(panel, columns, names[number], labelled=number % across == 0)
                panel.set_title(named(names[number]), loc="left", fontsize=10, color=INK)
            else:
                panel.axis("off")
        picture.suptitle(heading, x=0.01, ha="left", fontsize=12, color=INK)

    return render(draw, 13 if across == PANELS_ACROSS else 20, 0.9 + down * (0.75 + 0.30 * len(columns)))


def render(draw: Callable[[Any], None], width: float, height: float) -> dict[str, bytes]:
    """Return {"png": ..., "svg": ...} of what `draw` draws on an empty picture of `width` by `height` inches."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "bourse", "svg.fonttype": "none", "font.size": 9}):
        picture = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(picture)
        draw(picture)
        return {
            "png": _saved(picture, "png", dpi=150, metadata={"Software": None}),
            "svg": _saved(picture, "svg", metadata={"Date": None}),
        }


def _saved(picture: Any, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.savefig(stream, format=form, facecolor="white", **options)
    return stream.getvalue()


def _panel(panel: Any, columns: Sequence[VariantColumn], measure: str, *, labelled: bool) -> None:
    """Draw one measure, with the first policy at the top."""
    places = range(len(columns), 0, -1)
    means = [column.mean(measure) or 0.0 for column in columns]
    spreads = [column.spread(measure) or 0.0 for column in columns]
    panel.barh(places, means, height=0.62, color=BAR, alpha=0.85, zorder=2)
    for place in places[1::2]:  # the eye follows a row to panels without names
        panel.axhspan(place - 0.5, place + 0.5, color=BAND, linewidth=0, zorder=0)
    varied = [k for k, spread in enumerate(spreads) if spread]
    panel.errorbar(
        [means[k] for k in varied],
        [places[k] for k in varied],
        xerr=[spreads[k] for k in varied],
        fmt="none",
        ecolor=SPREAD,
        elinewidth=1.2,
        capsize=3,
        zorder=3,
    )
    _scale(panel, means, spreads)
    for place, column, mean, spread in zip(places, columns, means, spreads, strict=True):
        _number(panel, place, column, measure, max(mean + spread, 0.0))
    panel.set_yticks(places, [column.label for column in columns] if labelled else [""] * len(columns))
    panel.tick_params(axis="y", length=0)
    panel.tick_params(axis="x", colors=QUIET, labelsize=8)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.axvline(0, color=INK, linewidth=0.8)


def _scale(panel: Any, means: Sequence[float], spreads: Sequence[float]) -> None:
    """Set the axis so that zero is always in the picture, and there is room for the numbers to the right of the
    bars."""
    low = min(0.0, *(mean - spread for mean, spread in zip(means, spreads, strict=True)))
    high = max(0.0, *(mean + spread for mean, spread in zip(means, spreads, strict=True)))
    width = (high - low) or 1.0
    panel.set_xlim(low - 0.03 * width if low < 0 else 0.0, high + 0.42 * width)
    panel.set_ylim(0.4, len(means) + 0.6)
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(4, min_n_ticks=2, integer=all(mean == int(mean) for mean in means)))
    panel.xaxis.set_major_formatter(lambda number, _: f"{number + 0.0:,.6g}")


def _number(panel: Any, place: int, column: VariantColumn, measure: str, end: float) -> None:
    panel.annotate(
        column.text(measure, nothing="not defined"),
        (end, place),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=INK if column.mean(measure) is not None else QUIET,
    )
