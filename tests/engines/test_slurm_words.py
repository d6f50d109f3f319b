"""What is read of Slurm's answers, and the words of commands: no cluster is needed."""

from __future__ import annotations

import pytest

from scheduling.engines.base import Accounted, WrongEngine
from scheduling.engines.slurm.accounting import accounted_read
from scheduling.engines.slurm.commands import as_user
from scheduling.engines.slurm.settings import SlurmSettings

KEY = "0a1b"


def test_accounting_is_read_part_by_part_and_jobs_of_others_are_left_out() -> None:
    text = "\n".join(
        [
            f"bourse-{KEY}-7|n1|1000|1060",
            f"bourse-{KEY}-7|n2|1000|Unknown",
            f"bourse-{KEY}-8|None assigned|Unknown|1070",
            f"other-{KEY}-7|n1|1000|1060",
            "bourse-probe-12ab|n1|1000|1001",
            "a name | with a bar|n1|1000|1060",
            "",
        ]
    )
    assert accounted_read(text, "bourse") == [
        Accounted(KEY, 7, "n1", 1000.0, 1060.0),
        Accounted(KEY, 7, "n2", 1000.0, None),
    ]


def test_command_of_a_tenant_goes_through_sudo_which_asks_nobody_and_gets_its_surroundings_in_the_line() -> None:
    environment = {"PATH": "/usr/bin", "LC_ALL": "C", "SLURM_CONF": "/etc/other.conf"}
    words = ["sbatch", "--parsable"]
    assert as_user(words, "", environment) == words
    line = ["sudo", "-n", "-u", "physics", "LC_ALL=C", "SLURM_CONF=/etc/other.conf", *words]
    assert as_user(words, "physics", environment) == line


def test_users_of_tenants_are_named_in_the_settings_and_only_count_where_jobs_run_as_them() -> None:
    site = {"kind": "slurm", "partition": "main", "shared": "/shared", "user": "bourse", "users": {"physics": "phys"}}
    service = SlurmSettings.read("slurm", site)
    assert (service.user_of("physics"), service.everybody) == ("", ["bourse"])
    tenant = SlurmSettings.read("slurm", site | {"run_as": "tenant"})
    assert (tenant.user_of("physics"), tenant.user_of("chemistry")) == ("phys", None)
    assert tenant.everybody == ["bourse", "phys"]
    with pytest.raises(WrongEngine, match="run_as must be service or tenant, not 'root'"):
        SlurmSettings.read("slurm", site | {"run_as": "root"})
    with pytest.raises(WrongEngine, match="'-x' cannot be the user of physics"):
        SlurmSettings.read("slurm", site | {"users": {"physics": "-x"}})


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"disk": 1}, "there is no limit 'disk'; there are .*disk_mb"),
        ({"disk_mb": 1.5}, "the limit disk_mb must be a whole number, not 1.5"),
        ({"disk_mb": -1}, "the limit disk_mb must be a whole number, not -1"),
        ({"cpu_share": True}, "the limit cpu_share must be a number, not True"),
    ],
)
def test_limits_that_are_none_are_refused_by_name(limits: dict[str, object], sentence: str) -> None:
    site = {"kind": "slurm", "partition": "main", "shared": "/shared"}
    with pytest.raises(WrongEngine, match=sentence):
        SlurmSettings.read("slurm", site | {"limits": limits})


@pytest.mark.parametrize("run_as", ["service", "tenant"])
@pytest.mark.parametrize("folder", ["/", "/shared", "/shared/bourse", "/shared/bourse/job-7", "/shared/x/../bourse"])
def test_no_program_may_write_where_launchers_write_down_what_is_paid(folder: str, run_as: str) -> None:
    site = {"kind": "slurm", "partition": "main", "shared": "/shared/bourse", "run_as": run_as}
    assert SlurmSettings.read("slurm", site).writable == ()
    assert SlurmSettings.read("slurm", site | {"writable": ["/scratch", "/shared/data"]}).writable
    with pytest.raises(WrongEngine, match="our own folder lies there"):
        SlurmSettings.read("slurm", site | {"writable": [folder]})


@pytest.mark.parametrize("writable", ["/scratch", ["scratch"], [7], ["/a\n/b"]])
def test_folders_that_are_none_are_refused(writable: object) -> None:
    site = {"kind": "slurm", "partition": "main", "shared": "/shared/bourse", "writable": writable}
    with pytest.raises(WrongEngine, match="writable"):
        SlurmSettings.read("slurm", site)
