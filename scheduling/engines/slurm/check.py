"""Find what in a cluster's configuration breaks our promises, each as a sentence. The check changes nothing and leaves
nothing behind: its probe is a job of a second on each server."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduling.engines.base import UP, ClusterFinding, Counts
from scheduling.engines.launcher import files
from scheduling.engines.launcher.one_file import launcher_file
from scheduling.engines.slurm.commands import Commands
from scheduling.engines.slurm.nodes import nodes_of
from scheduling.engines.slurm.settings import MEMORY_MB, TENANT

if TYPE_CHECKING:
    from scheduling.engines.slurm.engine import SlurmEngine

LONGEST_SLURMD_TIMEOUT, LEAST_JOB_AGE = 60, 300
RESERVED_AHEAD = timedelta(days=30)
CLOCKS_DIFFER = 0.5
PROBE_SECONDS = 15.0
LEAST_PYTHON, LEAST_ROOM = (3, 9), 2**20  # the second in bytes that must be free in the shared folder
MEMORY_DEFAULTS = ("DefMemPerCPU", "DefMemPerNode")
RECOMMENDED = {"batch_sched_delay": "0", "sched_interval": "1"}


def findings(engine: SlurmEngine, sold: Counts) -> list[ClusterFinding]:
    """Return all findings about a cluster. `sold` has the units of its pools, by server and resource; if it is empty,
    all servers of the partition are checked."""
    commands, conf = engine.commands, engine.settings.conf
    if conf and not os.path.isfile(conf):  # Slurm's commands would wait for an answer until they are ended
        return [ClusterFinding(f"Slurm is not asked: {conf}, which conf names, is no file here.")]
    answer = commands.run("scontrol", "show", "config")
    if not answer.is_good:
        return [ClusterFinding(f"Slurm does not answer: {answer.sentence}.")]
    states = engine.servers()
    here = frozenset(sold or states)
    missing = [
        ClusterFinding(f"The partition {engine.settings.partition} has no server {name}.")
        for name in sorted(here - set(states))
    ]
    if not states:
        missing.append(ClusterFinding(f"There is no partition {engine.settings.partition}, or it has no servers."))
    configuration = _table(answer.text)
    return [
        *_configuration(configuration),
        *_partition(engine, configuration),
        *_reservation(engine, here),
        *missing,
        *_capacity(engine, sold),
        *_accounts(engine),
        *_shared(engine, sorted(name for name in here if name in states and states[name].state == UP)),
    ]


def alerts(engine: SlurmEngine) -> tuple[str, ...]:
    """Return what keeps gangs from starting now, found without a probe: a reservation that is gone, or soon will be."""
    if not engine.settings.reservation:
        return ()
    return tuple(finding.sentence for finding in _reservation(engine, frozenset()) if finding.breaks)


def _configuration(config: Mapping[str, str]) -> Iterator[ClusterFinding]:
    if config.get("EnforcePartLimits", "").upper() not in ("ALL", "YES"):
        yield ClusterFinding("EnforcePartLimits is not ALL: a part that asks for too much would wait for ever.")
    if (timeout := _number(config.get("SlurmdTimeout"))) > LONGEST_SLURMD_TIMEOUT or not timeout:
        yield ClusterFinding(
            f"SlurmdTimeout is {timeout} s, not at most {LONGEST_SLURMD_TIMEOUT}: a lost server is told late."
        )
    if (age := _number(config.get("MinJobAge"))) < LEAST_JOB_AGE:
        yield ClusterFinding(
            f"MinJobAge is {age} s, not at least {LEAST_JOB_AGE}: how a job ended is forgotten too soon."
        )
    if config.get("PreemptMode", "OFF") != "OFF":
        yield ClusterFinding(f"PreemptMode is {config['PreemptMode']}: awards could be taken away by others.")
    if "cgroup" not in config.get("ProctrackType", ""):
        yield ClusterFinding(
            f"ProctrackType is {config.get('ProctrackType')}, not cgroup: processes that leave their session are only "
            "found by our launcher.",
            breaks=False,
        )
    parameters = dict(each.partition("=")[::2] for each in config.get("SchedulerParameters", "").split(","))
    for name, value in RECOMMENDED.items():
        if parameters.get(name) != value:
            yield ClusterFinding(
                f"SchedulerParameters should have {name}={value}: else gangs begin later.", breaks=False
            )


def _partition(engine: SlurmEngine, config: Mapping[str, str]) -> Iterator[ClusterFinding]:
    name = engine.settings.partition
    answer = engine.commands.run("scontrol", "show", "partition", name, "-o")
    if not answer.is_good:
        yield ClusterFinding(f"The partition {name} cannot be shown: {answer.sentence}.")
        return
    fields = _fields(answer.text)
    if fields.get("OverSubscribe", "NO") not in ("NO", "EXCLUSIVE"):
        yield ClusterFinding(
            f"OverSubscribe of the partition {name} is {fields['OverSubscribe']}: units could be given twice."
        )
    if fields.get("State", "UP") != "UP":
        yield ClusterFinding(f"The partition {name} is {fields['State']}.")
    if fields.get("PreemptMode", "OFF") != "OFF":
        yield ClusterFinding(
            f"PreemptMode of the partition {name} is {fields['PreemptMode']}: awards could be taken away."
        )
    if (most := _seconds(fields.get("MaxTime", ""))) is not None and most < engine.settings.longest_seconds:
        yield ClusterFinding(
            f"MaxTime of the partition {name} is {fields['MaxTime']}, less than the longest_hours of the engine "
            f"({engine.settings.longest_hours:g}): Slurm refuses gangs whose end is open."
        )
    yield from _memory(engine, config, fields)


def _memory(engine: SlurmEngine, config: Mapping[str, str], partition: Mapping[str, str]) -> Iterator[ClusterFinding]:
    """Yield a finding where Slurm counts memory, the pools do not, and the site sets no default: then a job takes all
    memory of its server."""
    if (
        "MEMORY" not in config.get("SelectTypeParameters", "").upper()
        or MEMORY_MB in engine.settings.resources.values()
    ):
        return
    if all("UNLIMITED" in each.get(name, "UNLIMITED") for each in (config, partition) for name in MEMORY_DEFAULTS):
        yield ClusterFinding(
            "Slurm counts memory, and neither the partition nor the cluster says how much a job has that asks for "
            "none: a gang takes all of its server, and no other one begins there. Set DefMemPerCPU, or have the pool "
            "count memory_mb."
        )


def _reservation(engine: SlurmEngine, servers: frozenset[str]) -> Iterator[ClusterFinding]:
    name = engine.settings.reservation
    if not name:
        yield ClusterFinding("There is no reservation: jobs of others may be in the way of what is sold.")
        return
    answer = engine.commands.run("scontrol", "show", "reservation", name, "-o")
    if not answer.is_good:
        yield ClusterFinding(f"The reservation {name} cannot be shown: {answer.sentence}.")
        return
    fields = _fields(answer.text)
    reserved = _hosts(engine.commands, fields.get("Nodes", ""))
    if less := sorted(servers - reserved):
        yield ClusterFinding(f"The reservation {name} does not have the servers {', '.join(less)}.")
    if more := sorted(reserved - servers):
        yield ClusterFinding(f"The reservation {name} has servers that no pool sells: {', '.join(more)}.", breaks=False)
    for user in sorted(set(engine.settings.everybody) - set(fields.get("Users", "").split(","))):
        yield ClusterFinding(f"The reservation {name} is not for the account {user}.")
    if fields.get("State") != "ACTIVE":
        yield ClusterFinding(f"The reservation {name} is {fields.get('State', 'unknown').lower()}.")
    try:
        ahead = datetime.fromisoformat(fields["EndTime"]) - datetime.now()  # noqa: DTZ005  Slurm prints its local time
    except (KeyError, ValueError):
        yield ClusterFinding(f"The end of the reservation {name} cannot be read.")
        return
    wanted = max(RESERVED_AHEAD, timedelta(hours=engine.settings.longest_hours))
    if ahead < wanted:
        yield ClusterFinding(f"The reservation {name} ends in {ahead.days} days, not in {wanted.days} or more.")
    if "SPEC_NODES" not in fields.get("Flags", "") or fields.get("PartitionName", "(null)") not in (
        "(null)",
        engine.settings.partition,
    ):
        yield ClusterFinding(f"The reservation {name} is not of whole servers of the partition.", breaks=False)


def _capacity(engine: SlurmEngine, sold: Counts) -> Iterator[ClusterFinding]:
    """Yield a finding for each server that has less than its pools sell of it."""
    answer, nodes = nodes_of(engine.commands)
    if not answer.is_good:
        yield ClusterFinding(f"The servers cannot be shown: {answer.sentence}.")
    for node in nodes:
        wanted: dict[str, int] = {}
        for resource, units in sold.get(node.name, {}).items():
            if what := engine.settings.resources.get(resource):
                wanted[what] = wanted.get(what, 0) + units
        for what, units in sorted(wanted.items()):
            if units > (there := node.amount(what)):
                yield ClusterFinding(f"The server {node.name} has {there} of {what}, and its pools sell {units}.")


def _accounts(engine: SlurmEngine) -> Iterator[ClusterFinding]:
    if openness := engine.settings.openness:
        yield ClusterFinding(openness, breaks=False)
        return
    for tenant, user in sorted(engine.settings.users.items()):
        yield from _user(engine, tenant, user)


def _user(engine: SlurmEngine, tenant: str, user: str) -> Iterator[ClusterFinding]:
    """Yield findings where we may not submit and cancel as the tenant's user, or cannot share folders with it."""
    for program in ("sbatch", "scancel"):
        answer = engine.commands.run(program, "--version", user=user)
        if not answer.is_good:
            yield ClusterFinding(f"Nothing of {tenant} can be run: {program} as {user}: {answer.sentence}.")
    try:
        group = pwd.getpwnam(user).pw_gid
    except KeyError:
        yield ClusterFinding(f"Nothing of {tenant} can be run: there is no user {user} here.")
        return
    if os.geteuid() != 0 and group not in os.getgroups():
        yield ClusterFinding(f"Nothing of {tenant} can be run: this account is not in the group of {user}.")


