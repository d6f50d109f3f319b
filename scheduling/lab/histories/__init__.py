"""Histories: the log of a cluster that has never heard of a market, read line by line into values."""
