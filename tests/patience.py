"""How long a test waits for something that must happen."""

# Seconds. Only something that never happens takes so long: a test checks again and again for what it waits for, and a
# machine that stands still for a minute is no fault of the product.
PATIENCE = 300.0
