"""The record of an answer of the instant lane: bytes with all its input and output, chained to the pool's answer
before.

The instant lane has a chain of its own. The head of the chain is kept in the lane's clock, which an answer locks anyway
until it commits, while the batch lane can decide. Each answer names the last interval that it saw, and each interval
names the last answer.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import connection

from scheduling.core import policies, records
from scheduling.core.parts import parts_of
from scheduling.core.plain import canonical
from scheduling.core.types import OWN, REJECTED, Booking, Cluster, Plan, Reason, Refusal
from scheduling.market.calendar.units import CalendarUnit
from scheduling.market.decide.chain import START, code_version, policy_bytes
from scheduling.market.decide.submissions import submission_document
from scheduling.market.decide.verdicts import Purse, Question
from scheduling.market.reads.stored_intervals import unpacked
from scheduling.market.view.pool_rows import CACHE_SIZE
from scheduling.models import InstantAnswer, Lane, LaneClock, TrainingJob


@dataclass(frozen=True)
class AnswerContents:
    """Canonical bytes, not compressed. `input` has the submission, the purse and the view without its cluster."""

    input: bytes
    plan: bytes


class GivenUp(NamedTuple):
    """Units that a tenant gave up, as an answer found them. `unsold` is how much of them was not sold again yet."""

    id: int
    tenant_id: int
    unsold: float


@dataclass(frozen=True)
class StoredQuestion:
    """A question read back from its record, with the submission, and the given up units behind the view's `resale`."""

    question: Question
    submission: Mapping[str, Any]
    freed: Sequence[GivenUp]


# All of it is one statement: the lane stays locked during each round trip to the database, and others wait for it. A
# frame that is stored already stays as it is.
_STORE = """
WITH frame AS (INSERT INTO scheduling_answerframe (digest, content) VALUES (%(frame)s, %(content)s)
                   ON CONFLICT (digest) DO NOTHING),
     clock AS (UPDATE scheduling_laneclock SET head = %(digest)s WHERE pool_id = %(pool)s AND lane = %(lane)s)
INSERT INTO scheduling_instantanswer (pool_id, number, job_id, award_id, at, code_version, frame_id, input, plan,
                                      resold, interval_head, previous, digest)
SELECT %(pool)s, 1 + coalesce((SELECT max(number) FROM scheduling_instantanswer WHERE pool_id = %(pool)s), 0),
       %(job)s, %(award)s, %(at)s, %(code)s, %(frame)s, %(input)s, %(plan)s,
       %(resold)s, %(interval)s, %(previous)s, %(digest)s
"""


def answer_store(
    *,
    clock: LaneClock,
    job: TrainingJob,
    award_id: int | None,
    question: Question,
    freed: Sequence[GivenUp],
    plan: Plan,
    resold: Sequence[tuple[int, float]],
    interval_head: str,
    at: datetime,
) -> str:
    """Store the record of an answer and return its digest. `clock` is the instant lane's clock, locked; its head is set
    to the digest. `freed` are the given up units that the view's `resale` names, in its order; `resold` are pairs (id,
    amount) of those that were sold."""
    frame, content = _frame(question.cluster, policy_bytes(question.policy), question.share_percent)
    contents = AnswerContents(_input(question, job, freed), records.plan_bytes(plan))
    answer = InstantAnswer(
        pool_id=job.pool_id,
        job_id=job.pk,
        award_id=award_id,
        at=at,
        code_version=code_version(),
        frame_id=frame,
        resold=[list(row) for row in resold] or None,
        interval_head=interval_head,
        previous=clock.head or START,
    )
    digest = clock.head = answer_link(answer, contents)
    values: dict[str, Any] = {
        "frame": frame,
        "content": content,
        "lane": Lane.INSTANT.value,
        "pool": job.pool_id,
        "job": job.pk,
        "award": award_id,
        "at": at,
        "code": answer.code_version,
        "input": zlib.compress(contents.input),
        "plan": zlib.compress(contents.plan),
        "resold": None if answer.resold is None else json.dumps(answer.resold),
        "interval": interval_head,
        "previous": answer.previous,
        "digest": digest,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STORE, values)
    return digest


def answer_link(answer: InstantAnswer, contents: AnswerContents) -> str:
    """Return the digest of an answer: over the digest before it, what the answer is about, its time, and all its bytes.
    Its number is not part of it: the order of the chain follows from the digests."""
    place = records.to_bytes(answer_place(answer))
    return records.digest(answer.previous, place, contents.input, contents.plan)


def answer_place(answer: InstantAnswer) -> dict[str, Any]:
    """Return what an answer is about, when it was given, and the state of the market that it found."""
    return {
        "pool": answer.pool_id,
        "job": answer.job_id,
        "award": answer.award_id,
        "at": answer.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "code_version": answer.code_version,
        "frame": answer.frame_id,
        "resold": answer.resold,
        "interval": answer.interval_head,
    }


