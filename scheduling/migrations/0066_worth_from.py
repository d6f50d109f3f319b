"""A job's row says from when a worth that names a moment counts. Rows from before have none, and count as before."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0065_cut_after_start")]

    operations = [
        migrations.AddField(
            model_name="trainingjob", name="worth_from", field=models.FloatField(blank=True, null=True)
        ),
    ]
