"""Acceptance examples with exact results, by subject; slots and names are those of the publications they follow."""

import json
from pathlib import Path
from typing import Any


def cases(name: str) -> list[dict[str, Any]]:
    """The examples of one subject: "astraea", "guarantee" or "oasis"."""
    document: list[dict[str, Any]] = json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    return document
