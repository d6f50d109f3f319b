"""The home of operators and auditors: the whole market on one page, and what needs a decision."""
