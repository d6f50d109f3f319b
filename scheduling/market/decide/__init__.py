"""The market's decisions: intervals at slot boundaries, answers of the instant lane, and their plans and promises."""

from scheduling.market.decide.answers import (
    AnswerContents,
    SoldAgain,
    StoredQuestion,
    answer_contents,
    answer_link,
    answer_place,
    given_up_sold,
    plan_of,
    question_of,
    sold_again,
)
from scheduling.market.decide.chain import (
    FEED,
    REACH,
    START,
    answers_name,
    code_version,
    heads_beside,
    intervals_name,
    link,
)
from scheduling.market.decide.cooling_off import cooling
from scheduling.market.decide.estimates import LOOK_BACK, Estimate, estimates_keep, start_estimate
from scheduling.market.decide.instant import answer_again, instant_admit, instant_answer, purse_of
from scheduling.market.decide.interval import batch_policy, frontier_for
from scheduling.market.decide.plans import drafts_after, is_open, longest_told, refunds_of, work_in_pieces, work_left
from scheduling.market.decide.programs import UNITS, Pinned, program_kept, program_of, program_pinned
from scheduling.market.decide.promises import lanes_lock, promises_kept
from scheduling.market.decide.submissions import submission_digest, submission_document, submission_event
from scheduling.market.decide.terms import charges_of, dividend_of
from scheduling.market.decide.verdicts import verdict

__all__ = [
    "FEED",
    "LOOK_BACK",
    "REACH",
    "START",
    "UNITS",
    "AnswerContents",
    "Estimate",
    "Pinned",
    "SoldAgain",
    "StoredQuestion",
    "answer_again",
    "answer_contents",
    "answer_link",
    "answer_place",
    "answers_name",
    "batch_policy",
    "charges_of",
    "code_version",
    "cooling",
    "dividend_of",
    "drafts_after",
    "estimates_keep",
    "frontier_for",
    "given_up_sold",
    "heads_beside",
    "instant_admit",
    "instant_answer",
    "intervals_name",
    "is_open",
    "lanes_lock",
    "link",
    "longest_told",
    "plan_of",
    "program_kept",
    "program_of",
    "program_pinned",
    "promises_kept",
    "purse_of",
    "question_of",
    "refunds_of",
    "sold_again",
    "start_estimate",
    "submission_digest",
    "submission_document",
    "submission_event",
    "verdict",
    "work_in_pieces",
    "work_left",
]
