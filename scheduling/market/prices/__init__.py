"""The prices that the market publishes: posted ones of the instant lane, and prices of use of elastic pools."""

from scheduling.market.prices.of_use import MOST_CREDITS, MOST_PRICE, NOT_ELASTIC, prices_refusal, prices_write
from scheduling.market.prices.read_of_use import UsePricesNow, use_prices, use_prices_of

__all__ = [
    "MOST_CREDITS",
    "MOST_PRICE",
    "NOT_ELASTIC",
    "UsePricesNow",
    "prices_refusal",
    "prices_write",
    "use_prices",
    "use_prices_of",
]
