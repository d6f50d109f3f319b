"""Programs that people brought, on the local engine: told what they need, ended in time, and nobody else is harmed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scheduling.engines.base import FAILED, FINISHED, LOST, STOPPED, Fault, Gang, Handle, Status
from scheduling.engines.launcher.files import GangRecords
from scheduling.engines.local.engine import LocalEngine
from scheduling.engines.plans import with_modules
from tests.engines.local import (
    ROOT,
    SMALL,
    ended,
    engine_in,
    gone_by,
    lines,
    look,
    nobody_is_left,
    people_of,
    possible,
    start,
    story,
    text_of,
    until,
)
from tests.engines.own import HERE, RING, archive, own, resized, script, with_environment, workers
from tests.patience import PATIENCE


def ran(engine: LocalEngine, gang: Gang) -> tuple[Status, str]:
    """Its last word, and its log."""
    handle = start(engine, gang)
    status = ended(engine, handle)
    nobody_is_left(gang.key)
    return status, text_of(engine, handle)


FIVE_LINES = """\
echo "job $BOURSE_JOB of $BOURSE_TENANT, $BOURSE_ROLE $BOURSE_RANK, started $BOURSE_RESTART times before"
echo "with $BOURSE_PARAMETER_WORD and $GREETING in $(basename "$BOURSE_CHECKPOINT"), until $BOURSE_ENDS_AT"
python3 -c 'import bourse_progress, sys; print("python", sys.version_info[0]); bourse_progress.report(step=2, of=3)'
echo '{"step": 3, "of": 3, "loss": 0.25, "accuracy": 0.9}' >> "$BOURSE_PROGRESS"
echo kept >> "$BOURSE_CHECKPOINT/state"; wc -l < "$BOURSE_CHECKPOINT/state"
"""


def test_a_script_of_five_lines_is_told_who_it_is_and_keeps_its_checkpoint() -> None:
    word = {"name": "word", "kind": "text", "default": "$(id)"}
    document = script(FIVE_LINES, parameters=[word], environment={"GREETING": "a b"})
    with engine_in() as engine:
        for turn in (0, 1):
            gang = own(document)
            status, log = ran(engine, gang)
            assert (status.end, status.exit_code) == (FINISHED, 0), log
            assert f"job 7 of physics, worker 0, started {turn} times before" in log
            assert f"with $(id) and a b in checkpoint, until {int(gang.end_at)}\npython 3\n" in log
            assert log.count(f"\n{turn + 1}\n") == 1
            assert status.progress["numbers"] == {"step": 3, "of": 3, "loss": 0.25, "accuracy": 0.9}


def trained(engine: LocalEngine, handle: Handle) -> list[dict[str, float]]:
    """What each process says of the end."""
    status = ended(engine, handle)
    assert status.end == FINISHED, story(engine, handle)
    return [json.loads(line.text) for line in lines(engine, handle) if line.text.startswith('{"rank"')]


@pytest.mark.wide
def test_an_all_reduce_is_resized_in_the_middle_and_ends_as_an_undisturbed_run_does() -> None:
    """Sums of other parts are rounded otherwise, so the last digits may differ."""
    files = archive(ring_train__py=(HERE / "ring_train.py").read_bytes())
    with engine_in() as engine:
        (alone,) = trained(engine, start(engine, own(RING, packed=files, home="job-1", steps=40)))
        gang = own(RING, (time.time(), workers(2)), packed=files, seconds=90, steps=40)
        gang = replace(gang, own=with_environment(gang, PAUSE="0.3"))
        four = workers(2) | workers(2, "s2")
        handle = resized(engine, gang, four, lambda handle: look(engine, handle).progress)
        reports = trained(engine, handle)
        assert [each["w"] for each in reports] == [pytest.approx(alone["w"], rel=1e-12)] * 4
        assert {(each["world"], each["restart"]) for each in reports} == {(4, 1)}
        assert 0 < reports[0]["resumed"] < 40


def test_a_missing_interpreter_is_the_operators_fault_and_a_missing_file_is_the_programs() -> None:
    with engine_in() as engine:
        status, _ = ran(engine, own({"name": "p", "shape": "all_reduce", "command": ["torchrun-9", "x"]}))
        assert (status.end, status.detail) == (LOST, "torchrun-9 was not found on node s1")
        status, _ = ran(engine, own({"name": "p", "shape": "all_reduce", "command": ["./run", "x"]}))
        assert (status.end, status.detail) == (
            FAILED, "./run cannot be started from the program's folder (No such file or directory)",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (
            "echo first\necho 'ImportError: no torch'\necho '    ^^^^'\necho =====\nexit 5\n",
            "worker 0 ended with code 5: first / ImportError: no torch",
        ),
        ("echo first\necho last words\nexit 3\n", "worker 0 ended with code 3: first / last words"),
        ("kill -TERM $$\n", "worker 0 was ended by SIGTERM"),
    ],
)
def test_any_other_end_is_failed_with_the_last_lines(text: str, detail: str) -> None:
    with engine_in() as engine:
        status, _ = ran(engine, own(script(text)))
        assert (status.end, status.detail) == (FAILED, detail)


def test_at_its_end_it_is_asked_to_save_and_what_does_not_go_is_killed() -> None:
    """Also those whom the script started, which bash does not pass signals on to."""
    saves = "import os, signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(print('saved') or 9))\ntime.sleep(60)"
    text = f'python3 -uc "{saves}" & wait\n'
    with engine_in() as engine:
        polite = own(script(text), home="job-1", seconds=6.0)
        deaf = own(script("trap '' TERM\nwhile true; do sleep 1; done\n"), home="job-2", seconds=6.0)
        handles = [start(engine, each) for each in (polite, deaf)]
        statuses = [ended(engine, handle) for handle in handles]
        assert [(each.end, each.detail) for each in statuses] == [(STOPPED, "its reservation ends")] * 2
        assert text_of(engine, handles[0]).splitlines()[-3:] == [
            "It is asked to save and end.",
            "saved",
            "Stopped: its reservation ends.",
        ]
        assert polite.end_at - 2.2 < (statuses[0].ended_at or 0.0)
        assert all(gone_by(each.end_at, status) for each, status in zip((polite, deaf), statuses, strict=True))
        for gang in (polite, deaf):
            nobody_is_left(gang.key)


def test_a_program_with_one_size_is_not_started_at_another() -> None:
    gang = own(script("echo here; sleep 60\n"), (time.time(), workers(1)), seconds=PATIENCE)
    with engine_in() as engine:
        handle = resized(engine, gang, workers(2), lambda handle: "here" in text_of(engine, handle))
        status = ended(engine, handle)
        nobody_is_left(gang.key)
        assert (status.end, status.detail) == (LOST, "its size was to change, and the program keeps one")


def test_parameter_servers_end_with_the_last_worker() -> None:
    text = 'echo "$BOURSE_MEMBERS" > "$BOURSE_ROLE"; [ $BOURSE_ROLE = worker ] || sleep 60\n'
    with engine_in() as engine:
        gang = own(script(text, shape="parameter_server"), (time.time(), workers(2, ps=1)))
        status, _ = ran(engine, gang)
        assert status.end == FINISHED
        document = json.loads((engine.root / "job-7" / "work" / "worker").read_text())
        assert {role: len(members) for role, members in document.items()} == {"ps": 1, "worker": 2}


HOSTILE = r"""
trap '' TERM
for n in 1 2 3; do setsid bash -c "trap '' TERM; while true; do sleep 1; done" & done
printf 'red \033[31m and \a bell\r\n'
printf '{"loss": NaN}\nnonsense\n{"loss": 1}\n' >> "$BOURSE_PROGRESS"
cd "$HOME"; printf x > $'two\nlines.txt'
rm -rf .bourse checkpoint; mkdir -p .bourse; ln -s /etc .bourse/progress; ln -s "$SECRET" checkpoint
python3 - <<'PYTHON' || true
files = []
try:
    for n in range(10_000):
        files.append(open("many", "a"))
