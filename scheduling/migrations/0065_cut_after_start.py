"""An award that is alive is cut after its first slot at the earliest, and old rows are mended beside a market at work.

The rule holds for new rows from its first moment on. Then the few living awards that break it are mended: they were cut
at their start by a program that ended before its slot. At last all rows are looked at, while others read and write.
Each statement is committed by itself; whoever repeats the migration after a kill goes on.
"""

from __future__ import annotations

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import F, Q

# Read by the index of living awards. What is sold of the units that they gave up stays sold, for their account.
MENDED = """
UPDATE scheduling_award SET cut_at = CASE WHEN "end" > start + 1 THEN start + 1 END
 WHERE state IN ('booked', 'running') AND cut_at <= start
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("scheduling", "0064_submissions")]

    operations = [
        AddConstraintNotValid(
            model_name="award",
            constraint=models.CheckConstraint(
                condition=~Q(state__in=["booked", "running"]) | Q(cut_at__isnull=True) | Q(cut_at__gt=F("start")),
                name="award_alive_is_cut_after_its_start",
            ),
        ),
        migrations.RunSQL(MENDED, migrations.RunSQL.noop),
        ValidateConstraint(model_name="award", name="award_alive_is_cut_after_its_start"),
    ]
