"""Bourse for programs: one class with a small method for each operation, and errors that say what to do.

The names below are loaded when they are first used, so that the command line's help does not wait for the network's
code.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bourse_client.client import Client
    from bourse_client.errors import (
        BourseError,
        Conflict,
        Invalid,
        NotAllowed,
        NotFound,
        Refused,
        ServerFailed,
        TooManyCalls,
        Unreachable,
    )
    from bourse_client.transport import Pace

__version__ = "1.1.0"  # the version of the product whose interface it uses
__all__ = [
    "BourseError",
    "Client",
    "Conflict",
    "Invalid",
    "NotAllowed",
    "NotFound",
    "Pace",
    "Refused",
    "ServerFailed",
    "TooManyCalls",
    "Unreachable",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = {"Client": "client", "Pace": "transport"}.get(name, "errors")
    return getattr(import_module(f"bourse_client.{home}"), name)
