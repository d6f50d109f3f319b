"""A job may wait until others of its tenant have ended well."""

from django.db import migrations, models

HELD = 2**53


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0038_job_descriptions")]

    operations = [
        migrations.AddField(
            model_name="trainingjob",
            name="after",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddIndex(
            model_name="trainingjob",
            index=models.Index(
                condition=models.Q(("not_before", HELD), ("state", "queued")),
                fields=["pool", "id"],
                name="job_held",
            ),
        ),
    ]