except OSError as error:
    print("files:", error.strerror, flush=True)
PYTHON
cat "$SECRET" || true
cat "../$BOURSE_RUN/plan.json" || true
touch ../escaped || true
echo done with it
sleep 60 & wait
"""


def test_a_hostile_program_is_gone_at_its_end_and_others_are_unharmed() -> None:
    with engine_in() as engine:
        secret = engine.root.parent / "secret_key"
        secret.write_text("do not read me")
        secret.chmod(0o600)
        document = script(HOSTILE, environment={"SECRET": str(secret), "LD_PRELOAD": "/nowhere.so"})
        other = start(engine, own(script("sleep 60\n"), home="job-8", seconds=60))
        gang = own(document, seconds=9.0)
        handle = start(engine, gang)
        until(lambda: "done with it" in text_of(engine, handle), lambda: story(engine, handle), engine=engine)
        status = ended(engine, handle)
        assert (status.end, gone_by(gang.end_at, status)) == (STOPPED, True)
        nobody_is_left(gang.key)
        text = text_of(engine, handle)
        assert "files: Too many open files" in text
        refused = re.findall(
            "(?:cat|touch): .*(?:Permission denied|No such file or directory|Read-only file system)", text
        )
        assert len(refused) == 3, text
        assert "do not read me" not in text
        assert all(line.text.isprintable() or "\t" in line.text for line in lines(engine, handle))
        assert not (engine.root / "job-7" / "escaped").exists()
        assert look(engine, other).state == "running"
        assert people_of(other.key)
        again, log = ran(engine, own(script("cat checkpoint/* .bourse/progress/* || true\nls -A\n")))
        assert again.end == FINISHED
        assert "do not read me" not in log


CHAIN = r"""
for n in 1 2 3 4; do
    perl -e 'use POSIX; $SIG{TERM} = "IGNORE"; while (1) { exit if fork; POSIX::setsid() }' &
