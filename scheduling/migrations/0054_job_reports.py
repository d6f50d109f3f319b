"""What programs of elastic pools reported, and what follows from it. Jobs that run already are heard from now on."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0053_pieces"),
        ("tenants", "0004_history_names_seals"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobReport",
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
                ("heard_at", models.DateTimeField()),
                ("losses", models.JSONField(blank=True, default=list)),
                ("speeds", models.JSONField(blank=True, default=list)),
                ("speed", models.JSONField(blank=True, default=list)),
                ("source", models.CharField(blank=True, max_length=10)),
                ("epochs_left", models.FloatField(blank=True, null=True)),
                ("epochs_low", models.FloatField(blank=True, null=True)),
                ("epochs_high", models.FloatField(blank=True, null=True)),
                ("curve", models.JSONField(blank=True, default=list)),
                ("first_after", models.PositiveIntegerField(blank=True, null=True)),
                ("first_low", models.FloatField(blank=True, null=True)),
                ("first_high", models.FloatField(blank=True, null=True)),
                ("ended_after", models.PositiveIntegerField(blank=True, null=True)),
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
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_after__isnull", False), ("first_after__isnull", False)),
                        fields=["tenant", "-job"],
                        name="report_that_was_foretold",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("epochs_left__isnull", True),
                            models.Q(
                                ("epochs_left__lte", models.F("epochs_high")),
                                ("epochs_low__lte", models.F("epochs_left")),
                            ),
                            _connector="OR",
                        ),
                        name="report_outlook_in_its_range",
                    )
                ],
            },
        ),
    ]
