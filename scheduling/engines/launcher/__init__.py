"""The launcher, which all engines share: a small program that watches over a gang's processes from start to end.

It needs the standard library alone, of Python 3.9 or newer, because it also runs on the machines of a cluster.
"""
