"""Where a gang fits: `room` has what is free, `placing` finds the servers of one gang, `minima` looks up the least of a
row of slots.
"""
