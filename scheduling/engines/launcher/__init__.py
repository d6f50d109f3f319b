"""What every engine shares: one small program that watches over the processes of a gang from their slot to its end.

It needs the standard library alone, of Python 3.9 or newer, because it also runs on the machines of a cluster.
"""
