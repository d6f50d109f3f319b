"""The engine by itself: what it makes of what launchers wrote, also where that makes no sense, and in which order it
submits. No cluster is needed."""

from __future__ import annotations

import json
import resource
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from scheduling.engines.base import (
    ENDED,
    FINISHED,
    LOST,
    RUNNING,
    STOPPED,
    UNKNOWN,
    UP,
    Delivered,
    Fault,
    Handle,
    Status,
    WrongEngine,
)
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.launcher.parts import part_name
from scheduling.engines.slurm import check
from scheduling.engines.slurm.cluster_jobs import ClusterJobs
from scheduling.engines.slurm.commands import CommandAnswer, Commands, queue
from scheduling.engines.slurm.engine import HANDS_OVER_SECONDS, SlurmEngine
from scheduling.engines.slurm.parts import PartBeat, PartsHeard
from scheduling.engines.slurm.records import NO_WORD, record_of
from scheduling.engines.slurm.settings import SlurmSettings
from scheduling.engines.slurm.submissions import THREADS
from scheduling.runs.figures import cause_of
from tests.engines.local import ALL, ROOT, SMALL
from tests.engines.slurm.gangs import gang, start

NOW = time.time()
WORD = {"state": "running", "beat": NOW, "started_at": NOW - 1.0, "end": "", "detail": "", "exit_code": None,
        "restarts": 0, "progress": {"epoch": 3}, "delivered": [["n1", NOW - 1.0, NOW]]}  # fmt: skip
SITE = {"kind": "slurm", "partition": "main", "shared": "/shared/bourse"}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmEngine:
    """Its cluster takes every command and lists nothing."""
    monkeypatch.setattr(Commands, "run", lambda *_, **__: CommandAnswer(True))
    (tmp_path / "shared").mkdir()
    site = {"kind": "slurm", "partition": "main", "shared": str(tmp_path / "shared"), "prefix": "none"}
    return SlurmEngine("slurm", SlurmSettings.read("slurm", site), tmp_path / "own", ROOT, ALL, limits=SMALL)


def says(engine: SlurmEngine, handle: Handle, text: str, server: str = "n1") -> None:
    """Its only launcher writes this."""
    folder = Folder(engine.shared, handle.home, handle.key, part_name(1, server))
    folder.make()
    folder.state.write_text(text)


def test_gang_whose_launcher_said_no_more_than_that_it_ended_is_lost_and_the_others_are_seen(
    engine: SlurmEngine,
) -> None:
    bare, well = (start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=0.0)) for _ in range(2))
    says(engine, bare, json.dumps({"state": "ended", "end": "lost", "detail": "killed", "ended_at": NOW, "beat": NOW}))
    says(engine, well, json.dumps(WORD))
    statuses = engine.observe([bare, well])
    assert statuses[bare.key] == Status(ENDED, end=LOST, detail="killed", ended_at=NOW)
    assert (statuses[well.key].state, statuses[well.key].progress) == (RUNNING, {"epoch": 3})
    assert statuses[well.key].delivered == (Delivered("n1", NOW - 1.0, NOW),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        '"running"',
        "[" * 100_000,
        "1" * 5_000,
        json.dumps(WORD | {"state": "dancing"}),
        json.dumps(WORD | {"state": ["ended"]}),
        json.dumps(WORD | {"beat": "now"}),
        json.dumps(WORD | {"beat": 10**400}),
    ],
)
def test_what_makes_no_sense_is_no_record_and_harms_nobody_else(engine: SlurmEngine, text: str) -> None:
    assert record_of(text.encode()) is None
    broken, well = (start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=0.0)) for _ in range(2))
    says(engine, broken, text)
    says(engine, well, json.dumps(WORD))
    statuses = engine.observe([broken, well])
    assert (statuses[broken.key].state, statuses[well.key].state) == ("accepted", RUNNING)


