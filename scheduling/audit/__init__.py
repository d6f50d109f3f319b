"""What auditors prove: intervals and charges decided again from stored bytes, and signed bundles to take away."""
