"""The market itself: what is on sale, what is decided, what is paid, and how it is shown.

Each folder is a room. `reads` and `view` say how things stand, to people and to the core; `calendar` keeps who holds
which unit, and the locks of the lanes; `elastic` has what is special about elastic pools; `prices` publishes; `settle`
pays the end of a slot and gives back; `decide` answers, at a boundary and at once; `pages` and `api` show it.
"""
