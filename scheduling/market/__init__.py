"""The market itself: what is on sale, what is decided, what is paid, and how it is shown.

Each folder is a room. `reads` reads the state of the market for people, `view` reads it for the core. `calendar` keeps
who holds which unit, and the locks of the lanes. `elastic` has what is special about elastic pools. `prices` publishes
prices. `settle` pays for slots that are over and makes refunds. `decide` decides about jobs, at a slot boundary (batch
lane) and at once (instant lane). `pages` and `api` show it all.
"""
