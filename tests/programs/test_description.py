"""One job, however it was described: the same specification, and what was said is kept."""

from __future__ import annotations

import json

from scheduling.programs import hours
from scheduling.programs.description import Description, by_script, in_hours
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.sbatch import NOT_KEPT, UNDERSTOOD, LineRefusal

POOL = ("gpu", "cpu")
WORTH = {"within_seconds": 36_000, "credits": 100, "later": "half"}
TEXT = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --gpus=8 -t 6:00:00\n#SBATCH --mem-per-gpu=4G\nsrun ./train\n"


def test_in_hours_by_its_script_and_in_detail_it_is_the_same_to_the_byte() -> None:
    said = in_hours({"hours": "6", "most": 8, "worker": {"gpu": 1}}, WORTH, POOL, 300.0)
    read = by_script(TEXT, WORTH, POOL, 300.0)
    assert isinstance(said, Description)
    assert isinstance(read, Description)
    detail = {
        "value": json.loads(json.dumps(said.specification["value"])), "worker_demand": {"gpu": 1}, "ps_demand": [],
        "epochs": 1, "chunks": 8, "minibatches": 21_600, "minibatch_seconds": 1, "min_workers": 8, "max_workers": 8,
    }  # fmt: skip
    assert {hours.to_bytes(each) for each in (said.specification, read.specification, detail)} == {
        hours.to_bytes(detail)
    }
    assert detail["value"]["kind"] == "sigmoid"


def test_what_was_said_is_kept_and_says_the_same_again() -> None:
    said = in_hours({"hours": 2.5, "most": 4, "least": 2, "worker": {"gpu": 1}, "scaling": "good"}, WORTH, POOL, 60.0)
    assert isinstance(said, Description)
    again = json.loads(json.dumps(said.source))
    assert in_hours(again["hours"], again["worth"], POOL, 60.0) == said
    read = by_script(TEXT, WORTH, POOL, 60.0)
    assert isinstance(read, Description)
    again = json.loads(json.dumps(read.source))
    assert by_script(again["script"], again["worth"], POOL, 60.0) == read


def test_the_lines_of_a_script_say_what_this_pool_makes_of_them() -> None:
    read = by_script(TEXT, WORTH, POOL, 300.0)
    assert isinstance(read, Description)
    assert [(line.number, line.option, line.verdict) for line in read.lines] == [
        (1, "", UNDERSTOOD), (2, "--job-name", UNDERSTOOD), (3, "--gpus", UNDERSTOOD), (3, "-t", UNDERSTOOD),
        (4, "--mem-per-gpu", NOT_KEPT),
    ]  # fmt: skip
    short = by_script("#!/bin/bash\n#SBATCH -G 2 -n 2 -c 4 -t 60\nls\n", WORTH, ("gpu",), 300.0)
    assert isinstance(short, Description)
    assert [line.verdict for line in short.lines if line.option == "-c"] == [NOT_KEPT]
    assert short.options is not None
    assert short.options.ntasks == 2


def test_all_that_is_wrong_with_either_part_is_told() -> None:
    wrong = in_hours({"hours": 0, "most": 8, "worker": {"gpu": 1}}, {"credits": 3}, POOL, 300.0)
    assert isinstance(wrong, tuple)
    assert [refusal.field for refusal in wrong] == ["hours", "within_seconds", "later"]
    script = by_script(TEXT.replace("--gpus=8", "--gpus=many"), {**WORTH, "credits": 0}, POOL, 300.0)
    assert isinstance(script, tuple)
    assert [each.line if isinstance(each, LineRefusal) else each.field for each in script] == [3, "credits"]
    unserved = by_script(TEXT, WORTH, ("cpu",), 300.0)
    assert isinstance(unserved, tuple)
    assert [each.line for each in unserved if not isinstance(each, FieldRefusal)] == [3]
