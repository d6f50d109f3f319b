"""What needs no live market: runs, comparisons, repeated figures of papers, training of networks."""
