"""Astraea, as in the paper and as a market that guarantees each job what it would get if its owner were alone.

To read it, begin with `policy`, whose `_decide_windows` has one boundary in order:

1. `rules.clock` says which windows the boundary opens. `window.screening` refuses jobs that can never run.
2. The promise is made: `home` plans what each new job would have if its owner were alone, plans drafts anew, and
   settles open rents. `ways.rests` has what is left of jobs that were begun.
3. Phase one gives jobs what is theirs: `home.floors`, or `home.shares` without the guarantee. `window.round` keeps what
   is in use.
4. Phase two sells: `renting` offers each job what is left, at posted prices. `schedules` finds the job's best schedule
   among its `ways`, on the `places` that are free. It is bought only if its value less its price is more than the
   floor's.
5. `renting.payments` books it: what the job pays, and who is paid. `window.refusals` says why the others wait.

`together` serves jobs that are bought together or not at all, in both phases. `what_if` asks what would become of one
more job. A contract in `pyproject.toml` has the order of the rooms: each knows those below it alone, and `home` and
`renting` do not know each other.
"""

from scheduling.core.policies.astraea.home.moves import MoveCause, why_moved
from scheduling.core.policies.astraea.policy import Astraea, build
from scheduling.core.policies.astraea.what_if import OpenDecision

__all__ = ["Astraea", "MoveCause", "OpenDecision", "build", "why_moved"]
