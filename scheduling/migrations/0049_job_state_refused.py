"""People read "Refused" where the code says rejected. Nothing changes in the database."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0048_sums_by_hour")]

    operations = [
        migrations.AlterField(
            model_name="trainingjob",
            name="state",
            field=models.CharField(
                choices=[
                    ("queued", "Queued"),
                    ("awarded", "Awarded"),
                    ("running", "Running"),
                    ("finished", "Finished"),
                    ("rejected", "Refused"),
                    ("expired", "Expired"),
                    ("cancelled", "Cancelled"),
                    ("failed", "Failed"),
                    ("stopped", "Stopped"),
                ],
                default="queued",
                max_length=10,
            ),
        ),
    ]
