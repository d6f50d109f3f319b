"""Each tenant's jobs as its own user, by a rule for sudo that the test stands in for."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import pytest

from scheduling.engines.base import FINISHED, Fault, Gang, Generation
from scheduling.engines.slurm.commands import queue
from tests.engines.own import script, told_to_engines
from tests.engines.slurm.cluster import Cluster, cluster
from tests.engines.slurm.gangs import ended, engine_on, log_of, nobody_is_left, start, story, tool, until

USERS = {"physics": "daemon", "chemistry": "bin"}  # every Debian has them
# What sudo does with `-n -u USER VARIABLE=VALUE ... COMMAND ...`, for whoever is root.
SUDO = """#!/bin/sh
[ "$1 $2" = "-n -u" ] || exit 1
user=$3; shift 3
exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups env -i "PATH=$PATH" "$@"
"""
PEEK = """
id -un
ls "$OTHER" > /dev/null 2>&1 && echo "looked into $OTHER" || echo "kept out"
sleep "${WAIT:-0}"
"""


def only_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can stand in for sudo")


def peeking(tenant: str, server: str, other: Path, seconds: int = 0) -> Gang:
    document = script(PEEK, environment={"OTHER": str(other), "WAIT": str(seconds)})
    program, at = told_to_engines(document, None, 60.0, {}), time.time() + 3.0
    part = Generation(1, at, at + 120.0, {server: {"worker": 1, "ps": 0}})
    key, amounts = secrets.token_hex(16), {"worker": {"worker": 1.0}}
    return Gang(
        key, f"job-{key[:6]}", "peek", {}, (part,), at + 120.0, amounts=amounts, tenant=tenant, own=program
    )  # fmt: skip


@pytest.mark.beside
def test_jobs_run_as_their_tenants_users_cannot_look_at_each_other_and_are_cancelled_as_them(slurm: Cluster) -> None:
    only_root()
    with cluster(("n1", "n2")) as own:  # in the other one, its reservation would be in the way of everybody
        own.reserve(users=list(USERS.values()))
        run_as_their_users(own)


def run_as_their_users(slurm: Cluster) -> None:
    settings = {"run_as": "tenant", "users": USERS, "python": "/usr/bin/python3", "tools": tool(slurm, "sudo", SUDO)}
    with engine_on(slurm, **settings) as engine:
        broken = [finding.sentence for finding in engine.check({}) if finding.breaks]
        assert [sentence for sentence in broken if not sentence.startswith("The clock of")] == []
        physics = peeking("physics", "n1", slurm.shared, 100)
        first = start(engine, physics)
        chemistry = peeking("chemistry", "n2", slurm.shared / physics.home)
        second = start(engine, chemistry)
        status = ended(engine, second)
        assert (status.end, status.exit_code) == (FINISHED, 0), story(engine, second)
        assert "worker 0 bin" in log_of(engine, second)
        assert "worker 0 kept out" in log_of(engine, second)
        until(engine, first, lambda status: "worker 0 daemon" in log_of(engine, first))
        users = {job.key: job.user for job in queue(engine.commands)[1]}
        assert (users[first.key], users[second.key]) == ("daemon", "bin")
        # It knows of nobody, and cancels as whoever they are.
        with engine_on(slurm, prefix=engine.settings.prefix, **settings) as stranger:
            stranger.observe([])
            nobody_is_left(first)
        (slurm.shared / first.home / first.key / "part-1-n1" / "log").unlink()
        (slurm.shared / first.home / first.key / "part-1-n1" / "log").symlink_to("/etc/passwd")
        engine.observe([first])
        assert "root:x" not in (engine.root / first.home / first.key / "log").read_text()
        unknown = peeking("history", "n1", slurm.shared)
        sentence = "The engine slurm runs jobs as their tenants, and has no user for history."
        assert engine.submit([unknown])[unknown.key] == Fault(sentence)


@pytest.mark.beside
def test_check_says_what_the_rule_does_not_allow(slurm: Cluster) -> None:
    only_root()
    users = {"physics": "daemon", "chemistry": "nobody-there"}
    without_rule = tool(slurm, "sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    with engine_on(slurm, run_as="tenant", users=users, tools=without_rule) as engine:
        sentences = {finding.sentence for finding in engine.check({}) if finding.breaks}
    assert "Nothing of physics can be run: sbatch as daemon: sudo: a password is required." in sentences
    assert "Nothing of chemistry can be run: there is no user nobody-there here." in sentences
    assert "The reservation bourse is not for the account daemon." in sentences
