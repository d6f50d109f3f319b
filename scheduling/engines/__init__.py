"""What carries awards out: programs that may run, and the runners that start, watch and stop them."""
