"""Slurm's accounting: thirty lines with every trap, read as the table beside them says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduling.core.scenario import BadScenario
from scheduling.lab.histories.history import Log
from scheduling.lab.histories.sacct import sacct

COLUMNS = "JobIDRaw,User,Account,Partition,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,State"
HEADING = f"{COLUMNS},ReqTRES,AllocTRES,NodeList,QOS".replace(",", "|")
BERLIN = ZoneInfo("Europe/Berlin")

# In Berlin the clock went from 03:00 back to 02:00 on 25 October 2026, and forward from 02:00 to 03:00 on 29 March.
# job, owner, submit, eligible, start, end (October 2026 unless a month is written), seconds, state, resources
ROWS: tuple[tuple[Any, ...], ...] = (
    ("100", "vision", "01T08:00:00", "01T08:00:00", "01T08:10:00", "01T09:10:00", 3600, "COMPLETED", "gres/gpu=2"),
    ("101_1", "vision", "01T08:00:00", "01T08:00:00", "01T08:20:00", "01T08:50:00", 1800, "COMPLETED", "gres/gpu=1"),
    ("101_2", "vision", "01T08:00:00", "01T08:00:00", "01T08:30:00", "01T09:00:00", 1800, "FAILED", "gres/gpu=1"),
    ("101_[3-9]", "vision", "01T08:00:00", "Unknown", "Unknown", "Unknown", 0, "PENDING", "gres/gpu=1"),
    ("100.batch", "vision", "01T08:10:00", "01T08:10:00", "01T08:10:00", "01T09:10:00", 3600, "COMPLETED", "cpu=8"),
    ("100.extern", "vision", "01T08:10:00", "01T08:10:00", "01T08:10:00", "01T09:10:00", 3600, "COMPLETED", "cpu=8"),
    ("100.0", "vision", "01T08:10:00", "01T08:10:00", "01T08:10:00", "01T09:10:00", 3600, "COMPLETED", "gres/gpu=2"),
    ("102", "speech", "01T09:00:00", "01T09:00:00", "01T09:00:00", "01T09:30:00", 1800, "REQUEUED", "gres/gpu=4"),
    ("102", "speech", "01T09:35:00", "01T09:35:00", "01T10:00:00", "01T12:00:00", 7200, "COMPLETED", "gres/gpu=4"),
    ("103", "speech", "01T09:00:00", "01T09:00:00", "Unknown", "Unknown", 0, "PENDING", "gres/gpu=4"),
    ("104", "speech", "01T09:00:00", "01T09:00:00", "None", "01T09:05:00", 0, "CANCELLED by 1001", "gres/gpu=4"),
    (
        "105",
        "speech",
        "01T09:00:00",
        "01T09:00:00",
        "01T09:10:00",
        "01T09:40:00",
        1800,
        "CANCELLED by 1001",
        "gres/gpu=1",
    ),
    ("106", "speech", "01T09:00:00", "01T09:00:00", "01T10:00:00", "01T13:00:00", 7200, "COMPLETED", "gres/gpu=1"),
    (
        "107",
        "vision, north",
        "02T00:00:00",
        "02T00:00:00",
        "02T00:00:00",
        "04T00:00:00",
        172800,
        "TIMEOUT",
        "gres/gpu=8",
    ),
    ("108", "vision", "24T23:00:00", "24T23:00:00", "24T23:00:00", "25T05:00:00", 25200, "COMPLETED", "gres/gpu=1"),
    ("109", "vision", "25T02:30:00", "25T02:30:00", "25T02:10:00", "25T02:40:00", 1800, "COMPLETED", "gres/gpu=1"),
    ("110", "vision", "25T02:10:00", "25T02:10:00", "25T02:20:00", "25T02:10:00", 3000, "COMPLETED", "gres/gpu=1"),
    ("111", "speech", "05T08:00:00", "05T12:00:00", "05T12:30:00", "05T13:30:00", 3600, "COMPLETED", "gres/gpu=1"),
    ("112", "speech", "05T08:00:00", "05T08:00:00", "05T08:00:00", "05T08:00:00", 0, "COMPLETED", "gres/gpu=1"),
    ("113", "speech", "05T08:00:00", "05T08:00:00", "05T08:00:00", "05T08:00:00", 0, "FAILED", "gres/gpu=1"),
    ("114", "speech", "05T08:00:00", "05T08:00:00", "05T09:00:00", "Unknown", 600, "RUNNING", "gres/gpu=1"),
    ("115", "speech", "05T08:00:00", "05T08:00:00", "05T09:00:00", "05T10:00:00", 3600, "NODE_FAIL", "cpu=4,mem=8G"),
    (
        "116",
        "speech",
        "05T08:00:00",
        "05T08:00:00",
        "05T09:00:00",
        "05T10:00:00",
        3600,
        "OUT_OF_MEMORY",
        "gres/gpu:a100=2",
    ),
    (
        "117",
        "speech",
        "05T08:00:00",
        "05T08:00:00",
        "05T09:00:00",
        "05T10:00:00",
        3600,
        "COMPLETED",
        "gres/gpu:a=1,gres/gpu:b=2",
    ),
    (
        "118",
        "speech",
        "05T08:00:00",
        "05T08:00:00",
        "05T09:00:00",
        "05T10:00:00",
        3600,
        "COMPLETED",
        "gres/gpu=3,gres/gpu:a=3",
    ),
    ("119+1", "speech", "05T08:00:00", "05T08:00:00", "05T09:00:00", "05T10:00:00", 3600, "COMPLETED", "gres/gpu=1"),
    ("120", "speech", "05T08:00:00", "Unknown", "05T09:00:00", "05T10:00:00", 3600, "PREEMPTED", "gres/gpu=1"),
    ("121", "speech", "05T08:00:00", "05T09:30:00", "05T09:00:00", "05T10:00:00", 3600, "COMPLETED", "gres/gpu=1"),
    (
        "122",
        "speech",
        "03-29T01:00:00",
        "03-29T01:00:00",
        "03-29T01:30:00",
        "03-29T03:30:00",
        3600,
        "COMPLETED",
        "gres/gpu=1",
    ),
    ("123", "", "05T08:00:00", "Unknown", "None", "05T08:01:00", 0, "CANCELLED by 0", ""),
)

# name, owner, submitted, started, ended (UTC), seconds, units
READ = (
    ("100", "vision", "10-01T06:00", "10-01T06:10", "10-01T07:10", 3600, 2),
    ("101_1", "vision", "10-01T06:00", "10-01T06:20", "10-01T06:50", 1800, 1),
    ("101_2", "vision", "10-01T06:00", "10-01T06:30", "10-01T07:00", 1800, 1),
    ("102", "speech", "10-01T07:00", "10-01T07:00", "10-01T07:30", 1800, 4),
    ("102 again 1", "speech", "10-01T07:35", "10-01T08:00", "10-01T10:00", 7200, 4),
    ("105", "speech", "10-01T07:00", "10-01T07:10", "10-01T07:40", 1800, 1),
    ("106", "speech", "10-01T07:00", "10-01T08:00", "10-01T11:00", 7200, 1),  # suspended for an hour
    ("107", "vision, north", "10-01T22:00", "10-01T22:00", "10-03T22:00", 172800, 8),
    ("108", "vision", "10-24T21:00", "10-24T21:00", "10-25T04:00", 25200, 1),  # seven hours by a clock that shows six
    ("109", "vision", "10-25T00:30", "10-25T01:10", "10-25T01:40", 1800, 1),  # starts in the second hour of that name
    ("110", "vision", "10-25T00:10", "10-25T00:20", "10-25T01:10", 3000, 1),  # ends "before" it starts
    ("111", "speech", "10-05T10:00", "10-05T10:30", "10-05T11:30", 3600, 1),  # waits from when it was eligible
    ("112", "speech", "10-05T06:00", "10-05T06:00", "10-05T06:00:01", 1, 1),
    ("114", "speech", "10-05T06:00", "10-05T07:00", "10-05T07:10", 600, 1),
    ("116", "speech", "10-05T06:00", "10-05T07:00", "10-05T08:00", 3600, 2),
    ("117", "speech", "10-05T06:00", "10-05T07:00", "10-05T08:00", 3600, 3),
    ("118", "speech", "10-05T06:00", "10-05T07:00", "10-05T08:00", 3600, 3),
    ("119+1", "speech", "10-05T06:00", "10-05T07:00", "10-05T08:00", 3600, 1),
    ("120", "speech", "10-05T06:00", "10-05T07:00", "10-05T08:00", 3600, 1),
    ("121", "speech", "10-05T07:00", "10-05T07:00", "10-05T08:00", 3600, 1),
    ("122", "speech", "03-29T00:00", "03-29T00:30", "03-29T01:30", 3600, 1),  # one hour by a clock that shows two
)


def moment(text: str) -> int:
    return int(datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC).timestamp())


def line(row: tuple[Any, ...]) -> str:
    name, owner, *times, seconds, state, resources = row
    dated = [
        time if time in ("Unknown", "None") else f"2026-{time}" if time[2] == "-" else f"2026-10-{time}"
        for time in times
    ]
    cells = (name, "anna, b", owner, "gpu", *dated, seconds, 1440, state, resources, resources, "n[1-2]", "normal")
    return "|".join(map(str, cells)) + "\n"


def read(*lines: str, **options: Any) -> Log:
    return sacct([f"{HEADING}\n", *lines], zone=BERLIN, place="log.txt", **options)


def test_thirty_lines_with_every_trap() -> None:
    assert len(ROWS) == 30
    log = read(*map(line, ROWS))
    rows = [(j.name, j.owner, j.submitted, j.started, j.ended, j.seconds, j.units) for j in log.jobs]
    assert rows == [
        (name, owner, *map(moment, times), *numbers)
        for name, owner, *rest in READ
        for times, numbers in [(rest[:3], rest[3:])]
    ]
    assert log.rows == 30
    assert log.bad == ()
    assert log.left_out == {
        "cancelled or failed before they ran": 3,
        "never started": 2,
        "steps of jobs, which their jobs include": 3,
        "without any gpu": 1,
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({0: "abc"}, "has no job number"),
        ({4: "2026-13-01T00:00:00"}, "Submit must be a time"),
        ({4: "2026-03-29T02:30:00"}, "never showed"),
        ({4: "Unknown"}, "Submit must be a time"),
        ({6: "2026-09-30T00:00:00"}, "is before Submit"),
        ({7: "2026-09-30T00:00:00"}, "is before Start"),
        ({8: "-5"}, "ElapsedRaw must be an integer"),
        ({8: "١٢"}, "ElapsedRaw must be an integer"),
        ({10: "DANCING"}, "unknown state"),
        ({12: "gres/gpu=x"}, "must be an integer"),
        ({12: "nonsense"}, "of no sense"),
        ({2: ""}, "has no Account"),
        ({1: "bad\ufffd"}, "is not UTF-8"),
        ({1: "a|b"}, "has 16 columns"),
    ],
)
def test_bad_line_is_named_and_the_rest_is_read(change: dict[int, str], why: str) -> None:
    good = [line((f"{number}", *ROWS[0][1:])) for number in range(1, 101)]
    cells = good[0].rstrip("\n").split("|")
    for position, text in change.items():
        cells[position] = text
    lines = [*good[:40], "|".join(cells) + "\n", *good[40:]]
    log = read(*lines)
    assert len(log.jobs) == 100
    [bad] = log.bad
    assert bad.number == 42
    assert why in bad.why
    with pytest.raises(BadScenario, match=r"log\.txt, line 42"):
        read(*lines, strict=True)
    with pytest.raises(BadScenario, match="more than one in 100"):
        read(*lines[:90])


def test_elapsed_as_people_read_it() -> None:
    cells = line(ROWS[7]).replace("|1800|", "|2-03:04:05|").replace("2026-10-01T09:30:00", "Unknown")
    log = sacct([HEADING.replace("ElapsedRaw", "Elapsed") + "\n", cells], zone=UTC, place="log.txt")
    assert log.jobs[0].seconds == 2 * 86_400 + 3 * 3600 + 4 * 60 + 5


def test_other_owners_and_units() -> None:
    row = line(ROWS[0]).replace("gres/gpu=2", "cpu=16,gres/gpu=2,node=3")
    assert read(row, owner="user", unit="cpu").jobs[0].owner == "anna, b"
    assert [read(row, unit=unit).jobs[0].units for unit in ("gpu", "cpu", "node")] == [2, 16, 3]


def test_what_is_no_accounting_is_refused() -> None:
    with pytest.raises(BadScenario, match="has no column JobIDRaw or JobID"):
        sacct(["hello\n"], zone=UTC, place="log.txt")
