"""The product's processes on one machine: started in order, started again when they end, stopped by their own ids.

Begin with `product`, which says what runs. `marketplace.embedded` has the PostgreSQL and the Valkey among them.
"""
