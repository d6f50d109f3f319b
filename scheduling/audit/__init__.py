"""What auditors use as proof: intervals and charges decided again from stored bytes, and signed bundles to take
away."""
