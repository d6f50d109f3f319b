"""One job, however it was described: the same specification, and what was said is kept."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from typing import Any

import pytest

from scheduling.jobs.describing import Fault, JobWording, Understood, understand
from scheduling.programs import hours
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.sbatch import NOT_KEPT, UNDERSTOOD, LineRefusal
from tests.tenants.builders import NOW

POOL = ("gpu", "cpu")
WEST = timezone(timedelta(hours=-12))
WORTH = {"within_seconds": 36_000, "credits": "100", "later": "half"}
TEXT = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --gpus=8 -t 6:00:00\n#SBATCH --mem-per-gpu=4G\nsrun ./train\n"
HEAD = 5  # the options and the first line of TEXT; what becomes of its commands comes after them


def understood(wording: JobWording, resources: tuple[str, ...] = POOL, slot_seconds: float = 300.0) -> Understood:
    outcome = understand(wording, resources, slot_seconds, NOW)
    assert isinstance(outcome, Understood), outcome
    return outcome


def faults(wording: JobWording, resources: tuple[str, ...] = POOL) -> list[Any]:
    """Return where each fault is: the line of a script, or a field."""
    outcome: Understood | tuple[Fault, ...] = understand(wording, resources, 300.0, NOW)
    assert isinstance(outcome, tuple), outcome
    return [fault.line if isinstance(fault, LineRefusal) else fault.field for fault in outcome]


def test_in_hours_by_its_script_and_in_detail_it_is_the_same_to_the_byte() -> None:
    understanding = understood(JobWording(WORTH, hours={"hours": "6", "most": 8, "worker": {"gpu": 1}}))
    read = understood(JobWording(WORTH, script=TEXT))
    detail = {
        "value": json.loads(json.dumps(understanding.spec["value"])), "worker_demand": {"gpu": 1}, "ps_demand": [],
        "epochs": 1, "chunks": 8, "minibatches": 21_600, "minibatch_seconds": 1, "min_workers": 8, "max_workers": 8,
    }  # fmt: skip
    assert {hours.to_bytes(each) for each in (understanding.spec, read.spec, detail)} == {hours.to_bytes(detail)}
    assert detail["value"]["kind"] == "sigmoid"


def test_what_was_said_is_kept_and_says_the_same_again() -> None:
    answers = {"hours": 2.5, "most": 4, "least": 2, "worker": {"gpu": 1}, "scaling": "good"}
    understanding = understood(JobWording(WORTH, hours=answers), slot_seconds=60.0)
    again = json.loads(json.dumps(understanding.wording))
    assert understood(JobWording(again["worth"], hours=again["hours"]), slot_seconds=60.0) == understanding
    read = understood(JobWording(WORTH, script=TEXT), slot_seconds=60.0)
    again = json.loads(json.dumps(read.wording))
    assert understood(JobWording(again["worth"], script=again["script"]), slot_seconds=60.0) == read


def test_the_lines_of_a_script_say_what_this_pool_makes_of_them() -> None:
    read = understood(JobWording(WORTH, script=TEXT))
    assert [(line.number, line.option, line.verdict) for line in read.lines[:HEAD]] == [
        (1, "", UNDERSTOOD), (2, "--job-name", UNDERSTOOD), (3, "--gpus", UNDERSTOOD), (3, "-t", UNDERSTOOD),
        (4, "--mem-per-gpu", NOT_KEPT),
    ]  # fmt: skip
    script = "#!/bin/bash\n#SBATCH -G 2 -n 2 -c 4 -t 60\nls\n"
    short = understood(JobWording(WORTH, script=script), ("gpu",))
    assert [line.verdict for line in short.lines if line.option == "-c"] == [NOT_KEPT]
    assert (short.run.least, short.run.most) == (2, 2)


def test_all_that_is_wrong_with_either_part_is_told() -> None:
    wrong = JobWording({**WORTH, "later": "never"}, hours={"hours": 0, "most": 8, "worker": {"gpu": 1}})
    assert faults(wrong) == ["hours.hours", "worth.later"]
    assert faults(JobWording({"credits": "3"}, hours={"hours": 0, "most": 8})) == ["hours.hours", "worth.by"]
    script = TEXT.replace("--gpus=8", "--gpus=many")
    assert faults(JobWording({**WORTH, "credits": "0"}, script=script)) == [3, "worth.credits"]
    assert faults(JobWording(WORTH, script=TEXT), ("cpu",)) == [3]


@pytest.mark.parametrize(
    ("credits", "sentence"),
    [
        (None, "must be said: what is it worth to you by then?"),
        ("", "must be said: what is it worth to you by then?"),
        (260, 'must be an amount as a text, such as "260"'),
        ("1e99", "must be an amount in plain digits, such as 12.5: at most"),
        ("9" * 13, "must be an amount in plain digits, such as 12.5: at most"),
        ("1.1234567", "with at most six digits after its point"),
        ("0", "must be an amount above 0"),
    ],
)
def test_what_is_wrong_with_a_worth_is_said_to_whoever_wrote_it(credits: object, sentence: str) -> None:
    hours = {"hours": "6", "most": 8, "worker": {"gpu": 1}}
    outcome = understand(JobWording({**WORTH, "credits": credits}, hours=hours), POOL, 300.0, NOW)
    assert isinstance(outcome, tuple)
    (flaw,) = outcome
    assert isinstance(flaw, FieldRefusal)
    assert flaw.field == "worth.credits"
    assert sentence in flaw.sentence


@pytest.mark.parametrize("by", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_moment_beyond_the_calendar_is_told_where_it_stands(by: str) -> None:
    hours = {"hours": "6", "most": 8, "worker": {"gpu": 1}}
    assert faults(JobWording({"credits": "3", "by": by}, hours=hours)) == ["worth.by"]


def test_of_a_script_that_names_its_deadline_nobody_asks_by_when() -> None:
    dated = TEXT.replace("--gpus=8", "--gpus=8 --deadline=now+12hours")
    wish = {"credits": "3", "later": "nothing"}
    assert understood(JobWording(wish, script=dated)).spec["value"]["deadline"] == 144.0
    assert faults(JobWording(wish, script=dated.replace("=8", "=many"))) == [3]
    assert faults(JobWording(wish, script=dated.replace("--gpus=8", "--array=0-4%2"))) == [3]
    assert faults(JobWording(wish, script=dated.replace("now+12hours", "9999-12-31T23:59:59"), zone=WEST)) == [3]
    assert faults(JobWording({**wish, "credits": "0"}, script=dated.replace("=8", "=many"))) == [
        3,
        "worth.credits",
    ]


def test_a_deadline_after_it_is_wanted_ends_what_it_is_worth_and_raises_nothing() -> None:
    dated = TEXT.replace("--gpus=8", "--gpus=8 --deadline=now+20hours")
    described, value = (understood(JobWording(WORTH, script=text)).spec["value"] for text in (TEXT, dated))
    assert value == described | {"kind": "sigmoid_until", "until": 240.0}


def test_a_worth_counts_from_the_arrival_at_the_latest_unless_it_is_a_time_from_then_on() -> None:
    dated = TEXT.replace("--gpus=8", "--gpus=8 --deadline=now+20hours")
    within = {**WORTH, "later": "nothing"}
    wish = {"credits": "100", "later": "nothing"}
    assert understood(JobWording(within, script=TEXT)).worth_from is None
    assert understood(JobWording(within, script=dated)).worth_from == NOW + timedelta(hours=10)
    for worth in (WORTH, {**wish, "within_seconds": 90_000}, {**wish, "by": "now+12hours"}, wish):
        assert understood(JobWording(worth, script=dated)).worth_from == NOW
    begun = dated.replace("--deadline", "--begin=now+4hours --deadline")
    assert understood(JobWording({**wish, "by": "now+12hours"}, script=begun)).worth_from == NOW + timedelta(hours=4)
    assert understood(JobWording(within, script=begun)).worth_from == NOW + timedelta(hours=14)


def test_a_deadline_that_is_over_is_told_at_its_line() -> None:
    over = TEXT.replace("--gpus=8", "--gpus=8 --deadline=2020-01-01T08:00:00")
    outcome = understand(JobWording({"credits": "3", "later": "nothing"}, script=over), POOL, 300.0, NOW)
    assert outcome == (LineRefusal(3, "--deadline", "--deadline must be a moment to come, within ten years"),)
    outcome = understand(JobWording(WORTH, script=over), POOL, 300.0, NOW)
    assert outcome == (LineRefusal(3, "--deadline", "--deadline must be a moment to come"),)
    early = JobWording({**WORTH, "within_seconds": None, "by": "2020-01-01T08:00:00"}, script=TEXT)
    assert faults(early) == ["worth.by"]


def test_a_job_wanted_before_it_may_begin_is_told_so() -> None:
    sentence = "must be a moment after the one at which the job may begin"
    wish = {"credits": "3", "later": "nothing", "by": "now+1hours"}
    late = JobWording(wish, hours={"hours": 1, "most": 1}, begin=NOW + timedelta(hours=2))
    assert understand(late, POOL, 300.0, NOW) == (FieldRefusal("worth.by", sentence),)
    dated = TEXT.replace("--gpus=8", "--gpus=8 --begin=now+2hours --deadline=now+1hours")
    outcome = understand(JobWording({"credits": "3", "later": "nothing"}, script=dated), POOL, 300.0, NOW)
    assert outcome == (LineRefusal(3, "--deadline", f"--deadline {sentence}"),)


def test_an_answer_in_hours_that_is_not_given_is_missing() -> None:
    outcome = understand(JobWording(WORTH, hours={}), POOL, 300.0, NOW)
    assert outcome == (FieldRefusal("hours.hours", "is missing"), FieldRefusal("hours.most", "is missing"))
