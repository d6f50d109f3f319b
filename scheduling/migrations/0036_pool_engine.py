"""A pool names its engine. Those that are there run on the machine of the product, as before."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import migrations, models

WORD = RegexValidator(r"^[a-z0-9]+([-_][a-z0-9]+)*\Z", "Small letters and digits, joined by single hyphens.")


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0035_run_reference")]

    operations = [
        migrations.AddField("pool", "engine", models.CharField(default="local", max_length=20, validators=[WORD])),
    ]
