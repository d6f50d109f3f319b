"""Payments of the market: settlement of each slot, refunds, outages, and held credits that were never paid out."""

from scheduling.market.settle.payments import hold_key, parts_by_account, rent_refund_key, settle_key
from scheduling.market.settle.refunds import (
    AT_ONCE,
    Cause,
    HoldMissing,
    Next,
    awards_beside,
    awards_void,
    cut_told,
    job_waits_after_its_end,
    jobs_locked,
    refunds_post,
    slots_pay_back,
)
from scheduling.market.settle.resale import sales_return
from scheduling.market.settle.run_states import RESERVATION_ENDED, not_heard_of

__all__ = [
    "AT_ONCE",
    "RESERVATION_ENDED",
    "Cause",
    "HoldMissing",
    "Next",
    "awards_beside",
    "awards_void",
    "cut_told",
    "hold_key",
    "job_waits_after_its_end",
    "jobs_locked",
    "not_heard_of",
    "parts_by_account",
    "refunds_post",
    "rent_refund_key",
    "sales_return",
    "settle_key",
    "slots_pay_back",
]
