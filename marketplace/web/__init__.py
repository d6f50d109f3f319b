"""The web process: what happens to a request, a form or a socket before and after the product's own code.

Begin with `process`, which starts it, and `handler`, which answers one request when it is its tenant's turn (`turns`).
"""
