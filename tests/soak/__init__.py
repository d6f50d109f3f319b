"""Markets in which everything may happen in any order: one world, driven by hypothesis or by seeds.

`world.py` has the world and all that may happen in it, `invariants.py` what must hold after each step, `faults.py` the
ways in which a process can die, `engine.py` an engine without processes, `__main__.py` the long runs of `make soak`.
"""
