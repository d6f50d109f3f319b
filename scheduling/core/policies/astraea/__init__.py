"""Astraea, as in the paper and as a market that guarantees each job what it would get if its owner were alone.

To read it, begin with `policy`, whose `_decide_windows` has one boundary in order:

1. `clock` says which windows the boundary opens. `screening` refuses jobs that can never run.
2. The promise is made: `floors` plans what each new job would have if its owner were alone, in the calendar of `home`;
   `renewal` plans drafts anew, and settles open rents. `pieces` has what is left of jobs that were begun.
3. Phase one gives jobs what is theirs: `floors.award_at_home`, or `shares` without the guarantee. `round` keeps what is
   in use.
4. Phase two sells: `renting` offers each job what `pool` has for sale, at its posted prices. `search` finds the job's
   best schedule, among the ways of `candidates`, on the places of `placing`, under the `terms` that it meets. It is
   bought only if its value less its price is more than the floor's.
5. `awards` books it: what the job pays, and who is paid (`rented_booking`). `refusals` says why the others wait.
"""

from scheduling.core.policies.astraea.moves import MoveCause, why_moved
from scheduling.core.policies.astraea.policy import Astraea, build
from scheduling.core.policies.astraea.what_if import OpenDecision

__all__ = ["Astraea", "MoveCause", "OpenDecision", "build", "why_moved"]
