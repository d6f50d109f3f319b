"""Run Slurm's commands, each with a time limit and a clean environment, and return their answers as values."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from scheduling.engines.plans import round_up
from scheduling.engines.slurm.settings import CPUS, GRES, MEMORY_MB, SlurmSettings

NOTHING: Mapping[str, str] = MappingProxyType({})
MOST_REMEMBERED = 10_000  # durations of commands that are kept while nobody reads them
LIMIT_SECONDS = 3.0  # a command blocks for 9 s while its controller is away
# Words of an error message where the controller did not answer: nobody knows whether the command was carried out.
NO_ANSWER = ("unable to contact", "socket timed out", "connection refused", "connection timed out",
             "timed out on send", "zero bytes", "transport endpoint", "temporarily unable", "unexpected message",
             "no route to host")  # fmt: skip


@dataclass(frozen=True)
class CommandAnswer:
    """A command's answer. `came` is true where the controller answered. `sentence` is its error message, empty where
    the command was carried out."""

    came: bool
    text: str = ""
    sentence: str = ""

    @property
    def is_good(self) -> bool:
        return self.came and not self.sentence


class Commands:
    """Runs the commands of one cluster, and remembers how long each took until `drain` is called."""

    def __init__(self, settings: SlurmSettings) -> None:
        self.settings = settings
        self._spent: deque[tuple[str, float]] = deque(maxlen=MOST_REMEMBERED)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        self.environment |= {"LC_ALL": "C"} | ({"SLURM_CONF": settings.conf} if settings.conf else {})

    def run(
        self,
        *words: str,
        script: str = "",
        limit: float = LIMIT_SECONDS,
        variables: Mapping[str, str] = NOTHING,
        user: str = "",
    ) -> CommandAnswer:
        """Run a command; never raises. `variables` are set beside those that all commands have. `user` is the account
        it runs under, if not the service account."""
        begin = time.monotonic()
        try:
            done = subprocess.run(
                as_user(words, user, self.environment), env={**self.environment, **variables}, input=script,
                capture_output=True, text=True, timeout=limit, check=False, cwd="/", errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return CommandAnswer(False, sentence=f"{words[0]} did not answer within {limit:g} s")
        except OSError as error:
            return CommandAnswer(False, sentence=f"{words[0]} cannot be run: {error.strerror or error}")
        finally:
            self._spent.append((words[0], time.monotonic() - begin))
        if done.returncode == 0:
            return CommandAnswer(True, done.stdout)
        # scontrol says on standard output what it has not: "Reservation bourse not found".
        words_said = done.stderr.strip() or done.stdout.strip()
        errors = [line.partition("error: ")[2] or line for line in words_said.splitlines()]
        sentence = (errors[-1] if errors else f"{words[0]} ended with code {done.returncode}").strip().rstrip(".")[:200]
        came = not any(word in done.stderr.lower() for word in NO_ANSWER)
        return CommandAnswer(came, done.stdout, sentence)

    def drain(self) -> tuple[tuple[str, float], ...]:
        """Return each command since the last call, with the seconds that it took."""
        return tuple(self._spent.popleft() for _ in range(len(self._spent)))


def as_user(words: Sequence[str], user: str, environment: Mapping[str, str]) -> list[str]:
    """Return the words that run a command as another user, by the site's rule for sudo, which asks for no password.
    Variables that sudo would take out of the environment are given in the command line."""
    if not user:
        return list(words)
    variables = [f"{name}={environment[name]}" for name in ("LC_ALL", "SLURM_CONF") if name in environment]
    return ["sudo", "-n", "-u", user, *variables, *words]


@dataclass(frozen=True)
class SlurmJob:
    """One job of ours that Slurm knows. Its id is only good for commands right now, as Slurm uses ids again."""

    id: str
    state: str
    reason: str
    user: str
    key: str
    generation: int
    server: str

    @property
    def is_over(self) -> bool:
        return self.state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "REQUEUED",
                                  "REQUEUE_HOLD", "RESIZING", "SIGNALING", "STAGE_OUT")  # fmt: skip


def queue(commands: Commands) -> tuple[CommandAnswer, list[SlurmJob]]:
    """Return all jobs of ours, also those that have ended, for as long as Slurm remembers them.

    Whose users' jobs we list may give a job any comment. One that is not in our form is not ours. A comment may have
    several lines; those after its first one lack the mark, which is another one each time."""
    settings, mark = commands.settings, secrets.token_hex(8)
    form = f"{mark}|%i|%T|%r|%u|%k"
    answer = commands.run("squeue", "-h", "-t", "all", "-o", form, "-u", ",".join(settings.everybody))
    ours = re.compile(
        rf"{mark}\|(.+?)\|(.+?)\|(.*?)\|(.+?)\|{re.escape(settings.prefix)}:([0-9a-f]{{32}}):(\d{{1,9}}):(\S+)"
    )
    rows = [ours.fullmatch(line) for line in answer.text.splitlines()] if answer.is_good else []
    return answer, [_job_of(*row.groups()) for row in rows if row]


def _job_of(number: str, state: str, reason: str, user: str, key: str, generation: str, server: str) -> SlurmJob:
    return SlurmJob(number, state, reason, user, key, int(generation), server)


def comment(settings: SlurmSettings, key: str, generation: int, server: str) -> str:
    """Return the comment by which we identify a part for good."""
    return f"{settings.prefix}:{key}:{generation}:{server}"


def job_name(settings: SlurmSettings, key: str, generation: int) -> str:
    """Return the name that the jobs of all parts of a generation have."""
    return f"{settings.prefix}-{key}-{generation}"


def submission(
    settings: SlurmSettings,
    key: str,
    generation: int,
    server: str,
    *,
    counts: dict[str, int],
    amounts: dict[str, dict[str, float]],
    minutes: int,
    tenant: str,
    output: str,
) -> list[str]:
    """Return the words of `sbatch` for a part. `counts` has its members of each role, `amounts` what one member of a
    role takes of each resource."""
    load: dict[str, float] = {}
    for role, number in counts.items():
        for resource, amount in amounts.get(role, {}).items():
            if what := settings.resources.get(resource):
                load[what] = load.get(what, 0.0) + number * amount
    tasks = round_up(load.get(CPUS, float(sum(counts.values()))))
    words = ["sbatch", "--parsable", "-p", settings.partition, "-w", server, "-N1", f"-n{max(1, tasks)}"]
    words.append("--ntasks-per-core=1")  # a unit is a core: `nodes` counts a server's cores
    if settings.reservation:
        words.append(f"--reservation={settings.reservation}")
    if MEMORY_MB in load:
        words.append(f"--mem={round_up(load[MEMORY_MB])}M")
    gres = [f"{what[len(GRES) :]}:{round_up(number)}" for what, number in load.items() if what.startswith(GRES)]
    if wanted := [each for each in gres if not each.endswith(":0")]:
        words.append(f"--gres={','.join(wanted)}")
    if account := settings.accounts.get(tenant, settings.account):
        words += ["-A", account]
    words += [
        f"--time={minutes}", "--no-requeue", "-J", job_name(settings, key, generation),
        f"--comment={comment(settings, key, generation, server)}", "--export=NIL", "-D", "/", "-o", output,
    ]  # fmt: skip
    return words


def sinfo(commands: Commands) -> tuple[CommandAnswer, list[Sequence[str]]]:
    """Return name, state, address and reason of each server of the partition. A reason, which people write, comes last,
    as it may have any sign."""
    answer = commands.run("sinfo", "-h", "-N", "-p", commands.settings.partition, "-o", "%N|%T|%o|%E")
    rows = [line.split("|", 3) for line in answer.text.splitlines()] if answer.is_good else []
    return answer, [row for row in rows if len(row) == 4]
