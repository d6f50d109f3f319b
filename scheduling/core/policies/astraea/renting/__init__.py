"""Phase two: what is left is sold at posted prices, and each payment is divided among the owners of what was for sale.

1. `pool` has what each owner sells in each slot, and the price.
2. `offers` lets the jobs buy in order of arrival. A job buys what is worth more than its price and than what it has.
3. `prospects` finds beforehand which jobs could gain by a piece at all.
4. `payments` books what was bought: what the job pays, and who is paid. A dividend on top is that of
   `schedules.dividend`, because the search for a schedule must know it.
"""
