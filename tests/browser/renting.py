"""A market of one owner who runs nothing and one renter without cells, and the form of a job for it."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.models import Pool
from tenants.models import User
from tenants.roles import OWNER
from tests.browser.conftest import Visitor
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.markets import give, make_market
from tests.tenants.builders import make_member

SLOT_SECONDS = 60  # none ends by itself while somebody looks
# Two mini-batches of each worker and epoch: work for one slot, since the first interval has only one.
FIELDS = {"epochs": "2", "chunks": "4", "minibatches": "4", "minibatch_seconds": "5"}
FIELDS |= {"min_workers": "", "max_workers": "4", "gradient_mb": "", "worker_mbps": "", "ps_mbps": ""}
FIELDS |= {"worth": "100", "loss": "1"}


def market() -> tuple[Pool, User, User]:
    """Castor owns two servers and runs nothing; Lumen has credits and no cells."""
    epoch = timezone.now() - timedelta(seconds=2.3 * SLOT_SECONDS)
    pool, (castor,) = make_market("castor", slot_seconds=SLOT_SECONDS, epoch_at=epoch)
    make_cells(make_server(pool, "s99", worker=4), castor, {"worker": 4, "ps": 2})
    lumen = make_tenant("lumen")
    give(lumen, 1_000)
    pool_advance(pool_id=pool.pk, at=timezone.now())
    return pool, make_member(lumen, OWNER).user, make_member(castor, OWNER).user


def fill(one: Visitor, name: str) -> None:
    one.page.fill("#id_name", name)
    for field, value in FIELDS.items():
        one.page.fill(f"#id_{field}", value)
