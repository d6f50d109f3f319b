"""Histories: logs of clusters without a market, read line by line into values."""
