"""A question and its answer as the page shows them: lines of before, after and difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from scheduling.market.view import OPERATOR_ID
from scheduling.models import Pool
from scheduling.what_if.read_words import FIELD_WORDS, gains_sentence, outcome_sentence, outcome_words, said_words
from scheduling.what_if.seen import Result, SeenJob, WhatIfSeen
from tenants.ledger.amounts import credits_of, micro
from tenants.models import Tenant

Names = Mapping[int, tuple[str, str]]  # by job: its name, and its tenant's short name
STEPS = ("", "The interval is read.", "It is decided as it was.", "It is decided otherwise.", "Done.")


@dataclass(frozen=True)
class ComparisonLine:
    """One line of a comparison. `before` and `after` are credits where `is_money`, else words."""

    title: str
    before: object
    after: object
    is_money: bool = False

    @property
    def difference(self) -> float | None:
        if not self.is_money or not isinstance(self.before, float) or not isinstance(self.after, float):
            return None
        return credits_of(micro(self.after) - micro(self.before))  # as a reader works it out


@dataclass(frozen=True)
class OtherJob:
    label: str
    before: str
    after: str
    paid_before: float
    paid_after: float

    @property
    def difference(self) -> float:
        return credits_of(micro(self.paid_after) - micro(self.paid_before))


@dataclass(frozen=True)
class AnswerRow:
    sentence: str
    gains: str
    lines: tuple[ComparisonLine, ...]
    others: tuple[OtherJob, ...]
    prices: tuple[ComparisonLine, ...]
    all_together: float
    promises: bool  # whether what waiting jobs are promised would differ
    result: Result


@dataclass(frozen=True)
class QuestionRow:
    """A question with the addresses of its pages. `tenant` is the tenant in whose pages it is shown, or None for those
    over all tenants."""

    view: WhatIfSeen
    pool: Pool
    job_name: str
    job_slug: str
    tenant: Tenant | None

    @property
    def title(self) -> str:
        words = FIELD_WORDS.get(self.view.field)
        return words.title if words else self.view.field

    @property
    def words(self) -> str:
        return said_words(self.view.field, self.view.said)

    @property
    def instead(self) -> str:
        return said_words(self.view.field, self.view.instead)

    @property
    def step(self) -> str:
        return STEPS[min(self.view.done, len(STEPS) - 1)] or "It waits for its turn."

    @property
    def sentence(self) -> str:
        """Return the answer in one sentence; empty until there is one."""
        row_of_question = _job_of(self.view.result)
        return (
            outcome_sentence(f"J-{self.view.job_id}", row_of_question.before, row_of_question.after)
            if row_of_question
            else self.view.sentence
        )

    @property
    def there(self) -> str:
        return WhatIfPlaces(self.tenant).question(self.view.id)

    @property
    def cancel(self) -> str:
        return WhatIfPlaces(self.tenant).cancel(self.view.id)

    @property
    def again(self) -> str:
        ask = WhatIfPlaces(self.tenant).ask(self.pool, self.view.number)
        return f"{ask}?job={self.view.job_id}&field={self.view.field}"

    @property
    def interval(self) -> str:
        return WhatIfPlaces(self.tenant).interval(self.pool, self.view.number)


@dataclass(frozen=True)
class WhatIfPlaces:
    """The addresses of the same pages in a tenant, and over all of them."""

    tenant: Tenant | None

    def _at(self, name: str, *args: object) -> str:
        return reverse(f"tenant_{name}", args=[self.tenant.slug, *args]) if self.tenant else reverse(name, args=args)

    @property
    def questions(self) -> str:
        return self._at("what_ifs")

    def question(self, pk: int) -> str:
        return self._at("what_if", pk)

    def cancel(self, pk: int) -> str:
        return self._at("what_if_cancel", pk)

    def ask(self, pool: Pool, number: int) -> str:
        return self._at("what_if_ask", pool.slug, number)

    def interval(self, pool: Pool, number: int) -> str:
        if self.tenant:
            return reverse("interval", args=[self.tenant.slug, pool.slug, number])
        return reverse("fairness_interval", args=[pool.slug, number])


def answer_of(question: QuestionRow, names: Names, labels: Mapping[str, str]) -> AnswerRow | None:
    """Return the answer, or None until it is worked out. `names` has the jobs that the reader may see, `labels` the
    resources."""
    view = question.view
    result, row_of_question = view.result, _job_of(view.result)
    if result is None or row_of_question is None:
        return None
    by_tenant = {row.tenant: row.difference for row in result.tenants if row.tenant is not None}
    own, operator = by_tenant.get(view.tenant_id, 0.0), by_tenant.get(OPERATOR_ID, 0.0)
    total = credits_of(sum(micro(row.difference) for row in result.tenants))
    return AnswerRow(
        sentence=question.sentence,
        gains=gains_sentence(own, total - own - operator, operator),
        lines=tuple(_lines(row_of_question)),
        others=tuple(_other(row, names) for row in result.jobs if not row.is_asked),
        prices=tuple(
            ComparisonLine(labels.get(row.resource, row.resource), row.before, row.after, True) for row in result.prices
        ),
        all_together=total,
        promises=any(micro(row.promised) for row in result.tenants),
        result=result,
    )


def _job_of(result: Result | None) -> SeenJob | None:
    return next((row for row in result.jobs if row.is_asked), None) if result else None


def _lines(seen_job: SeenJob) -> Iterable[ComparisonLine]:
    before, after = seen_job.before, seen_job.after
    yield ComparisonLine("What it gets", outcome_words(before), outcome_words(after))
    yield ComparisonLine("Worth", float(before["value"]), float(after["value"]), is_money=True)
    yield ComparisonLine("Pays", float(before["paid"]), float(after["paid"]), is_money=True)
    yield ComparisonLine("Worth less what it pays", _surplus(before), _surplus(after), is_money=True)
    if before["floor"] or after["floor"]:
        yield ComparisonLine(
            "Promised at home while it waits", float(before["floor"]), float(after["floor"]), is_money=True
        )


def _surplus(outcome: Mapping[str, Any]) -> float:
    return float(outcome["value"]) - float(outcome["paid"])


def _other(row: SeenJob, names: Names) -> OtherJob:
    name, slug = names.get(row.job or 0, ("", ""))
    label = f"J-{row.job} {name}".rstrip() + (f", {slug}" if slug else "") if row.job else row.label
    words = outcome_words(row.before), outcome_words(row.after)
    return OtherJob(label[:1].upper() + label[1:], *words, float(row.before["paid"]), float(row.after["paid"]))
