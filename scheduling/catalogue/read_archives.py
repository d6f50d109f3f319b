"""What lies in archives that were registered: the names of their files."""

from __future__ import annotations

import io
from functools import lru_cache

from scheduling.catalogue.read_entries import entries
from scheduling.programs.archives import FOLDER, parts_of
from scheduling.programs.stored import archive_pieces

MOST_REMEMBERED = 32  # archives; what was registered never changes


@lru_cache(maxsize=MOST_REMEMBERED)
def archive_names(digest: str) -> frozenset[tuple[bytes, ...]]:
    """The path of each file of a registered archive, in parts."""
    file = io.BytesIO(b"".join(archive_pieces(digest)))
    names = (parts_of(entry.name) for entry in entries(file) if entry.kind != FOLDER)
    return frozenset(tuple(part.encode("utf-8", "surrogateescape") for part in parts) for parts in names)
