"""Jobs of an array may be bought together. Those that exist are bought one by one."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0050_usual_plan")]

    operations = [
        migrations.AddField(
            model_name="trainingjob",
            name="together",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