@pytest.mark.parametrize(
    ("changed", "read"),
    [
        ({}, {}),
        ({"started_at": 1e300}, {"started_at": None}),
        ({"exit_code": 2**40}, {"exit_code": None}),
        ({"exit_code": -9}, {"exit_code": -9}),
        ({"restarts": "many"}, {"restarts": 0}),
        ({"progress": [1]}, {"progress": {}}),
        ({"progress": {"epoch": "x", "loss": float("nan"), "seconds": 1e308 * 10}}, {"progress": {}}),
        ({"progress": {"epoch": 4, "step": 10**400, "\ud800": 1, "numbers": [1]}}, {"progress": {"epoch": 4}}),
        (
            {"progress": {"numbers": {"loss": 0.5, "a\0b": 1, "deep": {"er": 1}}, "bad_lines": 2, "url": "\ud800"}},
            {"progress": {"numbers": {"loss": 0.5}, "bad_lines": 2}},
        ),
        ({"progress": {"url": "https://board:6006/"}}, {"progress": {"url": "https://board:6006/"}}),
        ({"progress": {"url": "javascript:alert(1)"}}, {"progress": {}}),
        ({"detail": "a\0b\ud800\n"}, {"detail": "a b  "}),
        ({"delivered": [["n\ud800", NOW, NOW]]}, {"delivered": []}),
        ({"delivered": [["n1", NOW], [1, NOW, NOW], "n2", ["n1", NOW, NOW - 5.0]]}, {"delivered": [["n1", NOW, NOW]]}),
        ({"state": "ended"}, {"state": "ended", "end": LOST, "ended_at": NOW, "detail": NO_WORD}),
        ({"state": "ended", "end": "stopped"}, {"state": "ended", "end": "stopped", "ended_at": NOW}),
        ({"state": "ended", "end": "lost", "ended_at": NOW + 1}, {"state": "ended", "end": LOST, "ended_at": NOW + 1}),
    ],
)  # fmt: skip
def test_what_is_missing_or_no_number_is_as_if_it_had_not_been_said(
    changed: dict[str, Any], read: dict[str, Any]
) -> None:
    assert record_of(json.dumps(WORD | changed).encode()) == WORD | read


def test_server_that_the_partition_lists_no_more_is_not_up_and_a_reason_may_have_any_sign(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"N": "n1", "T": "idle", "E": "fan | disk", "o": "10.0.0.1"}, {"N": "n2", "T": "idle", "E": "", "o": "n2"}]

    def run(_: Commands, *words: str, **__: Any) -> CommandAnswer:
        lines = [words[words.index("-o") + 1]] * len(rows)
        for number, row in enumerate(rows):
            for sign, value in row.items():
                lines[number] = lines[number].replace(f"%{sign}", value)
        return CommandAnswer(True, "\n".join(lines))

    monkeypatch.setattr(Commands, "run", run)
    assert [state.state for state in engine.servers().values()] == [UP, UP]
    assert engine.states.address_of("n1") == "10.0.0.1"
    assert engine.servers()["n1"].reason == "fan | disk"
    rows[0]["T"] = "maint"  # the site's reservation may be one for maintenance, and gangs run in it
    del rows[1]
    engine.states.looked_at = 0.0
    assert engine.servers()["n1"].state == UNKNOWN
    server = engine.servers()["n2"]
    assert (server.state, server.reason) == (UNKNOWN, "the partition main does not list it any more")


def test_restarts_that_many_launchers_make_up_are_no_more_than_a_row_takes(engine: SlurmEngine) -> None:
    servers = [f"n{number}" for number in range(40)]
    handle = start(engine, gang({server: {"worker": 1, "ps": 1} for server in servers}, after=0.0))
    for server in servers:
        says(engine, handle, json.dumps(WORD | {"restarts": 1_000}), server)
    assert engine.observe([handle])[handle.key].restarts <= connection.ops.integer_field_range("SmallIntegerField")[1]


def queue_with(monkeypatch: pytest.MonkeyPatch, *jobs: str) -> list[tuple[str, ...]]:
    """Slurm lists these jobs of users that the engine knows. Returns the commands to come."""
    commands: list[tuple[str, ...]] = []

    def run(_: Commands, *words: str, **about: Any) -> CommandAnswer:
        commands.append(words)
        form = words[words.index("-o") + 1] if words[0] == "squeue" else ""
        mark = form.partition("|")[0]
        return CommandAnswer(True, "".join(f"{mark}|{job}\n" for job in jobs) if form else "7")

    monkeypatch.setattr(Commands, "run", run)
    return commands


