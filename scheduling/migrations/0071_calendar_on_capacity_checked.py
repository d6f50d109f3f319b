"""All rows of the calendar are looked at for the key on capacities, while others read and write."""

from __future__ import annotations

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("scheduling", "0070_calendar_on_capacity")]

    operations = [ValidateConstraint(model_name="calendarcell", name="calendar_on_capacity")]
