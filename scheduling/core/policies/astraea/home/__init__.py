"""Phase one: what each owner's jobs get from what it owns, free of charge. Nothing here knows what is sold to others.

1. `calendar` is a tenant's home: its own cells, in the world in which it is alone.
2. `floor_search` finds the best schedule of one job there.
3. `floors` plans the jobs that are new, one after the other, and awards what was planned when its time has come.
4. `renewal` plans anew, at every boundary, for tenants who wish it, and settles open rents. `moves` explains why a plan
   moved.
5. `shares` is phase one without the guarantee: a count of units, on any server.
"""
