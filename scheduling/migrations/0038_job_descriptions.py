"""A job keeps what its submitter said, where that was in hours or a batch script."""

import django.db.models.deletion
from django.db import migrations, models

from scheduling.models.guards import GUARDS

_NAMES = ("description_append_only", "description_never_emptied")
_BACK = "".join(f"DROP TRIGGER {name} ON scheduling_jobdescription;" for name in _NAMES)
_HOW = ["hours", "script"]


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0037_programs")]

    operations = [
        migrations.CreateModel(
            name="JobDescription",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="scheduling.trainingjob",
                    ),
                ),
                ("how", models.CharField(choices=[("hours", "Hours"), ("script", "Script")], max_length=8)),
                ("said", models.JSONField()),
                ("lines", models.JSONField(default=list)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("how__in", _HOW)), name="description_known"),
                ],
            },
        ),
        migrations.RunSQL(GUARDS.sql(*_NAMES), _BACK),
    ]
