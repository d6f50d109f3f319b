"""What would have happened if a job had said something else: asked, worked out apart from the market, and shown."""
