"""When an award was made, in its own row: what a tenant spent in a period is found by an index."""

from django.db import migrations, models
from django.db.models import Q

_FILL = """
UPDATE scheduling_award AS award SET awarded_at = coalesce(
    (SELECT decided_at FROM scheduling_interval WHERE id = award.interval_id),
    (SELECT submitted_at FROM scheduling_trainingjob WHERE id = award.job_id))
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0013_jobs_pages")]

    operations = [
        migrations.AddField("award", "awarded_at", models.DateTimeField(null=True)),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
        migrations.AlterField("award", "awarded_at", models.DateTimeField()),
        migrations.AddIndex(
            "award",
            models.Index(fields=["tenant", "awarded_at"], condition=Q(paid__gt=0), name="award_paid_in_period"),
        ),
    ]
