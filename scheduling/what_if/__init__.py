"""What-if questions: what would have happened if a job had reported something else.

They are asked, worked out apart from the market, and shown.
"""
