"""DL2's figures (its section 6). Those that only need baselines are here; the rest needs weights trained for it.

A figure with DL2 in it is one more `Figure` whose line names `{"name": "dl2", "weights": ...}`, added to `FIGURES`.
"""

from __future__ import annotations

from scheduling.management.reproduction.describing import Figure, Omitted

FIGURES: tuple[Figure, ...] = ()

OMITTED = tuple(
    Omitted(f"dl2-{number}", f"DL2, {where}", "needs networks trained with `manage.py train_dl2`")
    for number, where in (
        ("10", "Fig. 10"),
        ("13", "Fig. 13"),
        ("14", "Fig. 14"),
        ("15", "Fig. 15"),
        ("16", "Fig. 16"),
        ("17", "Fig. 17"),
        ("t2", "Table 2"),
    )
)
