"""`manage.py scenario`: files from small extracts in the form of the traces, and from a seed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from scheduling.core.scenario import read
from tests.management.files import manage, output_of, refused

PHILLY_JOBS = """job_id,tenant,submit_s,gpus,duration_s,status
p1,aaa,10,1,7200,unknown
p2,bbb,90000,2,3600,unknown
p3,ccc,90001,8,60,unknown
p4,aaa,200000,4,100,unknown
"""
PHILLY_TENANTS = "tenant,quota_gpus,jobs,gpu_hours,peak_nowait_gpus\naaa,8,2,1,1\nbbb,16,1,1,1\nccc,,1,1,1\n"
HELIOS = "hour,tenant,quota_gpus,running_gpus,pending_gpus,idle_gpus,running_jobs,pending_jobs\n" + "".join(
    f"{hour},vc{vc},8,{1 + hour % 3},0,0,1,0\n" for hour in range(24) for vc in (1, 2)
)
ALIBABA_JOBS = """job_id,tenant,submit_s,gpus,duration_s,status,gpu_milli,queue_s
a1,LS,0,1,3600,done,500,0
a2,BE,7200,2,7200,done,1000,0
"""
ALIBABA_MACHINES = "machine,gpus,gpu_model,cpu_cores,memory_gib\nn0,2,P100,64,256\nn1,8,P100,64,256\n"


def put_table(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_reads_philly_packed_or_not(tmp_path: Path) -> None:
    jobs, tenants = put_table(tmp_path, "jobs.csv.gz", PHILLY_JOBS), put_table(tmp_path, "tenants.csv", PHILLY_TENANTS)
    options = ("--from-day", 0, "--days", 2, "--seed", 1, "--output", tmp_path / "S.json")
    text = output_of("scenario", "philly", "--jobs", jobs, "--tenants", tenants, *options)
    scenario = read((tmp_path / "S.json").read_text())
    assert len(scenario.jobs) == 2
    assert {tenant.name for tenant in scenario.cluster.tenants} == {"aaa", "bbb"}
    assert "2 jobs of 2 tenants" in text
    assert "ccc" in text
    assert scenario.generator is not None
    assert scenario.generator["args"]["days"] == 2


def test_reads_helios(tmp_path: Path) -> None:
    hours = put_table(tmp_path, "vc_hourly.csv.gz", HELIOS)
    output_of("scenario", "helios", "--hours", hours, "--days", 1, "--output", tmp_path / "S.json")
    assert {t.name for t in read((tmp_path / "S.json").read_text()).cluster.tenants} == {"vc1", "vc2"}


def test_reads_alibaba(tmp_path: Path) -> None:
    jobs, machines = put_table(tmp_path, "j.csv", ALIBABA_JOBS), put_table(tmp_path, "m.csv", ALIBABA_MACHINES)
    options = ("--from-day", 0, "--days", 1, "--tenants", 2, "--output", tmp_path / "S.json")
    output_of("scenario", "alibaba", "--jobs", jobs, "--machines", machines, *options)
    scenario = read((tmp_path / "S.json").read_text())
    assert (len(scenario.jobs), len(scenario.cluster.tenants)) == (2, 2)


def test_draws_the_same_market_from_the_same_seed(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        options = ("--jobs", 20, "--servers", 6, "--tenants", 3, "--seed", seed, "--output", tmp_path / name)
        output_of("scenario", "synthetic", *options)
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two
    assert one != other


def test_writes_the_policy_it_is_told_to(tmp_path: Path) -> None:
    options = ("--policy", "fifo", "--set", "workers=3", "--output", tmp_path / "S.json")
    output_of("scenario", "synthetic", "--jobs", 5, "--servers", 4, "--tenants", 2, *options)
    assert read((tmp_path / "S.json").read_text()).policy == {"name": "fifo", "workers": 3}


def test_pins_no_cells_when_told_so(tmp_path: Path) -> None:
    options = ("--no-cells", "--output", tmp_path / "S.json")
    output_of("scenario", "synthetic", "--jobs", 5, "--servers", 4, "--tenants", 2, *options)
    assert read((tmp_path / "S.json").read_text()).cluster.cells is None


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["synthetic", "--jobs", "-1"], "--jobs: must be "),
        (["synthetic", "--jobs", "1000001"], "--jobs: must be from 0 to 1,000,000, not 1,000,001"),
        (["synthetic", "--preset", "nope"], "--preset: must be one of "),
        (["synthetic", "--set", "x"], "--set x: must be KEY=VALUE"),
        (["synthetic", "--policy", "nope"], '--policy: unknown policy "nope"'),
        (["philly", "--jobs", "no.csv", "--tenants", "no.csv"], "no.csv: cannot be read (no such file or directory)"),
    ],
)
def test_refuses_in_one_line_and_writes_nothing(tmp_path: Path, arguments: list[str], line: str) -> None:
    refusal = refused("scenario", *arguments, "--output", tmp_path / "S.json")
    assert refusal.startswith(line)
    assert "\n" not in refusal
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("jobs.csv", b"job_id,tenant\n\xff,1\n"),
        ("jobs.csv.gz", b"this is not gzip"),
        ("jobs.csv.gz", gzip.compress(PHILLY_JOBS.encode())[:-9]),
        ("jobs.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + b"\xff" * 50),
        ("jobs.csv", b"job_id,tenant\np1,aaa\n"),
        ("jobs.csv", PHILLY_JOBS.replace("7200", "soon").encode()),
        ("jobs.csv", PHILLY_JOBS.replace("7200", "nan").encode()),
        ("jobs.csv", b""),
        ("jobs.csv", b"\x00" * 100),
    ],
    ids=[
        "not UTF-8",
        "not gzip",
        "cut off",
        "spoiled",
        "without its columns",
        "a word for a number",
        "NaN",
        "empty",
        "zeros",
    ],
)
def test_a_broken_table_gets_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    jobs, tenants = tmp_path / name, put_table(tmp_path, "tenants.csv", PHILLY_TENANTS)
    jobs.write_bytes(content)
    options = ("--from-day", 0, "--days", 2, "--output", tmp_path / "S.json")
    refusal = refused("scenario", "philly", "--jobs", jobs, "--tenants", tenants, *options)
    assert "jobs" in refusal
    assert "\n" not in refusal
    assert not (tmp_path / "S.json").exists()


def test_helps(tmp_path: Path) -> None:
    done = manage("scenario", "philly", "--help")
    assert done.returncode == 0
    for option in ("--jobs", "--tenants", "--from-day", "--days", "--scale-quota", "--seed", "--output"):
        assert option in done.stdout
