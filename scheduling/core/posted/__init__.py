"""The parts that policies which sell at posted prices have in common.

`bounds` are those of the prices, `tariff` is what the next unit costs, `market` has what is for sale, and `home` a
tenant's own idle cells. `menu` prices each completion slot of a job, and `answers` books the one that was chosen, with
the rows of `pieces`.
"""
