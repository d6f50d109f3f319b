"""A simulated cluster that loses messages, servers and its own state by seed, below a market that must not mind.

`room.py` is what really runs, second by second; `engine.py` the engine's contract on it, with everything that can go
wrong between the two; `world.py` the market and its time; `checks.py` what must hold of what ran and what was paid;
`__main__.py` the long runs.
"""
