"""A list of jobs in one state in the order of their ids; and no index that is the beginning of another one."""

import django.db.models.deletion
from django.db import migrations, models


def without_index(to: str, **options: bool) -> models.ForeignKey:
    protect = django.db.models.deletion.PROTECT
    return models.ForeignKey(db_index=False, on_delete=protect, related_name="+", to=to, **options)


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0023_audit"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="trainingjob",
            index=models.Index(fields=["tenant", "state", "-id"], name="job_in_state_newest"),
        ),
        migrations.AlterField("trainingjob", "tenant", without_index("tenants.tenant")),
        migrations.AlterField("award", "tenant", without_index("tenants.tenant")),
        migrations.AlterField("award", "job", without_index("scheduling.trainingjob")),
        migrations.AlterField("award", "pool", without_index("scheduling.pool")),
        migrations.AlterField("award", "interval", without_index("scheduling.interval", null=True, blank=True)),
    ]
