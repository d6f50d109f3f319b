"""What happens to a request or a socket before a view answers: whose it is, in which tenant, how much it may send.

Begin with `middleware`, which opens a tenant's scope for pages; `entrypoints` does it for sockets.
"""
