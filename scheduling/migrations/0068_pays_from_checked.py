"""All awards are looked at for the rules about `pays_from`, while others read and write."""

from __future__ import annotations

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("scheduling", "0067_pays_from")]

    operations = [
        ValidateConstraint(model_name="award", name="award_alive_is_cut_after_its_start"),
        ValidateConstraint(model_name="award", name="award_pays_on_after_its_cut"),
    ]
