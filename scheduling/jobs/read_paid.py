"""What a job has paid for beside one of its awards, for lists that read one award of each job."""

from __future__ import annotations

from django.db.models import BigIntegerField, Case, F, OuterRef, Subquery, Sum, When
from django.db.models.functions import Coalesce

from scheduling.models import Award


def paid_beside() -> Case:
    """Micro-credits, less what came back: of a job that goes on in pieces the sum of its other awards, of any other
    what its award says itself. Costs nothing where no job is in pieces."""
    others = Award.objects.filter(job=OuterRef("job"), work__isnull=False).exclude(pk=OuterRef("pk")).order_by()
    total = others.values("job").annotate(total=Sum(F("paid") - F("returned"))).values("total")
    beside = Coalesce(Subquery(total), 0, output_field=BigIntegerField())
    return Case(When(work__isnull=False, then=beside), default=F("paid_before"), output_field=BigIntegerField())
