"""The product's own modules, for tests that look into its code."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def trees(*folders: str, naming: Collection[str]) -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the tree of each module below these folders that has one of these words anywhere. Others are
    not parsed: all modules together take seconds."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if any(word in text for word in naming):
                yield file.relative_to(ROOT).as_posix(), ast.parse(text)