def _shared(engine: SlurmEngine, servers: list[str]) -> Iterator[ClusterFinding]:
    """Run a job on each server that writes its time and its Python's version into the shared folder, and yield what is
    wrong with these."""
    try:
        engine.touch()
        launcher = launcher_file(engine.shared)
        folder = engine.shared / "probes" / secrets.token_hex(4)
        folder.mkdir(parents=True)
        (folder / "room").write_bytes(bytes(LEAST_ROOM))  # on a full disk files can be made, but not filled
    except OSError as error:
        yield ClusterFinding(f"The shared folder {engine.shared} cannot be written here: {error.strerror or error}.")
        return
    refusals: dict[str, str] = {}
    for server in servers:
        target = folder / server
        answer = _probe(engine, server, launcher, target)
        if answer is None:
            continue
        refusals[server] = answer
    deadline = time.monotonic() + PROBE_SECONDS
    settings_by_name: dict[str, tuple[dict[str, Any], float]] = {}
    waiting = {server for server in servers if server not in refusals}
    while waiting and time.monotonic() < deadline:
        for server in list(waiting):
            if record := files.read(folder / server):
                settings_by_name[server] = record, engine.clock()
                waiting.discard(server)
        time.sleep(0.05)
    engine.commands.run("scancel", f"--name={engine.settings.prefix}-probe-{folder.name}")
    for server, sentence in sorted(refusals.items()):
        yield ClusterFinding(f"A probe on {server} was refused: {sentence}.")
    for server in sorted(waiting):
        hint = _hint(folder / f"{server}.out")
        yield ClusterFinding(
            f"A probe on {server} wrote nothing into {engine.shared} within {PROBE_SECONDS:g} s{hint}."
        )
    for server, (record, moment) in sorted(settings_by_name.items()):
        if abs(moment - record["at"]) > CLOCKS_DIFFER + 0.5:  # it may take half a second until we see the file
            yield ClusterFinding(f"The clock of {server} differs by {record['at'] - moment:+.1f} s from ours.")
        if tuple(record["python"]) < LEAST_PYTHON:
            version = ".".join(map(str, record["python"]))
            yield ClusterFinding(f"{engine.settings.python} on {server} is Python {version}; 3.9 or newer is needed.")
        if not record["landlock"]:
            yield _no_walls(engine, server)
        if not record["names"]:
            yield _takes_orders(engine, server)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def _probe(engine: SlurmEngine, server: str, launcher: Path, target: Path) -> str | None:
    """Submit a probe. Return None if that was accepted, else Slurm's sentence against it."""
    settings = engine.settings
    words = ["sbatch", "--parsable", "-p", settings.partition, "-w", server, "-N1", "-n1", "--time=2", "--no-requeue"]
    words += [f"--reservation={settings.reservation}"] if settings.reservation else []
    words += ["-A", settings.account] if settings.account else []
    words += ["-J", f"{settings.prefix}-probe-{target.parent.name}", "--export=NIL", "-D", "/", "-o", f"{target}.out"]
    script = f"#!/bin/sh\nexec {shlex.join([settings.python, str(launcher), 'probe', str(target)])}\n"
    answer = engine.commands.run(*words, script=script)
    return None if answer.is_good else answer.sentence


