"""The best schedule of one job in a window.

1. `terms` are what the job meets: the room, the limits that it is under, and what a unit costs in each slot.
2. `pieces` are the parts of a divisible job that a window may sell.
3. `search` tries ways, starts and places by the bound of what they could bring; `dividend` is what a gain costs besides
   the price.
4. `schedule` has both answers: a schedule, or the reason why there is none.
"""
