"""Each resource says which amounts one unit may take: whole numbers, until the operator says otherwise."""

from decimal import Decimal

from django.db import migrations, models
from django.db.models.functions import Mod
from django.db.models.lookups import Exact


def _amount() -> models.DecimalField:
    return models.DecimalField(decimal_places=6, default=Decimal(1), max_digits=15)


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0030_void_awards_to_settle")]

    operations = [
        migrations.AddField("resourcekind", "least", _amount()),
        migrations.AddField("resourcekind", "step", _amount()),
        migrations.AddConstraint(
            "resourcekind",
            models.CheckConstraint(condition=models.Q(("least__gt", 0), ("step__gt", 0)), name="resource_has_steps"),
        ),
        migrations.AddConstraint(
            "resourcekind",
            models.CheckConstraint(condition=Exact(Mod("least", "step"), Decimal(0)), name="resource_least_is_steps"),
        ),
    ]
