"""The learning curve as a picture: mean completion on the validation draws round by round, beside that of the
teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.lab.plots import render

LINE, TEACHER, INK, QUIET = "#2A55D4", "#15171C", "#15171C", "#5F6570"


def pictures(curve: Sequence[Mapping[str, float]], teachers: float, teacher: str) -> dict[str, bytes]:
    """Return {"png": ..., "svg": ...}. The same curve gives the same bytes."""
    return render(lambda picture: _draw(picture.subplots(), curve, teachers, teacher), 9, 4)


def _draw(panel: Any, curve: Sequence[Mapping[str, float]], teachers: float, teacher: str) -> None:
    rounds = [row["round"] for row in curve]
    completions = [row["completion"] for row in curve]
    panel.plot(rounds, completions, color=LINE, linewidth=1.8, marker="o", markersize=3)
    panel.axhline(teachers, color=TEACHER, linewidth=1.2, linestyle="--")
    end, best = max([*rounds, 1]), completions.index(min(completions))
    near = {"textcoords": "offset points", "fontsize": 9}
    panel.annotate(teacher.replace("_", " "), (end, teachers), xytext=(0, 4), ha="right", color=INK, **near)
    panel.annotate("network", (end, completions[-1]), xytext=(6, 0), va="center", color=LINE, **near)
    panel.plot([rounds[best]], [completions[best]], color=LINE, marker="o", markersize=7)
    panel.annotate("kept", (rounds[best], completions[best]), xytext=(0, 8), ha="center", color=LINE, **near)
    low, high = min(*completions, teachers), max(*completions, teachers)
    room = 0.12 * ((high - low) or 1.0)
    panel.set_ylim(low - room, high + room)
    panel.set_xlim(0, end * 1.12)
    panel.set_title("mean completion on the validation draws, slots", loc="left", fontsize=10, color=INK)
    panel.set_xlabel("rounds after the warm-up", color=QUIET)
    panel.tick_params(colors=QUIET, labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
