"""Logs as people really have them: from other machines, put together, cut off, and with numbers of no sense."""

from __future__ import annotations

import gzip
import time
from contextlib import closing
from datetime import UTC
from pathlib import Path

import pytest

from scheduling.core.scenario import BadScenario
from scheduling.lab.files import table_lines, text_load
from scheduling.lab.histories.assembling import assemble
from scheduling.lab.histories.history import Log, LoggedJob
from scheduling.lab.histories.jobs_table import jobs_table
from scheduling.lab.histories.machines import machines_read, node_names
from scheduling.lab.histories.sacct import AGAIN, sacct
from scheduling.lab.histories.swf import swf
from scheduling.lab.studies.study import history_read, study_read
from tests.lab.test_histories import SWF, log_of, logged, wishes
from tests.lab.test_sacct import HEADING, ROWS, line

ENDLESS = "9" * 5000  # more digits than Python reads as an integer
TABLE = "job_id,tenant,submit_s,gpus,duration_s\n" + "".join(f"{k},vision,{k},1,60\n" for k in range(150))
JOB = line(ROWS[0])
OTHER_JOBS = [JOB.replace("100|", f"{number}|", 1) for number in range(200, 350)]


def slurm(*lines: str) -> Log:
    return sacct([f"{HEADING}\n", *lines], zone=UTC, place="log.txt")


def read_table(folder: Path, content: bytes, name: str = "jobs.csv") -> Log:
    (folder / name).write_bytes(content)
    with closing(table_lines(folder / name)) as lines:
        return jobs_table(lines, place=name)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (f"\ufeff{TABLE}".encode(), "jobs.csv"),
        (TABLE.replace("\n", "\r\n").encode(), "jobs.csv"),
        (f"\n\n{TABLE}".encode(), "jobs.csv"),
        (TABLE.replace(",", ";").encode(), "jobs.csv"),
        (TABLE.replace(",", "\t").encode(), "jobs.csv"),
        (TABLE.replace(",", ", ").encode(), "jobs.csv"),
        (gzip.compress(TABLE.encode()), "jobs.csv"),
        (gzip.compress(f"\ufeff{TABLE}".encode()), "jobs.csv.gz"),
        (TABLE.encode(), "jobs.csv.gz"),
    ],
    ids=["sign of UTF-8", "CRLF", "empty lines first", "semicolons", "tabs", "spaces", "packed", "both", "not packed"],
)
def test_the_same_table_in_every_dress(tmp_path: Path, content: bytes, name: str) -> None:
    assert read_table(tmp_path, content, name).jobs == jobs_table(TABLE.splitlines(), place="jobs.csv").jobs


def test_files_that_are_no_text_of_ours_say_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match="is UTF-16; write it as UTF-8"):
        read_table(tmp_path, TABLE.encode("utf-16"))
    with pytest.raises(BadScenario, match="line 1: the file is empty"):
        read_table(tmp_path, b"")
    with pytest.raises(BadScenario, match="line 1: the file is empty"):
        sacct([], zone=UTC, place="log.txt")
    with pytest.raises(BadScenario, match="not 'id,vc,num_gpus'"):
        read_table(tmp_path, b"id,vc,num_gpus\n1,2,3\n")
    with pytest.raises(BadScenario, match=r"jobs\.csv, line 2: is not CSV"):
        read_table(tmp_path, b'\n"' + 200_000 * b"x" + b'",' + TABLE.encode())
    (tmp_path / "nodes.txt").write_text("n1|8|gpu:1|all\n" * 9, encoding="utf-8")
    with pytest.raises(BadScenario, match="larger than 100 characters"):
        text_load(tmp_path / "nodes.txt", 100)


def test_lines_are_numbered_from_the_first_of_the_file() -> None:
    log = jobs_table(f"\n\n{TABLE}x,vision,soon,1,60\n".splitlines(), place="jobs.csv")
    assert [bad.number for bad in log.bad] == [154]


@pytest.mark.parametrize(
    ("quoted", "bad"), [('"vision,7,1,60,done', 1), ('vision,7,1,60,"done', 0), ('a"b,7,1,60,done', 0)]
)
def test_a_quote_that_is_not_closed_takes_no_other_line(quoted: str, bad: int) -> None:
    lines = [f"{k},vision,{k},1,60,done\n" for k in range(2000)]
    lines[500] = f"500,{quoted}\n"
    log = jobs_table(["job_id,tenant,submit_s,gpus,duration_s,status\n", *lines], place="jobs.csv")
    assert (len(log.jobs), log.rows, [line.number for line in log.bad]) == (2000 - bad, 2000, [502] * bad)


