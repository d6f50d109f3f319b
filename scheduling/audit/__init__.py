"""The proof that auditors use: intervals and charges decided again from stored bytes, and signed bundles."""
