"""One window while it is decided.

`screening` refuses jobs that can never run. `round` keeps what is in use and what was awarded. `awards` makes bookings,
and `refusals` says why the others wait.
"""
