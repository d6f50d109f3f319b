"""Jobs that were submitted in one act name the array that they are members of."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from scheduling.models.guards import GUARDS

_NAMES = ("array_append_only", "array_never_emptied")
_BACK = "".join(f"DROP TRIGGER {name} ON scheduling_jobarray;" for name in _NAMES)
_PROTECT = django.db.models.deletion.PROTECT


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0039_jobs_after_others"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="JobArray",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                ("indexes", models.JSONField()),
                ("submitted_at", models.DateTimeField()),
                ("pool", models.ForeignKey(on_delete=_PROTECT, related_name="+", to="scheduling.pool")),
                (
                    "submitted_by",
                    models.ForeignKey(null=True, on_delete=_PROTECT, related_name="+", to=settings.AUTH_USER_MODEL),
                ),
                ("tenant", models.ForeignKey(on_delete=_PROTECT, related_name="+", to="tenants.tenant")),
            ],
            options={"ordering": ["id"], "abstract": False, "base_manager_name": "objects"},
        ),
        migrations.AddField(
            model_name="trainingjob",
            name="array",
            field=models.ForeignKey(
                db_index=False, null=True, on_delete=_PROTECT, related_name="+", to="scheduling.jobarray"
            ),
        ),
        migrations.AddField(
            model_name="trainingjob",
            name="array_place",
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddConstraint(
            model_name="trainingjob",
            constraint=models.UniqueConstraint(
                condition=models.Q(("array__isnull", False)), fields=("array", "array_place"), name="job_of_array_once"
            ),
        ),
        migrations.RunSQL(GUARDS.sql(*_NAMES), _BACK),
    ]
