"""Servers are called as their clusters call them. The database has no rule of its own about names."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import migrations, models

NAME = RegexValidator(
    r"^[A-Za-z0-9]+([-_.]+[A-Za-z0-9]+)*\Z", "Letters and digits, joined by hyphens, underscores or dots."
)


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0059_interval_bases")]

    operations = [
        migrations.AlterField("server", "name", models.CharField(max_length=60, validators=[NAME])),
    ]