@pytest.mark.parametrize(
    "comment", ["none:", "none:mine", "none:a:b:c", f"none:{'a' * 32}:one:n1", f"none:{'a' * 32}:1:", "none:\ud800|x|y"]
)
def test_a_job_with_a_comment_like_ours_does_not_keep_the_engine_from_its_gangs(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch, comment: str
) -> None:
    handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=0.0))
    says(engine, handle, json.dumps(WORD))
    commands = queue_with(monkeypatch, f"7|RUNNING|None|{engine.settings.service_account}|{comment}")
    engine.reconcile([handle])
    assert engine.observe([handle])[handle.key].state == RUNNING
    assert "scancel" not in [words[0] for words in commands]


def test_a_line_in_a_comment_is_not_taken_for_a_job(engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    key, account = "a" * 32, engine.settings.service_account
    queue_with(monkeypatch, f"7|RUNNING|None|other|x\n8|RUNNING|None|{account}|none:{key}:1:n1")
    assert queue(engine.commands)[1] == []
    queue_with(monkeypatch, f"7|RUNNING|None|other|x\n|8|RUNNING|None|{account}|none:{key}:1:n1")
    assert queue(engine.commands)[1] == []


def test_gang_that_its_tenant_took_back_before_its_slot_is_not_said_to_be_ended_by_the_cluster(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We cancel its parts in Slurm, which then lists them as cancelled."""
    handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=15.0))
    engine.stop(handle)
    queue_with(monkeypatch, f"7|CANCELLED|None|{engine.settings.service_account}|none:{handle.key}:1:n1")
    engine.jobs.submissions = {name: at - 10.0 for name, at in engine.jobs.submissions.items()}  # some seconds ago
    status = engine.observe([handle])[handle.key]
    assert (status.state, status.end, status.detail) == (ENDED, STOPPED, "it was taken back before it began")


def test_launchers_are_told_why_their_gang_ends_early(engine: SlurmEngine) -> None:
    handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=15.0))
    plan = Folder(engine.shared, handle.home, handle.key).plan
    engine.change(handle, NOW + 20.0, why="its job was cancelled")
    assert (files.read(plan) or {})["why"] == "its job was cancelled"
    engine.stop(handle, why="nobody wants it")
    assert (files.read(plan) or {})["why"] == "nobody wants it"


def test_plan_that_cannot_be_copied_is_in_the_log_once_and_once_more_when_it_can(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=15.0))
    write, shared = files.write, Folder(engine.shared, handle.home, handle.key).plan

    def full(path: Path, *what: Any, **how: Any) -> None:
        if path == shared:
            raise OSError(28, "No space left on device")
        write(path, *what, **how)

    monkeypatch.setattr(files, "write", full)
    for until in (20.0, 21.0):
        engine.change(handle, NOW + until, why="")
    engine.plans.copy()
    monkeypatch.setattr(files, "write", write)
    for _ in range(2):
        engine.plans.copy()
    assert [record.getMessage() for record in caplog.records if record.name.endswith("gang_plans")] == [
        f"the plan of {handle.key} is not in the shared folder yet: [Errno 28] No space left on device",
        f"the plan of {handle.key} is in the shared folder",
    ]


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'Reservation bourse not found'; exit 1", "Reservation bourse not found"),  # as scontrol has it
        ("echo 'half a table'; echo 'sbatch: error: Batch job submission failed.' >&2; exit 1",
         "Batch job submission failed"),
        ("exit 4", "sh ended with code 4"),
    ],
)  # fmt: skip
def test_command_that_failed_is_told_in_its_own_words(script: str, sentence: str) -> None:
    answer = Commands(SlurmSettings.read("slurm", SITE)).run("sh", "-c", script)
    assert (answer.came, answer.is_good, answer.sentence) == (True, False, sentence)


def test_check_names_a_conf_that_is_not_there_and_waits_for_nothing(tmp_path: Path) -> None:
    site = SITE | {"shared": str(tmp_path), "conf": str(tmp_path / "slurm.conf")}
    engine = SlurmEngine("slurm", SlurmSettings.read("slurm", site), tmp_path / "own", ROOT, ALL, limits=SMALL)
    sentence = f"Slurm is not asked: {tmp_path}/slurm.conf, which conf names, is no file here."
    assert [finding.sentence for finding in engine.check({})] == [sentence]


@pytest.mark.parametrize(("user", "may"), [("chem", True), ("phys", False)])
def test_a_part_is_submitted_though_another_tenant_gave_a_job_its_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, may: bool
) -> None:
    site = {"kind": "slurm", "partition": "main", "shared": str(tmp_path), "prefix": "none", "run_as": "tenant",
            "users": {"physics": "phys", "chemistry": "chem"}, "user": "bourse"}  # fmt: skip
    jobs = ClusterJobs(Commands(SlurmSettings.read("slurm", site)))
    queue_with(monkeypatch, f"9|RUNNING|None|{user}|none:{'a' * 32}:2:n1")
    jobs.refresh()
    plan, phase = {"key": "a" * 32, "tenant": "physics"}, {"number": 2, "members": [["worker", 0, "n1"]]}
    assert jobs.may_submit(plan, phase, "n1", None) is may
    assert jobs.lives(plan, phase) is not may


def test_state_of_a_gang_survives_a_file_that_is_a_link(engine: SlurmEngine, tmp_path: Path) -> None:
    handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=0.0))
    folder = Folder(engine.shared, handle.home, handle.key, part_name(1, "n1"))
    folder.make()
    files.write(tmp_path / "elsewhere", WORD)
    folder.state.symlink_to(tmp_path / "elsewhere")
    assert engine.observe([handle])[handle.key].state == "unknown"


def test_gang_whose_plan_is_lost_is_told_so_by_the_shared_folder_while_slurm_does_not_answer(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=0.0))
    says(engine, handle, json.dumps(WORD))
    shared = Folder(engine.shared, handle.home, handle.key).plan
    shutil.rmtree(engine.root)
    away = CommandAnswer(False, sentence="squeue did not answer within 3 s")
    monkeypatch.setattr(Commands, "run", lambda *_, **__: away)
    later = SlurmEngine("slurm", engine.settings, engine.root, ROOT, ALL, limits=SMALL)
    later.reconcile([handle])
    with monkeypatch.context() as troubled:
        troubled.setattr(files, "write", full)  # the lease cannot be renewed then, either
        status = later.observe([handle])[handle.key]
        assert (status.state, status.detail) == (
            UNKNOWN, "its plan is gone, and the shared folder cannot be written: No space left on device",
        )  # fmt: skip
    status = later.observe([handle])[handle.key]
    assert (status.state, status.end, status.detail) == (ENDED, LOST, "its plan is gone")
    assert (files.read(shared) or {})["stop"] == "stopped"


def test_gang_that_slurm_refused_is_lost_also_where_its_engine_dies_before_the_market_knows(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked like one that was taken back before it began, whose award is paid to its end."""
    refused = CommandAnswer(True, sentence="Invalid node name specified")
    monkeypatch.setattr(
        Commands, "run", lambda _, *words, **__: refused if words[0] == "sbatch" else CommandAnswer(True)
    )
    wanted = gang({"n1": {"worker": 1, "ps": 1}}, after=0.0)
    fault = engine.submit([wanted])[wanted.key]
    assert fault == Fault("Slurm refused it: Invalid node name specified.")
    later = SlurmEngine("slurm", engine.settings, engine.root, ROOT, ALL, limits=SMALL)
    handle = later.find(wanted.home, wanted.key)
    assert handle is not None
    later.reconcile([handle])
    status = later.observe([handle])[handle.key]
    assert (status.state, status.end, status.detail) == (ENDED, LOST, fault.sentence)


@pytest.mark.parametrize(("ours", "difference"), [(-5.0, "+5.0"), (5.0, "-5.0")])
def test_gang_on_a_server_whose_clock_differs_is_refunded_before_it_begins_and_an_operator_hears_of_it(
    engine: SlurmEngine, ours: float, difference: str
) -> None:
    moment = [time.time() + ours]
    engine = SlurmEngine("slurm", engine.settings, engine.root, ROOT, ALL, limits=SMALL, clock=lambda: moment[0])
    engine._alerts_at = time.monotonic()  # nobody asks about the reservation
    strange = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=60.0))
    well = start(engine, gang({"n2": {"worker": 1, "ps": 1}}, after=60.0))
    for seconds in range(4):
        at = time.time() + seconds
        moment[0] = at + ours
        says(engine, strange, json.dumps(WORD | {"state": "waiting", "started_at": None, "beat": at}))
        says(engine, well, json.dumps(WORD | {"state": "waiting", "started_at": None, "beat": at + ours}), "n2")
        statuses = engine.observe([strange, well])
    sentence = f"the clock of n1 differs by {difference} s from ours"
    assert (statuses[strange.key].state, statuses[strange.key].end, statuses[strange.key].detail) == (
        ENDED,
        LOST,
        sentence,
    )
    assert (files.read(Folder(engine.shared, strange.home, strange.key).plan) or {})["stop"] == "stopped"
    assert statuses[well.key].state == "waiting"
    assert cause_of(sentence) == "clock"
    assert engine.report().alerts == (f"The clock of n1 differs by {difference} s from ours.",)
    mended = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=60.0))
    for seconds in range(4):
        says(engine, mended, json.dumps(WORD | {"state": "waiting", "beat": engine.clock() - seconds}))
        engine.observe([mended])
    assert engine.report().alerts == ()


