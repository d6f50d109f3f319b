"""Parameter-server training, one process for each role: coordinator, parameter server, worker.

Each is `python -m scheduling.engines.trainer`. It imports numpy, the standard library and `scheduling.core`, nothing
else, so that it starts fast and needs neither settings nor a database.
"""