done
echo begun
sleep 60
"""


@pytest.mark.wide
@pytest.mark.skipif(shutil.which("perl") is None, reason="there is no perl here, which forks fast")
def test_chain_of_processes_that_each_make_one_and_end_is_caught_without_an_account_of_its_own() -> None:
    """None of them is there for as long as it takes to look at all processes of the machine."""
    with engine_in(rights=replace(possible(), own=False, bare=os.geteuid() == 0)) as engine:
        gang = own(script(CHAIN), seconds=8.0)
        handle = start(engine, gang)
        status = ended(engine, handle)
        assert "begun" in text_of(engine, handle)
        assert "Somebody does not die" not in text_of(engine, handle)
        assert status.end in (STOPPED, FAILED)  # the second where they were too many at a time
        assert gone_by(gang.end_at, status)
        nobody_is_left(gang.key)


def test_a_program_that_writes_a_gigabyte_is_ended_for_it_with_all_that_it_started() -> None:
    """In files of its own, or in one: no file is longer than a program's may be, and all together take so much."""
    writes = "for n in 1 2 3 4 5 6 7 8; do head -c 125000000 /dev/zero > much.$n; done"
    text = f"trap '' TERM\nsetsid sleep 60 &\n{writes}\nsleep 60\n"
    with engine_in() as engine:
        other = start(engine, own(script("sleep 60\n"), home="job-8", seconds=60))
        gang = own(script(text), seconds=60)
        status = ended(engine, start(engine, gang))
        assert (status.end, status.detail.split(" MB")[1]) == (FAILED, f" into its folder, more than {SMALL.disk_mb}")
        nobody_is_left(gang.key)
        assert look(engine, other).state == "running"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give something away by a stranger's variable")
def test_no_variable_of_a_stranger_is_set_while_a_process_has_our_rights() -> None:
    """Else a module that the program left in its folder would be loaded as root: `launch` needs `struct`."""
    with engine_in() as engine:
        text = 'echo \'import os; open(os.path.dirname(__file__) + "/owned", "w")\' > struct.py\n'
        assert ran(engine, own(script(text)))[0].end == FINISHED
        folder = engine.root / "job-7" / "work"
        assert (folder / "struct.py").exists()
        status, log = ran(engine, own(script("id -u\n", environment={"PYTHONPATH": str(folder)})))
        assert status.end == FINISHED, log
        assert not (folder / "owned").exists()


def test_limits_are_the_programs_own_and_say_their_number() -> None:
    loud = "head -c 3000000 /dev/zero | tr '\\0' 'a' | fold -w 100\nsleep 60\n"
    with engine_in(limits=replace(SMALL, nice=0)) as engine:
        status, _ = ran(engine, own(script(loud, limits={"output_mebibytes": 1})))
        assert (status.end, status.detail.split(" MB")[1]) == (FAILED, " of output, more than 1")
        few = script("ulimit -n\nulimit -t\n", limits={"open_files": 77, "processor_seconds": 33})
        status, log = ran(engine, own(few))
        assert "\n77\n33\n" in f"\n{log}", log


def test_an_archive_that_leaves_the_folder_is_refused_and_a_program_may_not_change_what_is_unpacked_for_it() -> None:
    with engine_in() as engine:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as tar:
            tar.addfile(tarfile.TarInfo("../escaped"))
        status, _ = ran(engine, own(script("true\n"), packed=data.getvalue()))
        assert (status.end, status.detail) == (
            FAILED, 'The program cannot be unpacked: archive "../escaped" leaves the folder',
        )  # fmt: skip
        assert not (engine.root / "job-7" / "escaped").exists()


