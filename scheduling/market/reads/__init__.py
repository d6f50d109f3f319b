"""Read the market as people and programs see it at a moment. Nothing here writes."""

from scheduling.market.reads.anonymous import AwardSeen, awards_seen
from scheduling.market.reads.award_prices import Factor, decided_award
from scheduling.market.reads.explain import (
    JobView,
    ReasonInWords,
    begun_read,
    first_slot,
    has_several,
    job_view,
    paid_beside,
    reason_in_words,
)
from scheduling.market.reads.intervals import PAGE, UNKNOWN_INTERVAL, IntervalView, interval_list, interval_view
from scheduling.market.reads.missed_slots import slots_missed
from scheduling.market.reads.now import is_late
from scheduling.market.reads.owner_shares import OwnerShare, owners_now
from scheduling.market.reads.payee_names import NamedPayee, payees
from scheduling.market.reads.payments import payments_of_latest
from scheduling.market.reads.period import period_money, total
from scheduling.market.reads.prices import prices_now
from scheduling.market.reads.public_intervals import interval_public, interval_rows
from scheduling.market.reads.share_units import ResourceShare, holdings_in, units_now
from scheduling.market.reads.stored_intervals import READING_ERRORS, REPLAY_ERRORS, Contents, contents_of, unpacked
from scheduling.market.reads.windows import WindowSpan, slots_dealt, spans_of
from scheduling.reasons import jobs_named, reason_few, reason_help, reason_sentence, slots_words, units_words

__all__ = [
    "PAGE",
    "READING_ERRORS",
    "REPLAY_ERRORS",
    "UNKNOWN_INTERVAL",
    "AwardSeen",
    "Contents",
    "Factor",
    "IntervalView",
    "JobView",
    "NamedPayee",
    "OwnerShare",
    "ReasonInWords",
    "ResourceShare",
    "WindowSpan",
    "awards_seen",
    "begun_read",
    "contents_of",
    "decided_award",
    "first_slot",
    "has_several",
    "holdings_in",
    "interval_list",
    "interval_public",
    "interval_rows",
    "interval_view",
    "is_late",
    "job_view",
    "jobs_named",
    "owners_now",
    "paid_beside",
    "payees",
    "payments_of_latest",
    "period_money",
    "prices_now",
    "reason_few",
    "reason_help",
    "reason_in_words",
    "reason_sentence",
    "slots_dealt",
    "slots_missed",
    "slots_words",
    "spans_of",
    "total",
    "units_now",
    "units_words",
    "unpacked",
]
