"""The published schema as pages to read: what there is, how each operation is called, and what it answers."""