@pytest.mark.wide
def test_lines_of_progress_become_a_curve_and_bad_ones_are_counted() -> None:
    text = """\
echo '{"url": "http://127.0.0.1:6006/"}'
for n in 1 2 3 4; do echo "{\\"step\\": $n, \\"of\\": 4, \\"throughput\\": $n.5}" >> "$BOURSE_PROGRESS"; sleep 1.1; done
echo '{"step": nonsense' >> "$BOURSE_PROGRESS"
"""
    with engine_in() as engine:
        gang = own(script(text))
        status, log = ran(engine, gang)
        assert status.progress == {
            "numbers": {"step": 4, "of": 4, "throughput": 4.5}, "bad_lines": 1, "url": "http://127.0.0.1:6006/",
        }, log  # fmt: skip
        rows = [row for row in GangRecords(engine.root).progress(gang.home, gang.key) if row["event"] == "numbers"]
        assert [row["numbers"]["throughput"] for row in rows] == [1.5, 2.5, 3.5, 4.5]
        assert {(row["role"], row["rank"]) for row in rows} == {("worker", 0)}


def test_a_gang_that_is_sized_anew_between_two_slots_is_saved_and_started_again() -> None:
    """As in an elastic pool, where it hears of it when the slot has begun."""
    text = "echo \"started with $WORLD_SIZE after $BOURSE_RESTART\"\ntrap 'exit 0' TERM\nsleep 60 & wait\n"
    with engine_in() as engine:
        gang = replace(own(script(text, shape="all_reduce", resize="restart"), seconds=60), open_ended=True)
        handle = start(engine, gang)
        until(lambda: "started with 1 after 0" in text_of(engine, handle), engine=engine)
        now = time.time()
        (planned,) = gang.generations
        engine.change(handle, now + 60, [replace(planned, number=1, at=now - 0.1, end=now + 60, servers=workers(2))])
        until(lambda: text_of(engine, handle).count("started with 2 after 1") == 2, engine=engine)
        assert look(engine, handle).state == "running"
        engine.stop(handle)
        assert ended(engine, handle).end == STOPPED
        nobody_is_left(gang.key)


def test_modules_are_loaded_before_and_no_word_is_read_by_the_shell_that_loads_them(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text('module() { echo "$@"; [ "$2" != none ]; }\n')
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    def output(*modules: str) -> tuple[int, str]:
        words = with_modules(("printf", "<%s>", "a b", "$(id)", ""), modules)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stdout

    assert output() == (0, "<a b><$(id)><>")
    assert output("cuda/12", "x; id") == (0, "load cuda/12\nload x; id\n<a b><$(id)><>")
    assert output("none", "cuda") == (1, "load none\n")


def test_what_an_engine_has_not_got_is_said_before_anything_is_started() -> None:
    with engine_in() as engine:
        for fields, word in (
            ({"image": "train.sif"}, "container images"),
            ({"modules": ["cuda"]}, "no modules"),
        ):
            gang = own(script("true\n", **fields))
            answer = engine.submit([gang])[gang.key]
            assert isinstance(answer, Fault)
            assert word in answer.sentence


def test_secrets_are_variables_of_every_process_and_stand_in_no_plan_and_no_log() -> None:
    with engine_in() as engine:
        gang = own(script('printf %s "$TOKEN" | sha256sum\n'))
        assert gang.own is not None
        gang = replace(gang, own=replace(gang.own, secrets=(("TOKEN", "hf_s3cret"),)))
        status, log = ran(engine, gang)
        assert status.end == FINISHED, log
        assert hashlib.sha256(b"hf_s3cret").hexdigest() in log
        holding = [file for file in engine.root.rglob("*") if file.is_file() and b"hf_s3cret" in file.read_bytes()]
        assert [(file.name, file.stat().st_mode & 0o777) for file in holding] == [("secrets", 0o600)]


def test_the_examples_of_the_guide_report_what_it_says() -> None:
    guide = (ROOT / "docs" / "guide" / "programs-told.md").read_text()
    blocks = dict(re.findall(r"```(python|bash)\n(.*?)```", textwrap.dedent(guide).replace("\n  ", "\n"), re.DOTALL))
    text = f"{blocks['bash']}sleep 1.1\npython3 - <<'END'\n{blocks['python']}END\n"
    with engine_in() as engine:
        status, log = ran(engine, own(script(text)))
        assert status.end == FINISHED, log
        assert status.progress["numbers"] == {"step": 3, "of": 100, "loss": 0.25, "accuracy": 0.9}


def test_a_script_opens_its_own_output_by_name_and_knows_as_whom_it_runs() -> None:
    """As scripts say what is wrong, and as libraries ask where to put their files."""
    text = """\
echo one > /dev/stderr
echo two | tee /dev/stderr > /dev/null
cat <(echo three)
[ "$USER" = "$LOGNAME" ]
python3 -c 'import getpass, os; assert getpass.getuser() == os.environ["USER"]; print("four")'
"""
    with engine_in() as engine:
        status, log = ran(engine, own(script(text)))
        assert status.end == FINISHED, log
        assert [word for word in log.split() if word in ("one", "two", "three", "four")] == [
            "one", "two", "three", "four",
        ]  # fmt: skip
