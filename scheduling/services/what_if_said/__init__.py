"""What would have happened if a job had said something else: asked, worked out apart from the market, and shown."""

from scheduling.services.what_if_said.asking import what_if_cancel as what_if_cancel
from scheduling.services.what_if_said.asking import what_if_fields as what_if_fields
from scheduling.services.what_if_said.asking import what_if_read as what_if_read
from scheduling.services.what_if_said.asking import what_if_start as what_if_start
from scheduling.services.what_if_said.asking import what_ifs_newest as what_ifs_newest
from scheduling.services.what_if_said.otherwise import Misasked as Misasked
from scheduling.services.what_if_said.seen import JobRow as JobRow
from scheduling.services.what_if_said.seen import PriceRow as PriceRow
from scheduling.services.what_if_said.seen import Result as Result
from scheduling.services.what_if_said.seen import TenantRow as TenantRow
from scheduling.services.what_if_said.seen import WhatIfSeen as WhatIfSeen
from scheduling.services.what_if_said.working import what_ifs_round as what_ifs_round
