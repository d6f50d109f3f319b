"""Read the names of the files in archives that were registered."""

from __future__ import annotations

import io
from functools import lru_cache

from scheduling.catalogue.read_entries import entries
from scheduling.programs.archives import FOLDER, parts_of
from scheduling.programs.stored import archive_pieces

MOST_REMEMBERED = 32  # archives whose names are kept; a registered archive never changes


def archive_names(digest: str) -> frozenset[tuple[bytes, ...]] | None:
    """Return the path of each file of a registered archive, in parts; None if its content is not kept any more."""
    try:
        return _names(digest)
    except LookupError:
        return None


@lru_cache(maxsize=MOST_REMEMBERED)
def _names(digest: str) -> frozenset[tuple[bytes, ...]]:
    """Read the names, or raise `LookupError`, which is not cached, as the content may be sent again."""
    if not (content := b"".join(archive_pieces(digest))):
        raise LookupError(digest)
    names = (parts_of(entry.name) for entry in entries(io.BytesIO(content)) if entry.kind != FOLDER)
    return frozenset(tuple(part.encode("utf-8", "surrogateescape") for part in parts) for parts in names)
