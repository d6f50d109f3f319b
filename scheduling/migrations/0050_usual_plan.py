"""A pool says how jobs are planned at home for tenants that said nothing. Pools that exist keep what they had."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0049_job_state_refused")]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="usual_plan",
            field=models.CharField(
                choices=[("keep", "Keep"), ("renew", "Renew")], db_default="keep", default="keep", max_length=5
            ),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(("usual_plan__in", ["keep", "renew"])), name="pool_usual_plan_known"
            ),
        ),
    ]
