"""Learning beside an elastic pool: off the market's lane, from the pool's own slots, without effect until promoted."""