@pytest.mark.parametrize("cell", [f"|{ENDLESS}|1440|", f"|{'0' * 5000}3601|1440|"])
def test_endless_numbers_of_slurm_are_bad_lines_or_numbers(cell: str) -> None:
    log = slurm(*OTHER_JOBS, JOB.replace("|3600|1440|", cell))
    assert [bad.number for bad in log.bad] == ([152] if ENDLESS in cell else [])
    assert [job.seconds for job in log.jobs if job.name == "100"] == ([] if ENDLESS in cell else [3601])


def test_endless_numbers_elsewhere_are_bad_lines_or_refusals() -> None:
    assert [bad.number for bad in slurm(*OTHER_JOBS, JOB.replace("gpu=2", f"gpu={ENDLESS}")).bad] == [152]
    heading = HEADING.replace("ElapsedRaw", "Elapsed")
    rows = [
        row.replace("|3600|", "|01:00:00|") for row in (*OTHER_JOBS, JOB.replace("|3600|", f"|{ENDLESS}-00:00:00|"))
    ]
    assert [bad.number for bad in sacct([heading, *rows], zone=UTC, place="log.txt").bad] == [152]
    for text in (f"n1|{ENDLESS}|gpu:1|all", f"n1|8|gpu:{ENDLESS}|all", f"n[1-{ENDLESS}]|8|gpu:1|all"):
        with pytest.raises(BadScenario, match=r"nodes\.txt"):
            machines_read(text, "gpu", "nodes.txt")
    for cpus in ("1e400", "-4"):
        with pytest.raises(BadScenario, match=r"nodes\.json"):
            machines_read(f'{{"nodes": [{{"name": "n1", "cpus": {cpus}}}]}}', "cpu", "nodes.json")
    with pytest.raises(BadScenario, match="names more than 20,000 nodes"):
        node_names("n[1-15000,20000-35000]", "history.nodes")


@pytest.mark.parametrize(
    ("heading", "units"),
    [("; MaxProcs: 1,024\n", 1024), ("; MaxProcs: 1024 (of 1200)\n", 1024), ("; MaxProcs: \u00b2\n", 8)],
)
def test_numbers_of_a_heading_as_archives_write_them(heading: str, units: int) -> None:
    jobs = [logged("1", "a", 0, units=2), logged("2", "a", 90_000)]
    facts = swf(f"{heading}{SWF}".splitlines(), place="log.swf").facts
    history = assemble(Log(tuple(jobs), 2, {}, (), {"MaxProcs": facts["MaxProcs"]}), None, wishes())
    assert history.units == units


def test_a_heading_beyond_every_machine_is_refused_and_not_built() -> None:
    jobs = (logged("1", "a", 0), logged("2", "a", 90_000))
    for facts in ({"MaxProcs": "2000000000", "MaxNodes": "1000000000"}, {"MaxProcs": ENDLESS}):
        with pytest.raises(BadScenario, match=r"history\.machines: the log's heading says MaxProcs"):
            assemble(Log(jobs, 2, {}, (), facts), None, wishes())


def test_a_job_of_all_processors_of_the_world_is_a_bad_line() -> None:
    good = [SWF.splitlines()[4].replace("1 ", f"{k} ", 1) for k in range(1, 201)]
    assert [bad.number for bad in swf([*good, good[0].replace("3600 4", "3600 1e12")], place="log.swf").bad] == [201]
    wide = LoggedJob("1", "a", 0, 0, 3600, 3600, 10_000_000)
    history = assemble(log_of(wide, logged("2", "a", 90_000)), None, wishes())
    assert len(history.machines) == 20_000
    assert history.units == 10_000_000


def test_two_logs_that_overlap_tell_of_each_run_once() -> None:
    """A run over the end of a month is in both months, and in the first of them it had not ended."""
    cells = JOB.split("|")
    cells[7], cells[8], cells[10] = "Unknown", "600", "RUNNING"
    october, november = [*OTHER_JOBS, "|".join(cells)], [OTHER_JOBS[-1], JOB]
    log = slurm(*october, f"{HEADING}\n", *november)
    assert log.bad == ()
    assert log.left_out == {AGAIN: 2}
    assert len(log.jobs) == len(OTHER_JOBS) + 1
    [run] = [job for job in log.jobs if job.name == "100"]
    assert run.seconds == 3600
    assert (log.jobs, log.rows) == (slurm(*october[:-1], JOB).jobs, 153)


