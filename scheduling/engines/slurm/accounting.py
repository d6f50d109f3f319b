"""Read what Slurm's own accounting says of our jobs. It asks `sacct`, which needs a site that runs slurmdbd."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from scheduling.engines.base import Accounted
from scheduling.engines.slurm.commands import Commands

FIELDS = "JobName,NodeList,Start,End"
LIMIT_SECONDS = 10.0  # sacct takes long for a long period
# With these, sacct reads moments in UTC and prints seconds since 1970.
MOMENTS = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}


def accounted(commands: Commands, since: float, until: float) -> list[Accounted] | str:
    """Return the parts of our jobs between two moments (seconds since 1970), or a sentence that says why they are not
    known."""
    settings = commands.settings
    words = ["sacct", "-n", "-P", "-X", "-S", _moment(since), "-E", _moment(until + 1.0)]
    words += ["-u", ",".join(settings.everybody), "-o", FIELDS]
    answer = commands.run(*words, limit=LIMIT_SECONDS, variables=MOMENTS)
    if not answer.is_good:
        return f"Slurm's accounting cannot be asked ({answer.sentence}): only what launchers delivered is known."
    return accounted_read(answer.text, settings.prefix)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def accounted_read(text: str, prefix: str) -> list[Accounted]:
    """Read lines `name|server|begin|end` of parts. Other jobs of the account, and those that never began, are left
    out."""
    rows = []
    for line in text.splitlines():
        name, _, rest = line.partition("|")
        match = re.fullmatch(rf"{re.escape(prefix)}-([0-9a-f]+)-([0-9]+)", name)
        fields = re.fullmatch(r"([^|,\[\]]+)\|([0-9]+)\|([0-9]+|Unknown)", rest)
        if match and fields:
            end = None if fields[3] == "Unknown" else float(fields[3])
            rows.append(Accounted(match[1], int(match[2]), fields[1], float(fields[2]), end))
    return rows
