"""What is set of a market before it decides: its settings, when it decides, and the price base that follows from jobs.

`settings` reads a scenario's policy. `estimates` says what a unit-slot is worth to given jobs, from which the defaults
follow, and `trailing` lets the price base follow recent jobs. `clock` says which windows a boundary opens.
"""
