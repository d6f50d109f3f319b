"""Elastic pools in the live market: jobs are sized anew in every slot, and pay for what they use.

The decisions are made in `core/policies`: `elastic` prices each slot, and asks another policy (Optimus, DL2 and others)
for the numbers of workers and parameter servers. This folder has what else such a pool needs, in the order of a
boundary:

1. `read_slots` reads what its jobs have had so far. `read_reports` reads what their programs report, for policies that
   use it; the reports come in through `runs/reports.py`.
2. `read_weights` reads which trained weights decide the slot, `read_prices` what the operator asks for a unit in it.
   `view/policy.py` makes the policy's settings from both.
3. `boundary` writes what a decided slot leaves beside its awards. `decide/interval.py` calls it.
4. `read_sizes` reads the awards of a job, one for each slot, for people.

`read_targets` has the rule until when a job trains that ends by its loss, and `prices` which amounts are valid prices.
Operators set prices in `operator/use_prices.py`, and `quotes/elastic_quotes.py` quotes what a job would get.
"""

from scheduling.market.elastic.prices import MOST_CREDITS, MOST_PRICE, NOT_ELASTIC, prices_refusal, prices_write
from scheduling.market.elastic.read_prices import UsePricesNow, use_prices, use_prices_of
from scheduling.market.elastic.read_reports import with_reports
from scheduling.market.elastic.read_sizes import MOST_SLOTS, SoFar, award_of_slots, so_far
from scheduling.market.elastic.read_targets import (
    LEAST_THRESHOLD,
    MOST_THRESHOLD,
    PATIENCE,
    THRESHOLD,
    target_check,
    target_of,
)
from scheduling.market.elastic.read_weights import is_learned, promotion_by, settings_in_use, weights_stored

__all__ = [
    "LEAST_THRESHOLD",
    "MOST_CREDITS",
    "MOST_PRICE",
    "MOST_SLOTS",
    "MOST_THRESHOLD",
    "NOT_ELASTIC",
    "PATIENCE",
    "THRESHOLD",
    "SoFar",
    "UsePricesNow",
    "award_of_slots",
    "is_learned",
    "prices_refusal",
    "prices_write",
    "promotion_by",
    "settings_in_use",
    "so_far",
    "target_check",
    "target_of",
    "use_prices",
    "use_prices_of",
    "weights_stored",
    "with_reports",
]
