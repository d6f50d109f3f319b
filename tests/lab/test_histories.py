"""The other readers, machines, and how a history is put together."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.scenario import BadScenario
from scheduling.lab.files import table_lines
from scheduling.lab.histories.assembling import Wishes, assemble
from scheduling.lab.histories.history import OTHERS, History, Log, LoggedJob, day_bounds, hours_by_day, zone_of
from scheduling.lab.histories.jobs_table import jobs_table
from scheduling.lab.histories.machines import alike, machines_read, node_names, shares_of
from scheduling.lab.histories.sacct import sacct
from scheduling.lab.histories.swf import swf
from tests.lab.logs import sacct_text, swf_text
from tests.lab.test_sacct import HEADING, ROWS, line

SWF = """; UnixStartTime: 1000
; MaxNodes: 4
; MaxProcs: 16

1 0 60 3600 4 -1 -1 4 7200 -1 1 7 3 -1 1 2 -1 -1
2 10 -1 100 -1 -1 -1 8 7200 -1 0 8 3 -1 1 2 -1 -1
3 20 5 0 4 -1 -1 4 7200 -1 5 8 4 -1 1 2 -1 -1
4 30 5 100 -1 -1 -1 -1 7200 -1 1 8 4 -1 1 2 -1 -1
5 40 5 100 4 -1 -1 4 7200 -1 2 8 4 -1 1 2 -1 -1
6 50 0 0 2 -1 -1 4 7200 -1 1 -1 -1 -1 1 2 -1 -1
7 60 0 -1 2 -1 -1 4 7200 -1 5 8 4 -1 1 2 -1 -1
"""


def logged(name: str, owner: str, submitted: int, *, wait: int = 0, seconds: int = 3600, units: int = 1) -> LoggedJob:
    return LoggedJob(name, owner, submitted, submitted + wait, submitted + wait + seconds, seconds, units)


def log_of(*jobs: LoggedJob) -> Log:
    return Log(jobs, len(jobs), {}, (), {})


def test_standard_workload_format() -> None:
    log = swf(SWF.splitlines(keepends=True), place="log.swf")
    assert log.jobs == (
        LoggedJob("1", "group 3", 1000, 1060, 4660, 3600, 4),
        LoggedJob("2", "group 3", 1010, None, None, 100, 8),
        LoggedJob("6", "group unknown", 1050, 1050, 1051, 1, 2),
    )
    assert log.left_out == {
        "cancelled before they ran, or of unknown length": 2,
        "parts of jobs, which their jobs include": 1,
        "without any processor": 1,
    }
    assert log.facts["MaxNodes"] == "4"


@pytest.mark.parametrize("owner", ["user", "group", "queue", "partition"])
def test_owners_of_the_standard_format(owner: str) -> None:
    number = {"user": 7, "group": 3, "queue": 1, "partition": 2}[owner]
    assert swf(SWF.splitlines(), owner=owner, place="log.swf").jobs[0].owner == f"{owner} {number}"


def test_standard_format_names_the_bad_line() -> None:
    good = [SWF.splitlines()[4].replace("1 ", f"{k} ", 1) for k in range(1, 201)]
    for bad, why in (
        ("1 2 3", "has 3 columns"),
        (good[7].replace("3600", "nan"), "column 4"),
        (good[7], "again"),
        (good[7].replace(" 0 60", " 9999999999 60"), "to come"),
    ):
        log = swf([*good[:50], bad, *good[50:]], place="log.swf")
        assert len(log.jobs) == 200
        assert [(line.number, why in line.why) for line in log.bad] == [(51, True)]


def test_table_of_jobs() -> None:
    text = 'job_id,tenant,submit_s,gpus,duration_s,queue_s\nj1,"a, b",10,2,3600.4,60\nj2,c,20,0,5,\nj3,c,20,1,0,\n'
    log = jobs_table(text.splitlines(), place="jobs.csv")
    assert log.jobs == (LoggedJob("j1", "a, b", 10, 70, 3670, 3600, 2), LoggedJob("j3", "c", 20, None, None, 1, 1))
    with pytest.raises(BadScenario, match="line 2"):
        jobs_table(["job_id,tenant,submit_s,gpus,duration_s", "j,t,x,1,1"], strict=True, place="jobs.csv")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.text(max_size=60)), max_size=12),
    st.sampled_from(["sacct", "swf", "jobs"]),
)
def test_lines_of_noise_are_bad_lines_or_refusals_and_never_crashes(noise: list[tuple[int, str]], form: str) -> None:
    """Whatever stands in a line: every good line is read, the count is right, and refusals name a line."""
    good = {
        "sacct": [line((f"{k}", *ROWS[0][1:])) for k in range(1, 601)],
        "swf": [f"{k} 0 60 3600 4 -1 -1 4 7200 -1 1 7 3 -1 1 2 -1 -1\n" for k in range(1, 601)],
        "jobs": [f"j{k},a,{k},1,60\n" for k in range(600)],
    }[form]
    # What could be a good line, an empty one or a comment is no noise; a quote would swallow lines in CSV.
    words = [(at % 600, text.replace("|", "").replace('"', "").replace(",", "").strip()) for at, text in noise]
    words = [(at, f"?{''.join(text.splitlines())}\n") for at, text in words]
    lines = list(good)
    for at, text in sorted(words, reverse=True):
        lines.insert(at, text)
    heads = {"sacct": [f"{HEADING}\n"], "swf": [], "jobs": ["job_id,tenant,submit_s,gpus,duration_s\n"]}[form]
    refusal, log = "", log_of()
    try:
        if form == "sacct":
            log = sacct([*heads, *lines], zone=UTC, place="log")
        else:
            log = (swf if form == "swf" else jobs_table)([*heads, *lines], place="log")
    except BadScenario as error:
        refusal = str(error)
    if refusal:
        assert len(words) * 100 > 600 + len(words)
        assert "line " in refusal
    else:
        assert (len(log.jobs), len(log.bad), log.rows) == (600, len(words), 600 + len(words))
        places = sorted(at for at, _ in words)
        assert [bad.number for bad in log.bad] == [at + k + 1 + len(heads) for k, at in enumerate(places)]


@pytest.mark.skipif("PHILLY_TRACE" not in os.environ, reason="PHILLY_TRACE names the folder of the log")
def test_philly_as_slurm_and_standard_text() -> None:
    """A real log, converted and read back: the same jobs, whatever the format."""
    with closing(table_lines(Path(os.environ["PHILLY_TRACE"]) / "jobs.csv.gz")) as lines:
        jobs = [
            replace(job, name=str(number), started=job.submitted + 60, ended=job.submitted + 60 + job.seconds)
            for number, job in enumerate(jobs_table(lines, place="philly").jobs, 1)
        ]
    assert len(jobs) == 82_247
    zone = ZoneInfo("Asia/Kathmandu")
    assert list(sacct(sacct_text(jobs, zone).splitlines(), zone=zone, place="log").jobs) == jobs
    owners = sorted({job.owner for job in jobs})
    rows = swf(swf_text(jobs, 0, owners).splitlines(), place="log").jobs
    assert [replace(job, owner=owners[int(job.owner.removeprefix("group "))]) for job in rows] == jobs


def test_machines_from_slurm() -> None:
    rows = ("n1|64|gpu:a100:4(S:0-1)|gpu*", "n1|64|gpu:a100:4(S:0-1)|all", "n2|64|(null)|all", "n3|8|gpu:2|all")
    text = "\n".join(("NODELIST|CPUS|GRES|PARTITION", *rows, ""))
    machines = machines_read(text, "gpu", "nodes.txt")
    assert [(m.name, m.units, m.partitions) for m in machines] == [("n1", 4, ("gpu", "all")), ("n3", 2, ("all",))]
    assert sum(m.units for m in machines_read(text, "cpu", "nodes.txt")) == 136
    document = '{"nodes": [{"name": "n1", "cpus": 64, "gres": "gpu:a100:4(S:0-1),gpu:t4:1", "partitions": ["gpu"]}]}'
    assert machines_read(document, "gpu", "nodes.json")[0].units == 5
    for bad in ("n1|x|gpu:1|all\n", '{"nodes": 3}', "n1|8|(null)|all\n"):
        with pytest.raises(BadScenario, match="nodes"):
            machines_read(bad, "gpu", "nodes.txt")


def test_lists_of_nodes() -> None:
    assert node_names("n[1-3,07],gpu4,r[09-10]x", "p") == ["n1", "n2", "n3", "n07", "gpu4", "r09x", "r10x"]
    for bad in ("n[3-1]", "n[1-99999999]", "n[", "", "n[1-2]m[3]"):
        with pytest.raises(BadScenario):
            node_names(bad, "p")


def test_shares_are_whole_and_add_up() -> None:
    assert shares_of(10, (1.0, 1.0, 1.0)) == (4, 3, 3)
    assert shares_of(5, (0.0, 3.0)) == (0, 5)
    assert shares_of(5, (0.0, 0.0)) == (0, 0)


def test_days_of_a_clock_change_have_their_own_length() -> None:
    bounds = day_bounds(zone_of("Europe/Berlin"), date(2026, 10, 24), 3)
    assert [late - early for early, late in pairwise(bounds)] == [86_400, 90_000, 86_400]


@pytest.mark.parametrize("days", [2, 3, 4])
def test_nights_are_those_of_the_clock_also_when_it_changes(days: int) -> None:
    """In Berlin the clock goes back at 3 on 25 October 2026: after the last day, within it, or before it."""
    friday = int(datetime(2026, 10, 23, tzinfo=zone_of("Europe/Berlin")).timestamp())
    jobs = logged("1", "a", friday), logged("2", "a", friday + 86_400 * (days - 1) + 7200)
    history = assemble(log_of(*jobs), alike(1, 4), wishes(zone="Europe/Berlin"))
    hours = history.hours_of_day(24 * 5).tolist()
    assert (history.days, hours[:24], hours[24:48]) == (days, [*range(24)], [*range(24)])
    assert hours[48:73] == [0, 1, 2, 2, *range(3, 24)]
    assert hours[73:97] == [*range(24)]


def wishes(**changes: object) -> Wishes:
    return replace(Wishes("UTC", "gpu"), **changes)  # type: ignore[arg-type]


def two_days(**changes: object) -> History:
    jobs = [logged("1", "b", 0, units=2), logged("2", "a", 90_000, seconds=7200), logged("3", "c", 100_000, units=4)]
    return assemble(log_of(*jobs), changes.pop("machines", alike(2, 4)), wishes(**changes))  # type: ignore[arg-type]


def test_owners_stand_in_order_of_submission_and_own_by_use() -> None:
    history = two_days()
    assert history.owners == ("b", "a", "c")
    assert history.cells == ((2, 2, 0), (0, 0, 4))
    assert history.dates == ("1970-01-01", "1970-01-02")
    assert history.slot_seconds == 3600
    assert hours_by_day(history).tolist() == [2.0, 6.0]


def test_every_job_of_the_log_is_of_the_study_or_left_out_and_counted() -> None:
    """Slurm prints for a period whatever still waited or ran then, also what was submitted long before."""
    jobs = [logged(str(k), "a", 50_000 * k, units=1 + 7 * (k == 5)) for k in range(9)]
    history = assemble(log_of(*jobs), alike(1, 4), wishes(first_day=date(1970, 1, 2), days=2))
    assert history.left_out == {"submitted on other days": 5, "larger than the cluster": 1}
    assert len(history.jobs) + sum(history.left_out.values()) == history.rows


@pytest.mark.parametrize(("days", "minutes"), [(2, 60), (500, 60), (501, 120), (1000, 120)])
def test_a_log_of_years_has_slots_that_are_few_enough(days: int, minutes: int) -> None:
    jobs = logged("1", "a", 0), logged("2", "a", (days - 1) * 86_400)
    history = assemble(log_of(*jobs), alike(1, 4), wishes())
    assert (history.days, history.slot_seconds) == (days, 60 * minutes)


def test_owners_by_nodes_and_by_numbers() -> None:
    assert two_days(nodes={"a": "s1", "c": "s2"}).cells == ((0, 4, 0), (0, 0, 4))
    assert two_days(quotas={"b": 3, "z": 0}).cells == ((3, 0, 0), (0, 0, 0))  # who has neither jobs nor nodes is nobody
    for wrong in ({"nodes": {"a": "s9"}}, {"nodes": {"a": "s1", "b": "s1"}}, {"quotas": {"a": 9}}):
        with pytest.raises(BadScenario):
            two_days(**wrong)


def test_many_owners_are_joined() -> None:
    history = two_days(most_owners=2)
    assert history.owners == (OTHERS, "c")
    assert "2 owners" in " ".join(history.notes)


def test_an_owner_called_others_is_not_one_of_those_that_are_joined() -> None:
    rest = [logged(str(n), f"o{n}", n) for n in range(3)]
    jobs = [logged("8", "others", 0, units=4), *rest, logged("9", "others", 90_000, units=4)]
    history = assemble(log_of(*jobs), alike(2, 4), wishes(most_owners=2))
    assert history.owners == ("others", "the others")
    assert [job.owner for job in history.jobs].count("others") == 2
    assert "3 owners with the least use are one, called the others" in history.notes


def test_unknown_machines_are_those_in_use() -> None:
    history = two_days(machines=None)
    assert (len(history.machines), history.units) == (1, 8)
    assert any("not known" in note for note in history.notes)


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(BadScenario, match="no job"):
        assemble(log_of(), None, wishes())
    with pytest.raises(BadScenario, match="2 to"):
        assemble(log_of(logged("1", "a", 0)), None, wishes())
    with pytest.raises(BadScenario, match="larger than the cluster"):
        assemble(log_of(logged("1", "a", 0, units=3), logged("2", "a", 90_000, units=3)), alike(1, 1), wishes())
    with pytest.raises(BadScenario, match="no job was submitted"):
        two_days(first_day=datetime(2026, 1, 1, tzinfo=UTC).date(), days=3)
