"""What one job may do, whatever is free and whatever it costs.

`candidates` lists the ways to run a job: with how many workers, for how many slots, on one server or on several. `many`
does the same for a whole queue at once. `rests` has what is left of a job that was begun, and what it is worth.
"""