def test_beats_that_are_seen_late_by_an_engine_that_looks_seldom_do_not_speak_against_a_clock() -> None:
    beat = PartBeat(WORD | {"beat": NOW}, 100.0, 100.0, lag=5.0)
    for number in range(1, 5):  # we look every six seconds, and each time at a beat that is five seconds old
        beat = beat.sees(WORD | {"beat": NOW + 6.0 * number}, 5.0, 100.0 + 6.0 * number)
    assert (beat.beats, beat.clock_differs) == (4, None)
    for number in range(1, 5):  # each second: it cannot be older than that, and says that it is
        beat = beat.sees(WORD | {"beat": NOW + 30.0 + number}, 5.0, 130.0 + number)
    assert beat.clock_differs is None  # it was right once
    assert replace(beat, behind=4.0).clock_differs == -5.0
    assert beat.sees(beat.record, 5.5, 136.0).moved == beat.moved
    assert beat.sees(beat.record | {"state": "ended"}, 5.5, 136.0).moved == 136.0


def test_part_of_an_earlier_slot_is_with_slurm_before_one_of_a_later_slot_is_sent(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is first in Slurm's line takes the server. A later gang, waiting there for its slot, would keep it from the
    earlier one."""
    calls: list[tuple[str, str]] = []

    def run(self: Commands, *words: str, **_: Any) -> CommandAnswer:
        if words[0] == "sbatch":
            key = words[words.index("-J") + 1].split("-")[1]
            calls.append(("asks", key))
            time.sleep(0.02)  # Slurm takes its time, and four ask at once
            calls.append(("has", key))
        return CommandAnswer(True)

    monkeypatch.setattr(Commands, "run", run)
    both = {f"n{number}": {"worker": 1, "ps": 1} for number in range(1, 4)}
    later, earlier = gang(both, after=12.0), gang(both, after=6.0)
    engine.submit([later, earlier])
    assert len(calls) == 12
    assert calls.index(("asks", later.key)) > max(
        place for place, each in enumerate(calls) if each == ("has", earlier.key)
    )


def test_once_slurm_does_not_answer_the_parts_that_are_left_wait_for_the_next_look(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits three seconds for an answer: of a hundred that are due at one slot the leases of all gangs ran out."""
    submitted, answers = list[str](), [False]

    def run(_: Commands, *words: str, **__: Any) -> CommandAnswer:
        if words[0] != "sbatch":
            return CommandAnswer(True)
        submitted.append(words[words.index("-w") + 1])
        return CommandAnswer(True, "7") if answers[0] else CommandAnswer(False, sentence="sbatch did not answer")

    monkeypatch.setattr(Commands, "run", run)
    handle = start(engine, gang({f"n{number}": {"worker": 1, "ps": 1} for number in range(40)}, after=6.0))
    assert len(submitted) <= THREADS
    answers[0] = True
    assert engine.observe([handle])[handle.key].state == "accepted"
    assert len(submitted) == len(set(submitted)) == 40


def test_once_slurm_does_not_answer_the_jobs_that_are_left_are_cancelled_at_the_next_look(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = engine.settings.service_account
    strangers = [f"{number}|RUNNING|None|{account}|none:{number:032x}:1:n1" for number in range(40)]
    commands = queue_with(monkeypatch, *strangers)
    answers = Commands.run

    def run(_: Commands, *words: str, **about: Any) -> CommandAnswer:
        answer = answers(_, *words, **about)
        return CommandAnswer(False, sentence="scancel did not answer") if words[0] == "scancel" else answer

    monkeypatch.setattr(Commands, "run", run)
    engine.reconcile([])
    assert [words[0] for words in commands].count("scancel") == 1
    engine.observe([])
    assert [words[0] for words in commands].count("scancel") == 2


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_gangs_are_followed_while_our_own_disk_is_full_and_their_logs_are_copied_later(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run on the cluster's disk. It was said that the shared folder could not be read, and they were refunded."""
    running, over = (start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=0.0)) for _ in range(2))
    says(engine, running, json.dumps(WORD))
    says(engine, over, json.dumps(WORD | {"state": "ended", "end": "finished", "ended_at": NOW}))
    theirs = Folder(engine.shared, running.home, running.key, part_name(1, "n1")).log
    theirs.write_text("".join(f"{number}.0 worker 0 {'x' * 80}\n" for number in range(1_000)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))  # a disk that takes no more than half of it
    try:
        with monkeypatch.context() as troubled:
            troubled.setattr(files, "write", full)
            for _ in range(2):
                statuses = engine.observe([running, over])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert statuses[running.key].state == RUNNING
    assert (statuses[over.key].state, statuses[over.key].end) == (ENDED, FINISHED)
    engine.observe([running])
    assert Folder(engine.root, running.home, running.key).log.read_text() == theirs.read_text()


def test_limits_of_the_settings_hold_and_addresses_of_a_program_with_gpus_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Commands, "run", lambda *_, **__: CommandAnswer(True))
    (tmp_path / "shared").mkdir()
    site = {"kind": "slurm", "partition": "main", "shared": str(tmp_path / "shared"), "limits": {"disk_mb": 50_000}}
    site["resources"] = {"worker": "gres:gpu", "cpu": "cpus"}
    engine = SlurmEngine("slurm", SlurmSettings.read("slurm", site), tmp_path / "own", ROOT, ALL, limits=SMALL)

    def limits(resource: str) -> tuple[int, int, int]:
        order = gang({"n1": {"worker": 1, "ps": 1}}, after=0.0)
        handle = start(engine, replace(order, amounts={"worker": {resource: 1.0}, "ps": {}}))
        plan = files.read(Folder(engine.root, handle.home, handle.key).plan) or {}
        return tuple(plan["limits"][name] for name in ("disk_mb", "file_mb", "address_space_mb"))

    assert limits("worker") == (50_000, SMALL.file_mb, 0)
    assert limits("cpu") == (50_000, SMALL.file_mb, SMALL.address_space_mb)


