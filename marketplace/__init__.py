"""Wiring of the product: settings, addresses, processes. No rules of the market are here."""

import os

# Every process imports this first. Libraries of linear algebra that use several threads add up in several parts, so
# that the last digits, and with them the decisions of a trained network, would depend on the number of threads.
# Besides, several processes share the cores.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
