"""How long a test waits for what must come."""

# Seconds. Only what never comes takes so long: whatever is waited for is asked for again and again, and a machine that
# stands still for a minute is no fault of the product.
PATIENCE = 300.0