def _hint(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f" ({lines[-1][:100]})" if lines else ""


def _hosts(commands: Commands, written_short: str) -> frozenset[str]:
    """Return the names that a list such as `n[1-3]` stands for."""
    answer = commands.run("scontrol", "show", "hostnames", written_short)
    return frozenset(answer.text.split()) if answer.is_good else frozenset()


def _table(text: str) -> dict[str, str]:
    """Read lines `Name = value`."""
    rows = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, value in rows}


def _fields(text: str) -> dict[str, str]:
    """Read the first line, `Name=value Name=value`."""
    return dict(re.findall(r"(\S+?)=(\S*)", text.splitlines()[0] if text else ""))


def _seconds(text: str) -> float | None:
    """Read a time limit as Slurm writes it, such as `1-02:03:04`, in seconds. None means no limit, or none given."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def _number(text: str | None) -> int:
    digits = re.match(r"\d+", text or "")
    return int(digits[0]) if digits else 0


def _no_walls(engine: SlurmEngine, server: str) -> ClusterFinding:
    """Return what an old kernel means for programs: without Landlock nothing but their user limits where they write."""
    if engine.settings.run_as == TENANT:
        return ClusterFinding(
            f"The kernel of {server} has no Landlock (Linux 5.13): a program writes wherever its tenant's user may.",
            breaks=False,
        )
    return ClusterFinding(
        f"The kernel of {server} has no Landlock (Linux 5.13): a program there can change the files of other tenants' "
        f"jobs and of this engine, as all run under {engine.settings.service_account}. Let jobs run as their tenants."
    )


def _takes_orders(engine: SlurmEngine, server: str) -> ClusterFinding:
    """Return what it means that a server gives programs no names of their own: they reach Slurm by its sockets."""
    reason = f"{server} gives ordinary users no spaces of names (user.max_user_namespaces)"
    if engine.settings.run_as == TENANT:
        return ClusterFinding(
            f"{reason}: a program there can submit jobs to Slurm as its tenant's user, which nobody pays for.",
            breaks=False,
        )
    return ClusterFinding(
        f"{reason}: a program there can order Slurm as {engine.settings.service_account} to run jobs that nobody pays "
        "for, and to cancel those of other tenants. Set it above 0 there."
    )
