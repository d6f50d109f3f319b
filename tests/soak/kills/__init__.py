"""The whole demonstration, whose processes are killed and stopped at random moments (`make soak-kills`).

Jobs are submitted all the while, by the demonstration and by a program that repeats each call until it is answered.
Afterwards the market settles, and what it says of itself is checked.
"""
