"""Awards run on engines: what an engine gets, what it reports, and what follows for the job and the money."""

from scheduling.runs.engines import LOCAL, accounted_of, engine_flaw, engine_openness, slurm_settings
from scheduling.runs.failures import ServerLost, awards_on, floors_on, server_lose
from scheduling.runs.read_measured import offer, offered
from scheduling.runs.read_ran import CLOSE_SECONDS, HEADS, Ran, charged_against_ran

__all__ = [
    "CLOSE_SECONDS",
    "HEADS",
    "LOCAL",
    "Ran",
    "ServerLost",
    "accounted_of",
    "awards_on",
    "charged_against_ran",
    "engine_flaw",
    "engine_openness",
    "floors_on",
    "offer",
    "offered",
    "server_lose",
    "slurm_settings",
]
