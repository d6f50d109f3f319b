"""PostgreSQL and Valkey as children of ours, for `manage.py up`, the tests and the benchmarks.

Both listen on a socket file in a folder that only we and they may enter, and on no network at all. The addresses follow
from the folder, so they are known before anything runs. docs/decisions/0001 says why.
"""

from marketplace.embedded.programs import CannotStart, postgres_version
from marketplace.embedded.servers import DURABLE, FORGETFUL, Servers, announce, join_running
from marketplace.embedded.state import AlreadyRunning, State, state_for, write_private

__all__ = [
    "DURABLE",
    "FORGETFUL",
    "AlreadyRunning",
    "CannotStart",
    "Servers",
    "State",
    "announce",
    "join_running",
    "postgres_version",
    "state_for",
    "write_private",
]
