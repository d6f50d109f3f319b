"""2,000 heads of batch scripts from the options' grammar: taken or refused with a line, and never an option dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from scheduling.programs.sbatch import UNDERSTOOD, LineRefusal, Script, read
from scheduling.programs.sbatch.options import FLAGS, IGNORED, NOT_KEPT, OPTION_NAMES, REFUSED, SHORTS, SUPPORTED
from scheduling.programs.sbatch.request import ScriptRequest, ask
from scheduling.programs.sbatch.values import Gpus, Nodes

POOLS = [("gpu",), ("cpu", "gpu", "memory"), ("worker", "ps"), ("gpu-a100", "cpu")]
LETTERS = {name: letter for letter, name in SHORTS.items()}


@dataclass(frozen=True)
class Word:
    """An option as it is written; whether it is good, and what it says, if that is known."""

    text: str
    option: str  # --nodes or -N, as it is written
    good: bool
    field: str = ""
    value: Any = None


def spelled(name: str, value: str, short: bool, apart: bool, quote: str) -> tuple[str, str]:
    """An option with its value, in one of the ways that there are to write it."""
    if quote == "'" and "'" not in value:
        value = f"'{value}'"
    elif quote == '"':
        value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    elif quote == "\\":
        value = "".join("\\" + char if char in " #'\"\\" else char for char in value)
    if short and name in LETTERS:
        return f"-{LETTERS[name]}{' ' if apart else ''}{value}", f"-{LETTERS[name]}"
    return f"--{name}{' ' if apart and not value.startswith('-') else '='}{value}", f"--{name}"


plain = st.text("abcXYZ019_.%j-", min_size=1, max_size=12).filter(lambda text: text[0] not in "-%")
few = st.integers(1, 9)
GOOD: dict[str, st.SearchStrategy[tuple[str, Any]]] = {
    "job-name": st.text("ab #'\"\\é-", min_size=1, max_size=9)
    .filter(lambda text: text[0] not in "- ")
    .map(lambda text: (text, text)),
    "nodes": st.tuples(few, few).map(lambda two: (f"{min(two)}-{max(two)}", Nodes(min(two), max(two)))),
    "ntasks": few.map(lambda n: (str(n), n)),
    "ntasks-per-node": few.map(lambda n: (str(n), n)),
    "gpus": few.map(lambda n: (f"a100:{n}", Gpus(n, "a100"))),
    "gres": few.map(lambda n: (f"gpu:{n}", Gpus(n))),
    "gpus-per-node": few.map(lambda n: (str(n), Gpus(n))),
    "gpus-per-task": few.map(lambda n: (str(n), Gpus(n))),
    "cpus-per-task": few.map(lambda n: (str(n), n)),
    "mem": few.map(lambda n: (f"{n}G", 1024 * n)),
    "mem-per-gpu": few.map(lambda n: (f"{n}g", 1024 * n)),
    "time": st.tuples(few, few, few).map(lambda t: (f"{t[0]}-{t[1]}:{t[2]}", t[0] * 86_400 + t[1] * 3600 + t[2] * 60)),
    "array": st.tuples(few, few).map(lambda t: (f"{t[0]}-{t[0] + t[1]}", tuple(range(t[0], t[0] + t[1] + 1)))),
    "dependency": few.map(lambda n: (f"afterok:{n}", (n,))),
    "chdir": plain.map(lambda text: (f"/data/{text}", f"/data/{text}")),
    "output": few.map(lambda n: (f"log-{n}-%j", f"log-{n}-%j")),
    "export": few.map(lambda n: (f"A={n}", None)),
    "constraint": few.map(lambda n: (f"rack{n}", (f"rack{n}",))),
    "nodelist": few.map(lambda n: (f"n[1-{n}]", tuple(f"n{k}" for k in range(1, n + 1)))),
    "exclude": few.map(lambda n: (f"m{n}", (f"m{n}",))),
    "begin": few.map(lambda n: (f"now+{n}hours", None)),
    "deadline": few.map(lambda n: (f"2030-01-0{n}", None)),
}
# No value of any option, whatever its kind; and what only some of them refuse is another matter.
NEVER = st.sampled_from(["", "::", "?", "%%%q", "=", ",,", "[", "a b|c", "-x-"])
flag, quoting = st.booleans(), st.sampled_from(["", "'", '"', "\\"])


@st.composite
def words(draw: st.DrawFn) -> Word:
    """One option: most often a good one."""
    kind = draw(st.sampled_from(["good"] * 8 + ["bad", "ignored", "ignored", "refused", "unknown"]))
    if kind == "good":
        name = draw(st.sampled_from(sorted(SUPPORTED)))
        text, value = draw(GOOD[name])
        needs = any(char in text for char in " #'\"\\")
        quote = draw(quoting) if not needs else draw(st.sampled_from(['"', "\\"]))
        spelling, option = spelled(name, text, draw(flag), draw(flag), quote)
        return Word(spelling, option, True, SUPPORTED[name].field, value)
    if kind == "bad":
        name = draw(st.sampled_from(sorted(set(SUPPORTED) - {"job-name", "chdir", "output"})))
        spelling, option = spelled(name, draw(NEVER), False, False, '"')
        return Word(spelling, option, False)
    if kind == "ignored":
        name = draw(st.sampled_from(sorted({**IGNORED, **NOT_KEPT})))
        text = f"--{name}" if name in FLAGS else spelled(name, draw(plain), False, draw(flag), draw(quoting))[0]
        return Word(text, f"--{name}", True)
    if kind == "refused":
        name = draw(st.sampled_from(sorted(REFUSED)))
        return Word(f"--{name}" if name in FLAGS else f"--{name}=1", f"--{name}", False)
    name = draw(
        st.text("abcdefgh-", min_size=2, max_size=9).filter(lambda text: text not in OPTION_NAMES and text[0] != "-")
    )
    return Word(f"--{name}=1", f"--{name}", False)


heads = st.lists(st.lists(words(), min_size=1, max_size=3), max_size=6)
comments = st.sampled_from(["", "# a comment", "  ", "#", "#!what"])


@pytest.mark.wide
@settings(max_examples=2000, deadline=None, database=None)
@seed(19)
@given(heads, comments, st.sampled_from(POOLS))
def test_a_head_is_taken_or_refused_with_its_lines_and_nothing_is_dropped(
    head: list[list[Word]], comment: str, pool: tuple[str, ...]
) -> None:
    text = ["#!/bin/bash", *(f"#SBATCH {' '.join(word.text for word in line)}" for line in head)]
    text.insert(1, comment)
    numbered = [(number, word) for number, line in enumerate(head, 3) for word in line]
    outcome = read("\n".join([*text, "srun ./train", ""]))
    bad = Counter((number, word.option) for number, word in numbered if not word.good)
    if isinstance(outcome, tuple):
        assert bad
        assert Counter((refusal.line, refusal.option) for refusal in outcome) == bad
        assert [refusal.line for refusal in outcome] == sorted(refusal.line for refusal in outcome)
        assert all(refusal.sentence and isinstance(refusal, LineRefusal) for refusal in outcome)
        return
    assert isinstance(outcome, Script)
    assert not bad
    counts = Counter((line.number, line.option) for line in outcome.lines if line.number > 1)
    assert counts == Counter((number, word.option) for number, word in numbered), "an option is dropped, or told twice"
    last = {word.field: (number, word.value) for number, word in numbered if word.field}
    for field, (number, value) in last.items():
        assert outcome.place(field) == number
        assert getattr(outcome.options, field) == (getattr(outcome.options, field) if value is None else value)
        assert getattr(outcome.options, field) is not None
    assert sum(line.verdict == UNDERSTOOD for line in outcome.lines[1:]) == len(last)
    answer = ask(outcome, pool)
    if isinstance(answer, tuple):
        assert answer
        assert all(1 <= refusal.line <= len(text) and refusal.sentence for refusal in answer)
    else:
        assert isinstance(answer, ScriptRequest)
        assert 1 <= answer.job.least <= answer.job.most
        assert {resource for resource, _ in answer.job.worker} <= set(pool)


@settings(max_examples=500, deadline=None, database=None)
@seed(20)
@given(st.text(max_size=200), st.text("#SBATCH -=nGt\"'\\\n\t0:", max_size=80))
def test_no_text_at_all_makes_it_fall_over(anything: str, likely: str) -> None:
    for text in (anything, f"#!/bin/bash\n{anything}", f"#!/bin/bash\n#SBATCH {likely}\n", f"#!/bin/bash\n{likely}"):
        answer = read(text)
        lines = text.count("\n") + 1
        for each in answer if isinstance(answer, tuple) else answer.lines:
            assert 1 <= (each.line if isinstance(each, LineRefusal) else each.number) <= lines