def answer_contents(answer: InstantAnswer) -> AnswerContents:
    """Return the stored bytes, uncompressed. Raises zlib.error where they are no longer readable."""
    return AnswerContents(unpacked(bytes(answer.input)), unpacked(bytes(answer.plan)))


# A sale is taken back where the buyer's payment for the slot returned (`market.settle.resale`). Units that are gone had
# an award that was cut short when nothing of them was sold, so their buyers' payments had returned by then.
_SOLD_AGAIN = """
SELECT (sale ->> 0)::bigint, coalesce(sum((sale ->> 1)::float8) FILTER (WHERE NOT CASE award.state
           WHEN 'void' THEN coalesce(units.slot >= award.cut_at, true)
           WHEN 'ended' THEN award.cut_at <= award.start AND award.pays_from IS NULL AND award.phase <> 'own'
           ELSE false END), 0), sum((sale ->> 1)::float8)
  FROM scheduling_instantanswer answer
  LEFT JOIN scheduling_award award ON award.id = answer.award_id
 CROSS JOIN jsonb_array_elements(answer.resold) AS sale
  LEFT JOIN scheduling_freedunits units ON units.id = (sale ->> 0)::bigint
 WHERE answer.pool_id = %s AND answer.resold IS NOT NULL
 GROUP BY 1
"""


class SoldAgain(NamedTuple):
    """How much of given up units the pool's answers have sold again: `now` without the sales that were taken back, and
    `ever` with them."""

    now: float
    ever: float


def sold_again(pool_id: int) -> dict[int, SoldAgain]:
    """Map the id of given up units to how much of them was sold again."""
    with connection.cursor() as cursor:
        cursor.execute(_SOLD_AGAIN, [pool_id])
        return {number: SoldAgain(now, ever) for number, now, ever in cursor.fetchall()}


def plan_of(job: int, booking: Booking | None, reason: Reason | None) -> Plan:
    """Return an answer as a plan. With both a booking and a reason, the booking was undone because its tenant could no
    longer pay for it."""
    return Plan(
        bookings=() if booking is None else (booking,),
        refusals=() if reason is None else (Refusal(job, reason, REJECTED),),
    )


def given_up_sold(
    phase: str | None,
    tenant_id: int,
    amounts: Mapping[CalendarUnit, float],
    offered: Iterable[tuple[CalendarUnit, GivenUp, float]],
) -> list[tuple[int, float]]:
    """Return (id, amount) of the given up units that are used by a booking of the tenant that takes `amounts`.
    `offered` lists given up units with their place, and their share of the units for sale there.

    A booking uses them in proportion to that share. A job that runs on its tenant's own cells uses first what the
    tenant itself gave up, and nothing that others gave up.
    """
    rest, resold = dict(amounts), []
    for place, units, share in offered:
        if phase != OWN:
            used = amounts.get(place, 0.0) * share
        elif units.tenant_id == tenant_id:
            used = min(rest.get(place, 0.0), units.unsold)
            rest[place] = rest.get(place, 0.0) - used
        else:
            continue
        if used:
            resold.append((units.id, used))
    return resold


def _input(question: Question, job: TrainingJob, freed: Sequence[GivenUp]) -> bytes:
    purse = {"available": question.purse.available, "budget_left": question.purse.budget_left}
    texts = {
        "submission": canonical(submission_document(job, lane=Lane.INSTANT)),
        "purse": canonical(purse),
        "freed": canonical(list(freed)),
        "view": records.view_text(question.view),
    }
    return records.texts_to_bytes(texts)


def question_of(frame: bytes, input_: bytes) -> StoredQuestion:
    """Read the question to the lane from the bytes of its record. `frame` is the stored frame, uncompressed."""
    pool_document, document = json.loads(frame), json.loads(input_)
    cluster = records.cluster_of(pool_document["cluster"])
    submission, purse = document["submission"], document["purse"]
    question = Question(
        cluster=cluster,
        policy=policies.build(pool_document["policy"], cluster, ()),
        share_percent=pool_document["share_percent"],
        view=records.view_of(document["view"], parts_of(cluster).counter),
        purse=Purse(purse["available"], purse["budget_left"]),
        own_limit=submission["spec"].get("max_price"),
    )
    return StoredQuestion(question, submission, [GivenUp(*row) for row in document["freed"]])


@lru_cache(maxsize=CACHE_SIZE)
def _frame(cluster: Cluster, policy: bytes, share_percent: int) -> tuple[str, bytes]:
    """Return digest and compressed content of an answer's frame. They are cached, because the cluster is by far the
    largest part and seldom changes."""
    document = {
        "cluster": records.cluster_document(cluster),
        "policy": json.loads(policy),
        "share_percent": share_percent,
    }
    content = records.to_bytes(document)
    return hashlib.sha256(content).hexdigest(), zlib.compress(content)
