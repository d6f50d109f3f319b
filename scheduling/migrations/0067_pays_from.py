"""An award that was given up, and that the platform had failed by then, pays on (0350): its row says from which slot.

Each step takes no longer than a look at the table's definition; `0068_pays_from_checked` looks at the rows.
"""

from __future__ import annotations

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import F, Q

ALIVE = ["booked", "running"]


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0066_worth_from")]

    operations = [
        migrations.AddField(model_name="award", name="pays_from", field=models.BigIntegerField(blank=True, null=True)),
        migrations.RemoveConstraint(model_name="award", name="award_alive_is_cut_after_its_start"),
        AddConstraintNotValid(
            model_name="award",
            constraint=models.CheckConstraint(
                condition=~Q(state__in=ALIVE)
                | Q(cut_at__isnull=True)
                | Q(cut_at__gt=F("start"))
                | Q(pays_from__isnull=False),
                name="award_alive_is_cut_after_its_start",
            ),
        ),
        AddConstraintNotValid(
            model_name="award",
            constraint=models.CheckConstraint(
                condition=Q(pays_from__isnull=True)
                | ~Q(state="void") & Q(cut_at__isnull=False, cut_at__lt=F("pays_from"), pays_from__lt=F("end")),
                name="award_pays_on_after_its_cut",
            ),
        ),
    ]
