"""The role of PostgreSQL that owns the tables, for the few things that need it: migrations, rights, wiping a demo.

The product itself serves under another role, which may only do what `marketplace.upkeep.rights` lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.utils import load_backend

LOG_IN = ("USER", "PASSWORD", "HOST", "PORT", "OPTIONS")


def has_owner() -> bool:
    """Return whether there is an owning role. Otherwise the serving role owns the tables, as it did in
    older versions."""
    return settings.DATABASE_OWNER is not None


@contextmanager
def as_owner() -> Iterator[None]:
    """Use a connection of the owning role as this thread's default connection inside the block."""
    serving, owner = connections[DEFAULT_DB_ALIAS], settings.DATABASE_OWNER
    if owner is None:
        yield
        return
    if serving.in_atomic_block:
        raise RuntimeError("what the serving role has not committed yet is not there for the owning role")
    log_in = {name: owner[name] for name in LOG_IN}
    owning = load_backend(owner["ENGINE"]).DatabaseWrapper({**serving.settings_dict, **log_in}, DEFAULT_DB_ALIAS)
    connections[DEFAULT_DB_ALIAS] = owning
    try:
        yield
    finally:
        owning.close()
        connections[DEFAULT_DB_ALIAS] = serving
