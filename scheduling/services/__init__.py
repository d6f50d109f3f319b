"""Everything that changes the cluster. One function per use case, atomic, with its line in the history.

A refusal is a value (`Refused`, with numbers where there are any); an exception is a broken promise. Lock order:
the pool's row, last the end of the history. Under the pool's row lock the operators' changes to one pool happen
one after the other, so what a service has counted stays true until it commits.
"""

from scheduling.services.cells import AboveCapacity as AboveCapacity
from scheduling.services.cells import CellsChange as CellsChange
from scheduling.services.cells import cells_change_of_tenant as cells_change_of_tenant
from scheduling.services.cells import cells_change_on_server as cells_change_on_server
from scheduling.services.pools import pool_create as pool_create
from scheduling.services.servers import BelowCells as BelowCells
from scheduling.services.servers import server_add as server_add
from scheduling.services.servers import server_capacity_change as server_capacity_change