def test_names_of_jobs_and_steps_as_slurm_writes_them() -> None:
    """Where there is no JobIDRaw: of a long array only the first of those that wait; steps of heterogeneous jobs."""
    names = ("9_[1,3,5,7,...]", "9_[1,3,5,7,...%4]", "9_[2-40:2%4]", "9_1.batch", "9.0+1", "9+1.0", "9+1.extern")
    lines = [JOB.replace("100|", f"{name}|", 1).replace("COMPLETED", "PENDING") for name in names]
    log = sacct([HEADING.replace("JobIDRaw", "JobID"), *OTHER_JOBS, *lines], zone=UTC, place="log.txt", strict=True)
    assert log.left_out == {"never started": 3, "steps of jobs, which their jobs include": 4}


def test_a_heading_may_name_a_column_twice_or_with_spaces() -> None:
    names = HEADING.replace("|", " | ") + "|QOS"
    log = sacct([f"{names}\n", *(f"{row.rstrip()}|normal\n" for row in OTHER_JOBS)], zone=UTC, place="log.txt")
    assert log.jobs == slurm(*OTHER_JOBS).jobs


@pytest.mark.parametrize(
    ("gres", "units"),
    [
        ("gpu:3090:8", 8),
        ("gpu:2080ti:4(S:0-1)", 4),
        ("gpu:a100:4(IDX:0-3),gpu:4090:2", 6),
        ("gpu:8,shard:16", 8),
        ("gpu:no_consume:8", 8),
        ("gpu:nvidia_a100_3g.20gb:7(S:0)", 7),
    ],
)
def test_types_of_gpus_may_be_numbers(gres: str, units: int) -> None:
    assert machines_read(f"n1|64|{gres}|gpu*", "gpu", "nodes.txt")[0].units == units


def test_a_log_without_work_says_what_it_has() -> None:
    with pytest.raises(BadScenario, match="tells of no job that ran: left out are 2 without any gpu"):
        assemble(Log((), 2, {"without any gpu": 2}, (), {}), None, wishes())
    far = logged("2", "a", 2_000_000_000)
    with pytest.raises(BadScenario, match=r"submitted from 1970-01-01 to 2033-05-18\. Say first_day"):
        assemble(log_of(logged("1", "a", 0), far), None, wishes())


def study(folder: Path, *fields: str) -> Path:
    (folder / "log.txt").write_text("".join([f"{HEADING}\n", *OTHER_JOBS]), encoding="utf-8")
    lines = ["history:", "  format: sacct", "  file: log.txt", "  zone: UTC", "  days: 2", *fields]
    (folder / "STUDY.yaml").write_text("\n".join(lines), encoding="utf-8")
    return folder / "STUDY.yaml"


def test_a_study_with_an_endless_number_or_a_name_of_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match="line 6: has an integer of no sense"):
        study_read(study(tmp_path, f"  slot_minutes: 0x{'F' * 5000}"))
    with pytest.raises(BadScenario, match="cannot be read"):
        study_read(study(tmp_path, r'  machines: "\0"'))


def test_slurm_counts_no_processors(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match=r"history\.unit: must be one of gpu, cpu, node, not"):
        study_read(study(tmp_path, "  unit: processor"))


def test_a_table_of_owners_from_a_spreadsheet(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_bytes(b"\xef\xbb\xbfNODELIST|CPUS|GRES|PARTITION\r\nn1|8|gpu:8|all\r\n")
    (tmp_path / "own.csv").write_bytes(b"\xef\xbb\xbfOwner, Nodes\r\nvision, n1\r\n,\r\n")
    path = study(tmp_path, "  machines: nodes.txt", "  nodes: own.csv")
    assert history_read(study_read(path), tmp_path).cells == ((8,),)
    for text, message in (("owner,nodes\n", "names no owner"), (",n1\n", "line 1: must be an owner and its nodes")):
        (tmp_path / "own.csv").write_text(text, encoding="utf-8")
        with pytest.raises(BadScenario, match=message):
            history_read(study_read(path), tmp_path)


def test_an_owner_whom_nobody_knows_is_answered_with_those_who_are_known(tmp_path: Path) -> None:
    path = study(tmp_path, "rules: [alone, {rule: market, keep: [vison]}]")
    with pytest.raises(BadScenario, match='"vison" is none of the owners, who are vision'):
        history_read(study_read(path), tmp_path)


def test_list_of_very_many_nodes_is_read_in_time() -> None:
    began = time.process_time()
    with pytest.raises(BadScenario, match="names more than 20,000 nodes"):
        node_names("n[1-3]," * 150_000, "history.nodes")
    with pytest.raises(BadScenario, match="names no nodes"):
        node_names("a," * 300_000 + "[", "history.nodes")
    assert time.process_time() - began < 10.0
