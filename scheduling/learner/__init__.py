"""Learning beside an elastic pool: outside the market's lane, from the pool's own slots, without effect until
promoted."""
