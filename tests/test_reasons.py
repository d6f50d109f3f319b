"""One list of codes: everything that the product's text can tell somebody has its words, and nothing else has."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import MISSING, fields
from datetime import UTC, timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.utils import timezone

from scheduling.common.written import numbers_shown
from scheduling.management.reasons import reasons_page
from scheduling.models import JobState, Pool
from scheduling.reasons import (
    UNITS,
    Ends,
    NumberUnit,
    ReasonCode,
    reason_few,
    reason_help,
    reason_sentence,
    slot_clock,
    units_words,
)
from scheduling.refusals import NOT_AT_ONCE, MarketRefusal
from tenants.access import Refused, RefusedForMoney
from tenants.api.problems import _CODES
from tenants.refusals import InterfaceRefusal, RefusalCode, TenantRefusal
from tests.codes import ROOT, Codes, codes_of, module_of, modules

REFUSALS: dict[str, RefusalCode] = {
    code.value: code for family in (InterfaceRefusal, TenantRefusal, MarketRefusal) for code in family
}
# Places whose code cannot be read from the text, and why that is right.
OPEN = {
    "scheduling/core/records.py: row['code']": "what was stored is read back",
    "scheduling/core/results.py: _reason(track)": "the reason of a job, as a policy gave it",
    "scheduling/operator/holds.py: reason": "what an operator wrote",
    "scheduling/audit/verification/jobs.py: (job.reason_code, code)": "what is stored, beside what was told",
    "tenants/api/problems.py: code": "from the table below it, which is looked at here too",
}
NOT_A_CODE = {"demonstration"}  # the reason that the demonstration gives to the history
WORD_FIELDS = {"code", "sentence", "field", "faults"}  # of a refusal; the rest are its figures


@cache
def read() -> Codes:
    """What the whole product says. Read by the first test that asks, and not by whoever only lists the tests."""
    return codes_of(modules())


def produced(kind: str) -> set[str]:
    return {each.code for each in read().codes if each.kind == kind} - NOT_A_CODE


def subclasses(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


def pool() -> Pool:
    return Pool(slug="main", name="Main", slot_seconds=10, epoch_at=timezone.now(), batch_policy={"name": "optimus"})


def sample(name: str) -> object:
    """A number that a code may come with."""
    values = {
        "instant": "outbid",
        "limit": "over_budget",
        "detail": "its server is gone.",
        "user": "Ada",
        "server": "s01",
    }
    if UNITS[name] in (NumberUnit.TEXT, NumberUnit.CODE):
        return values.get(name, "gpu")
    return 12.5 if UNITS[name] == NumberUnit.CREDITS else 3


# --- what the product says is on the list, and the other way round


def test_every_reason_that_is_given_has_its_words() -> None:
    assert produced("reason") - set(ReasonCode) == set()


def test_every_reason_with_words_is_given_somewhere() -> None:
    assert set(ReasonCode) - produced("reason") == set()


def test_every_refusal_and_problem_has_its_words_and_every_one_with_words_is_given_somewhere() -> None:
    codes = produced("refusal") | produced("problem") | {code for code, _ in _CODES.values()}
    assert codes == REFUSALS.keys()


def test_no_place_hides_its_code() -> None:
    assert set(read().open) == OPEN.keys()


def test_codes_that_the_schema_names_are_on_the_list() -> None:
    schema = re.sub(r"\s+", " ", (ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
    named = {code for line in re.findall(r"Codes: ([`a-z_, ]+)\.", schema) for code in re.findall(r"`(\w+)`", line)}
    assert len(named) > 50
    assert named - REFUSALS.keys() == set()


@pytest.mark.parametrize(
    ("source", "kind", "codes"),
    [
        ('x = Reason("late", {"slot": 3})', "reason", {"late"}),
        ('LATE = "late"\nx = Cause(LATE)', "reason", {"late"}),
        ('LATE, EARLY = "late", "early"\njob.reason_code, job.numbers = EARLY, {}', "reason", {"early"}),
        ('rows.update(reason_code="late")', "reason", {"late"}),
        ('x = {"reason_code": "late" if a else ""}', "reason", {"late"}),
        ('class Mine(Refused): pass\nx = Mine("late", "It is late.", 3)', "refusal", {"late"}),
        ('def _no(code): return Refused(code, "")\nx = _no("late")', "refusal", {"late"}),
        ('def _f(a, code="soon"): return Refused(code, "")\nx = _f(1)\ny = _f(2, "late")', "refusal", {"late", "soon"}),
        ('def end(*, code): job.reason_code = code\nend(code="late")', "reason", {"late"}),
        ('x = Problem(503, "late", "")', "problem", {"late"}),
    ],
)  # fmt: skip
def test_a_code_is_found_however_it_is_given(source: str, kind: str, codes: set[str]) -> None:
    collection = codes_of([module_of("scheduling/jobs/planted.py", source)])
    assert ({each.code for each in collection.codes if each.kind == kind}, collection.open) == (codes, [])


@pytest.mark.parametrize("source", ["x = Reason(made_up())", 'x = Refused(f"late_{n}", "")', "x = Cause(words[0])"])
def test_a_code_that_is_worked_out_does_not_go_unseen(source: str) -> None:
    assert len(codes_of([module_of("scheduling/jobs/planted.py", source)]).open) == 1


# --- what the list says of a code is true


def test_numbers_are_those_that_the_code_is_given_with() -> None:
    numbers: defaultdict[str, set[str]] = defaultdict(set)
    for each in read().codes:
        if each.kind == "reason" and each.code not in NOT_A_CODE:
            numbers[each.code] |= each.numbers or set()
    others = {code: names - set(ReasonCode(code).numbers) for code, names in numbers.items()}
    assert {code: names for code, names in others.items() if names} == {}
    assert {name for code in ReasonCode for name in code.numbers} == UNITS.keys()


def test_figures_of_a_refusal_are_those_of_its_class() -> None:
    """Those without a default come with every code of the class, the others with one of them at least."""
    codes: defaultdict[str, set[str]] = defaultdict(set)
    for each in read().codes:
        if each.kind == "refusal" and each.maker not in ("", "Refused"):
            codes[each.maker].add(each.code)
            import_module(each.place.partition(".py:")[0].replace("/", "."))
    classes = {each.__name__: each for each in subclasses(Refused) if each is not RefusedForMoney}
    assert codes.keys() == classes.keys()
    figures_by_code: defaultdict[str, set[str]] = defaultdict(set)
    for name, refusal in classes.items():
        figures = {
            figure.name: figure.default is MISSING for figure in fields(refusal) if figure.name not in WORD_FIELDS
        }
        by_code = {code: set(REFUSALS[code].numbers) for code in codes[name]}
        assert all({figure for figure, needed in figures.items() if needed} <= by_code[code] for code in by_code), name
        assert figures.keys() <= set().union(*by_code.values()), name
        for code in by_code:
            figures_by_code[code] |= figures.keys()
    untold = {code: set(code.numbers) - figures_by_code[code] for code in [*TenantRefusal, *MarketRefusal]}
    assert {code: names for code, names in untold.items() if names} == {}


def test_what_becomes_of_a_job_is_what_policies_say() -> None:
    untrue = {("WAITING", Ends.OVER), ("REJECTED", Ends.WAITS), ("EXPIRED", Ends.WAITS)}
    refusals = [each for each in read().codes if each.state]
    assert len(refusals) > 20
    assert [each for each in refusals if (each.state, ReasonCode(each.code).ends) in untrue] == []


@pytest.mark.parametrize("code", ReasonCode)
def test_words_of_a_reason_are_sentences_with_its_numbers(code: ReasonCode) -> None:
    numbers = {name: sample(name) for name in code.numbers}
    sentence = reason_sentence(pool(), code, numbers)
    fallback = f"{code.value.replace('_', ' ').capitalize()}"
    assert sentence.endswith(".")
    assert not sentence.startswith(f"{fallback}:"), "it has a sentence of its own, and that one needs no other number"
    assert reason_few(code) == code.few != code.value.replace("_", " ") or code == ReasonCode.NOT_ITS_TURN
    assert not code.few.endswith(".")
    assert reason_help(code) == "" or reason_help(code).endswith(".")


def test_a_reason_that_ends_a_job_says_what_would_help() -> None:
    silent = {code for code in ReasonCode if code.ends != Ends.WAITS and not reason_help(code)}
    assert silent == {ReasonCode.CANCELLED_BY, ReasonCode.NOT_NEEDED}  # nothing has to be done


@pytest.mark.parametrize("code", [code for code in ReasonCode if "detail" in code.numbers])
def test_a_detail_that_is_a_sentence_has_one_full_stop(code: ReasonCode) -> None:
    numbers = {name: sample(name) for name in code.numbers} | {"detail": "worker 1 said: no memory."}
    assert ".." not in reason_sentence(pool(), code, numbers)


@pytest.mark.parametrize("numbers", [{}, {"price": 1.0}, {"value": None}])
@pytest.mark.parametrize("code", ["outbid", "no_such_code"])
def test_row_of_another_version_is_shown_as_it_is(code: str, numbers: dict[str, object]) -> None:
    assert reason_sentence(pool(), code, numbers).startswith(code.replace("_", " ").capitalize())


def test_credits_of_reasons_are_decimal_texts_and_other_numbers_stay() -> None:
    texts = numbers_shown({name: sample(name) for name in UNITS if UNITS[name] != NumberUnit.MOMENT})
    for name, value in texts.items():
        expected = {NumberUnit.CREDITS: "12.500000", NumberUnit.MICRO_CREDITS: "0.000003"}.get(
            UNITS[name], sample(name)
        )
        assert value == expected, name


@pytest.mark.parametrize("code", REFUSALS.values())
def test_words_of_a_refusal_are_a_clause_and_a_sentence(code: RefusalCode) -> None:
    assert code.when
    assert code.when[0].islower()
    assert not code.when.endswith(".")
    assert code.help == "" or code.help.endswith((".", "!"))


def test_no_code_means_two_things() -> None:
    families = (InterfaceRefusal, TenantRefusal, MarketRefusal)
    assert len(REFUSALS) == sum(len(family) for family in families)
    assert not set(ReasonCode) & set(JobState.values)
    both = set(ReasonCode) & REFUSALS.keys()
    said_twice = {"larger_than_window", "market_held", "over_budget"}
    assert both == said_twice, "a lane says these of a job that it took, and of one that it did not"


def test_why_the_instant_lane_did_not_take_a_job_is_said_while_it_waits() -> None:
    numbers = {"slot": 3, "closes_at": "2026-03-02T12:00:00+00:00"}
    for code in NOT_AT_ONCE:
        sentence = reason_sentence(pool(), "waiting_for_interval", numbers | {"instant": code.value})
        assert sentence.endswith(f"The instant lane did not take it: {code.when}.")
    assert reason_sentence(pool(), "waiting_for_interval", numbers | {"instant": "outbid"}).endswith(
        "The instant lane did not take it: the price is above its worth."
    )


def test_the_worth_of_a_job_in_pieces_is_not_said_to_be_that_of_what_its_program_did() -> None:
    """Its pieces were bought for 5.6 % of the work, and its program did 4.3 %."""
    numbers = {"done": 0.043, "worth": 22.22, "finishing": 20.0}
    bought = "4.3 % of it is done; what its pieces so far were bought to do is worth 22.22 credits to you"
    assert reason_sentence(pool(), "in_pieces", numbers) == f"{bought}. The rest waits for the next interval."
    stands_still = f"It stands still: {bought}, and finishing it now would be worth 20.00."
    assert reason_sentence(pool(), "stands_still", numbers) == stands_still


def test_a_job_that_no_empty_pool_holds_is_told_that_time_would_not_help() -> None:
    sentence = reason_sentence(pool(), "larger_than_window", {"needs_slots": None, "window_slots": 2})
    assert (
        sentence == "Its fewest workers have no room here, even if all servers are idle. Ask for fewer or smaller ones."
    )


def test_beside_an_instant_lane_the_batch_lane_says_that_it_has_the_cells_alone() -> None:
    """There the operator's units are the instant lane's (rule C1): idle servers may have room where cells have none."""
    two_lanes = pool()
    two_lanes.instant_policy = {"name": "oasis"}
    assert reason_sentence(two_lanes, "larger_than_window", {"needs_slots": None, "window_slots": 2}) == (
        "The batch lane has tenants' cells alone, and the job's fewest workers have no room in them, "
        "even if all are idle. Ask for fewer or smaller ones, or for the instant lane."
    )


def test_a_time_of_another_day_has_its_day() -> None:
    noon = timezone.now().astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    today = Pool(slot_seconds=3600, epoch_at=noon)
    with timezone.override(UTC):
        assert slot_clock(Pool(slot_seconds=10, epoch_at=noon), 1) == "12:00:10", "seconds, where slots have them"
        assert slot_clock(today, 1) == "13:00"
        later = noon + timedelta(hours=36)
        assert slot_clock(today, 36) == f"{later.day} {later:%b}, 00:00"
    with timezone.override(ZoneInfo("Pacific/Kiritimati")):  # fourteen hours ahead
        local = timezone.localtime(noon)
        is_today = local.date() == timezone.localdate()
        assert slot_clock(today, 0) == ("02:00" if is_today else f"{local.day} {local:%b}, 02:00")


# --- the guide


def test_guide_lists_every_code_as_the_product_has_it() -> None:
    """`make schema` writes the page anew."""
    page = (ROOT / "docs" / "guide" / "reasons.md").read_text(encoding="utf-8")
    assert page == reasons_page()
    assert all(f"| `{code}` |" in page for code in [*ReasonCode, *REFUSALS])


def test_guide_says_every_reason_in_its_own_sentence() -> None:
    """With the code's name in its place the page would say "In pieces.", and nobody would miss the example."""
    rows = [line.split(" | ") for line in reasons_page().partition("## Refusals")[0].splitlines()]
    sentences = {row[0].strip("| `"): row[1] for row in rows if row[0].startswith("| `")}
    assert sentences.keys() == set(ReasonCode)
    names = {code: code.replace("_", " ").capitalize() for code in ReasonCode}
    assert [code for code in ReasonCode if sentences[code].startswith((f"{names[code]}.", f"{names[code]}:"))] == []


def test_page_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("reasons", file=tmp_path / "reasons.md")
    call_command("reasons")
    assert capsys.readouterr().out == (tmp_path / "reasons.md").read_text(encoding="utf-8") == reasons_page()


def test_size_of_a_job_without_parameter_servers_names_none() -> None:
    assert [units_words(*size) for size in ((2, 1), (1, 2), (1, 0))] == [
        "2 workers and 1 parameter server",
        "1 worker and 2 parameter servers",
        "1 worker",
    ]
