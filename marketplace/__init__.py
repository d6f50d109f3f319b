"""Wiring: settings, addresses, processes. No rules of the market live here."""

import os

# Every process imports this first. Threads of linear algebra add up in parts of their own, so that last digits, and
# with them what a trained network decides, would depend on how many there are; and several processes share the cores.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
