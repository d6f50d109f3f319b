"""Slurm's commands: each with a time limit and clean surroundings, and its answer as a value."""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from scheduling.engines.slurm.settings import CPUS, GRES, MEMORY_MB, SlurmSettings

NOTHING: Mapping[str, str] = MappingProxyType({})
MOST_REMEMBERED = 10_000  # commands, where nobody asks how long they took
LIMIT_SECONDS = 3.0  # a command blocks for 9 s while its controller is away
# What a command says where the controller did not answer: nobody knows whether it was carried out.
NO_ANSWER = ("unable to contact", "socket timed out", "connection refused", "connection timed out",
             "timed out on send", "zero bytes", "transport endpoint", "temporarily unable", "unexpected message",
             "no route to host")  # fmt: skip


@dataclass(frozen=True)
class CommandAnswer:
    """`came`: the controller answered. `sentence`: what it said against it; empty where it did as it was told."""

    came: bool
    text: str = ""
    sentence: str = ""

    @property
    def is_good(self) -> bool:
        return self.came and not self.sentence


class Commands:
    """Of one cluster. They remember how long each took, until they are asked."""

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
        """Never raises. `variables` beside those that all commands have. `user`: as whom, if not as the service."""
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
        errors = [line.partition("error: ")[2] or line for line in done.stderr.strip().splitlines()]
        sentence = (errors[-1] if errors else f"{words[0]} ended with code {done.returncode}").strip().rstrip(".")[:200]
        came = not any(word in done.stderr.lower() for word in NO_ANSWER)
        return CommandAnswer(came, done.stdout, sentence)

    def drain(self) -> tuple[tuple[str, float], ...]:
        """Each command since this was last asked, and its seconds."""
        return tuple(self._spent.popleft() for _ in range(len(self._spent)))


def as_user(words: Sequence[str], user: str, environment: Mapping[str, str]) -> list[str]:
    """By the site's rule for sudo, which asks nobody; what sudo would take from the environment stands in the line."""
    if not user:
        return list(words)
    variables = [f"{name}={environment[name]}" for name in ("LC_ALL", "SLURM_CONF") if name in environment]
    return ["sudo", "-n", "-u", user, *variables, *words]


@dataclass(frozen=True)
class SlurmJob:
    """One job of ours that Slurm knows. Its id is good for commands of this moment only: ids are given out again."""

    id: str
    state: str
    reason: str
    user: str
    comment: str

    @property
    def is_over(self) -> bool:
        return self.state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "REQUEUED",
                                  "REQUEUE_HOLD", "RESIZING", "SIGNALING", "STAGE_OUT")  # fmt: skip


def queue(commands: Commands) -> tuple[CommandAnswer, list[SlurmJob]]:
    """All jobs of ours, also those that have ended, as long as Slurm remembers them."""
    settings = commands.settings
    answer = commands.run("squeue", "-h", "-t", "all", "-o", "%i|%T|%r|%u|%k", "-u", ",".join(settings.everybody))
    rows = [line.split("|", 4) for line in answer.text.splitlines()] if answer.is_good else []
    return answer, [SlurmJob(*row) for row in rows if len(row) == 5 and row[4].startswith(f"{settings.prefix}:")]


def comment(settings: SlurmSettings, key: str, generation: int, server: str) -> str:
    """The name under which we know a part for good."""
    return f"{settings.prefix}:{key}:{generation}:{server}"


def job_name(settings: SlurmSettings, key: str, generation: int) -> str:
    """Of all parts of a generation."""
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
    """The words of `sbatch` for a part: so many members of each role, which take these amounts of each resource."""
    load: dict[str, float] = {}
    for role, number in counts.items():
        for resource, amount in amounts.get(role, {}).items():
            if what := settings.resources.get(resource):
                load[what] = load.get(what, 0.0) + number * amount
    tasks = round_up(load.get(CPUS, float(sum(counts.values()))))
    words = ["sbatch", "--parsable", "-p", settings.partition, "-w", server, "-N1", f"-n{max(1, tasks)}"]
    words.append("--ntasks-per-core=1")  # a unit is a core, as nodes count them
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


def round_up(amount: float) -> int:
    """To the next whole number; what is a hair above one is that one."""
    return -int(-(amount - 1e-9) // 1)


def sinfo(commands: Commands) -> tuple[CommandAnswer, list[Sequence[str]]]:
    """Name, state, reason and address of each server of the partition."""
    answer = commands.run("sinfo", "-h", "-N", "-p", commands.settings.partition, "-o", "%N|%T|%E|%o")
    rows = [line.split("|", 3) for line in answer.text.splitlines()] if answer.is_good else []
    return answer, [row for row in rows if len(row) == 4]
