"""The guide's page of reasons and refusals, from the lists themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from django.utils import timezone

from scheduling.models import Pool
from scheduling.reasons import NUMBERS, Ends, ReasonCode, reason_sentence
from scheduling.refusals import MarketRefusal
from tenants.api.problems import status_of
from tenants.refusals import InterfaceRefusal, RefusalCode, TenantRefusal

START = """# Why a job is where it is, and what is refused

A job that does not simply run has a *reason*: a code, its numbers and a sentence. The pages show the sentence and what
would help; programs get all four (`bourse explain`, `reason` of a job). A request that is not done is answered with a
*refusal*: a code and a sentence, which the client prints. A code never changes its meaning.

This page is made from the product's own lists: `make schema` writes it anew.

## Reasons of a job

Credits of a reason are decimal texts in the interface; slots count from 0. *Waits*: the job waits on, or runs. *Over*:
it is over, or in the instant lane that lane has no more to say. *Either*: the job's state says which.
"""
REFUSALS = """
## Refusals

*Later*: the same request may be granted later as it is. *No*: to wait changes nothing.
"""
FAMILIES: tuple[tuple[str, type[RefusalCode]], ...] = (
    ("Jobs and the market", MarketRefusal),
    ("People, tenants and tokens", TenantRefusal),
    ("The interface for programs", InterfaceRefusal),
)
BECOMES = MappingProxyType({Ends.WAITS: "waits", Ends.OVER: "over", Ends.EITHER: "either"})
# Where an example is another one than that of the number's name.
OTHERS: Mapping[ReasonCode, Mapping[str, Any]] = MappingProxyType(
    {ReasonCode.TOO_LARGE_FOR_LANE: {"most": 500_000}, ReasonCode.GIVEN_UP: {"detail": "s01 is gone"}}
)


def reasons_page() -> str:
    """Markdown; the same lists give the same page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield START
    yield from _table(("code", "for example", "then", "what would help", "numbers"), map(_reason, ReasonCode))
    yield REFUSALS
    for title, family in FAMILIES:
        yield f"### {title}\n"
        heads = ("code", "said when", "later?", "what would help", "numbers")
        served = family is not InterfaceRefusal
        rows = (_refusal(code, served=served) for code in family)
        yield from _table(("code", "status", *heads[1:]) if served else heads, rows)
        yield ""


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    titles = list(heads)
    yield f"| {' | '.join(titles)} |"
    yield f"|{' --- |' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _reason(code: ReasonCode) -> tuple[str, ...]:
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)  # of today: sentences name other days
    pool = Pool(slot_seconds=10, epoch_at=noon)
    examples = {name: NUMBERS[name].example for name in code.numbers} | dict(OTHERS.get(code, {}))
    with timezone.override(UTC):
        sentence = reason_sentence(pool, code, {name: each for name, each in examples.items() if each is not None})
    return f"`{code}`", sentence, BECOMES[code.ends], code.help, _names(code.numbers)


def _refusal(code: RefusalCode, *, served: bool) -> tuple[str, ...]:
    """`served`: a service refuses, and the interface answers with the status of the code."""
    sentence = f"{code.when[:1].upper()}{code.when[1:]}."
    rest = (sentence, "no" if code.final else "later", code.help, _names(code.numbers))
    return (f"`{code}`", str(status_of(code)), *rest) if served else (f"`{code}`", *rest)


def _names(numbers: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in numbers)