def test_log_of_a_gang_is_as_long_as_the_limits_of_the_cluster_say_on_each_of_its_servers(tmp_path: Path) -> None:
    """And what its launchers keep in any case, the last lines, is there in any case."""
    own, parts = Folder(tmp_path / "own", "job-1", "k"), []
    own.make()
    for server in ("n1", "n2"):
        part = Folder(tmp_path / "shared", "job-1", "k", part_name(1, server))
        part.make()
        row = b"1.0 worker 0 " + b"x" * 986 + b"\n"
        part.log.write_bytes(row * (6 * 1024 * 1024 // len(row)) + f"2.0 engine 0 the end of {server}\n".encode())
        parts.append(part)
    records = PartsHeard()
    for _ in range(30):
        records.collect(own, parts, 6 * 2**20)
    ends = [line for line in own.log.read_text().splitlines() if "the end of" in line]
    assert sorted(ends) == ["2.0 engine 0 the end of n1", "2.0 engine 0 the end of n2"]
    for part in parts:
        part.log.write_bytes(part.log.read_bytes() * 2)  # no launcher does that
    for _ in range(60):
        records.collect(own, parts, 6 * 2**20)
    assert own.log.stat().st_size < 2 * 7 * 2**20


def test_all_of_a_log_is_there_once_its_gang_has_ended_however_far_behind_the_engine_was(engine: SlurmEngine) -> None:
    """The last lines say why it failed. They were left out where they came after others in a single look."""
    handle = start(engine, gang({"n1": {"worker": 1, "ps": 1}}, after=0.0))
    theirs = Folder(engine.shared, handle.home, handle.key, part_name(1, "n1"))
    theirs.make()
    theirs.log.write_text(f"1.0 worker 0 {'x' * 1_000}\n" * 900 + "2.0 worker 0 no such file\n")
    says(engine, handle, json.dumps(WORD | {"state": "ended", "end": "failed", "ended_at": NOW}))
    assert engine.observe([handle])[handle.key].state == ENDED
    assert Folder(engine.root, handle.home, handle.key).log.read_text() == theirs.log.read_text()


@pytest.mark.parametrize(("run_as", "breaks"), [("service", True), ("tenant", False)])
@pytest.mark.parametrize(
    ("lacks", "sentence"),
    [
        ("landlock", "The kernel of old has no Landlock (Linux 5.13): a program"),
        ("names", "old gives ordinary users no spaces of names (user.max_user_namespaces): a program"),
    ],
)
def test_server_that_cannot_keep_programs_in_their_folders_or_from_slurm_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str, sentence: str, run_as: str, breaks: bool
) -> None:
    monkeypatch.setattr(Commands, "run", lambda *_, **__: CommandAnswer(True))
    site = {"kind": "slurm", "partition": "main", "shared": str(tmp_path / "shared"), "run_as": run_as,
            "users": {"physics": "phys"}, "user": "bourse"}  # fmt: skip
    engine = SlurmEngine("slurm", SlurmSettings.read("slurm", site), tmp_path / "own", ROOT, ALL, limits=SMALL)

    def answers(_: SlurmEngine, server: str, __: Path, target: Path) -> None:
        """Its server writes this about itself."""
        about = {"python": [3, 11], "host": server, "landlock": 6, "names": True}
        about |= {lacks: 0} if server == "old" else {}
        files.write(target, about | {"at": time.time()})

    monkeypatch.setattr(check, "_probe", answers)
    (finding,) = check._shared(engine, ["new", "old"])
    assert finding.sentence.startswith(sentence)
    assert finding.breaks is breaks


def test_gang_whose_end_is_open_is_saved_before_slurms_own_limit_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm ends each job at the time that it asked for. What ends there so would be a loss of the platform."""
    limits: list[str] = []

    def run(_: Commands, *words: str, **__: object) -> CommandAnswer:
        limits.extend(word for word in words if word.startswith("--time="))
        return CommandAnswer(True)

    monkeypatch.setattr(Commands, "run", run)
    (tmp_path / "shared").mkdir()
    described = {"kind": "slurm", "partition": "main", "shared": str(tmp_path / "shared"), "longest_hours": 48}
    engine = SlurmEngine("slurm", SlurmSettings.read("slurm", described), tmp_path / "own", ROOT, ALL, limits=SMALL)
    closed = gang({"n1": {"worker": 1, "ps": 1}}, after=0.0, seconds=3 * 86_400.0)
    going_on = replace(closed, key="f" * 32, home="job-open", open_ended=True)
    handles = [start(engine, going_on), start(engine, closed)]
    assert limits == ["--time=2880", "--time=4322"]
    begun = closed.generations[0].at

    def orders(later: float) -> list[str]:
        """What the two are told at a look so many seconds after they began."""
        engine.clock = lambda: begun + later
        for handle in handles:
            says(engine, handle, json.dumps(WORD | {"beat": begun + later, "started_at": begun}))
        engine.observe(handles)
        return [str((engine.plans.of(handle) or {})["stop"]) for handle in handles]

    assert orders(48 * 3600.0 - HANDS_OVER_SECONDS - 1.0) == ["", ""]
    assert orders(48 * 3600.0 - HANDS_OVER_SECONDS + 1.0) == ["paused", ""]
    engine.stop(handles[0])
    assert orders(48 * 3600.0 - HANDS_OVER_SECONDS + 2.0) == ["stopped", ""], "its job was cancelled meanwhile"


@pytest.mark.parametrize(
    ("hours", "sentence"),
    [
        (0.5, "The engine slurm: longest_hours must be from 1 to 8760, not 0.5."),
        (9_000, "The engine slurm: longest_hours must be from 1 to 8760, not 9000."),
        ("48", "The engine slurm: longest_hours must be a number."),
    ],
)
def test_hours_that_a_job_may_take_are_checked(tmp_path: Path, hours: object, sentence: str) -> None:
    described = {"kind": "slurm", "partition": "main", "shared": str(tmp_path), "longest_hours": hours}
    with pytest.raises(WrongEngine) as refusal:
        SlurmSettings.read("slurm", described)
    assert str(refusal.value) == sentence
